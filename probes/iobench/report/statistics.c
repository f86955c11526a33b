#define _GNU_SOURCE
#include <stdlib.h>

#include "iobench/report/results.h"

#define STEADY_WINDOWS       5
#define STEADY_RANGE_PERCENT 20
#define STEADY_SLOPE_PERCENT 10

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/*
 * How many of the smallest, and of the largest, of `count` values may be left out so that the median of what they were
 * drawn from lies among the others with 95 % probability: the most that a binomial variable of `count` fair coins stays
 * at or below with 2.5 %. Coefficients are taken relative to the middle one, so that none overflows.
 */
static int left_out(int count)
{
    double below = 0, total, coefficient = 1;
    int heads;

    for (heads = count / 2; heads >= 0; heads--) {
        below += coefficient;
        coefficient *= (double)heads / (count - heads + 1);
    }
    total = 2 * below - (count % 2 ? 0 : 1);
    coefficient = 1;
    for (heads = count / 2; below > 0.025 * total; heads--) {
        below -= coefficient;
        coefficient *= (double)heads / (count - heads + 1);
    }
    return heads;
}

struct estimate results_estimate(const struct bench_results *results, int point,
                                 double (*measure)(const struct bench_result *))
{
    double *values = calloc(results->count ? results->count : 1, sizeof *values);
    struct estimate estimate = {0};
    int count = 0, first;

    for (size_t index = 0; values && index < results->count; index++) {
        const struct bench_result *result = &results->items[index];

        if (result->point == point && result_valid(result) && result->seconds > 0)
            values[count++] = measure(result);
    }
    if (count) {
        qsort(values, (size_t)count, sizeof *values, compare);
        first = count < 6 ? 0 : left_out(count);
        estimate = (struct estimate){.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
                                     .low = values[first],
                                     .high = values[count - 1 - first],
                                     .count = count};
    }
    free(values);
    return estimate;
}

/* Whether the STEADY_WINDOWS windows from `windows` on are steady. Their number is odd: the middle one is at 0. */
static bool steady_at(const struct bench_window *windows)
{
    int64_t sum = 0, moment = 0, spread = 0, least = windows->ops, most = least;

    for (int index = 0; index < STEADY_WINDOWS; index++) {
        int64_t ops = windows[index].ops, place = index - STEADY_WINDOWS / 2;

        sum += ops;
        moment += place * ops;
        spread += place * place;
        least = ops < least ? ops : least;
        most = ops > most ? ops : most;
    }
    /* The line of best fit goes through the mean and rises by moment / spread from window to window. */
    return sum > 0 && (most - least) * STEADY_WINDOWS * 100 <= STEADY_RANGE_PERCENT * sum &&
           llabs(moment) * (STEADY_WINDOWS - 1) * STEADY_WINDOWS * 100 <= STEADY_SLOPE_PERCENT * sum * spread;
}

int64_t results_steady(const struct bench_window *windows, size_t count, int64_t interval_ns)
{
    for (size_t first = 0; first + STEADY_WINDOWS <= count; first++)
        if (steady_at(&windows[first]))
            return (int64_t)first * interval_ns;
    return -1;
}
