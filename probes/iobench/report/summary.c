#include "iobench/report/summary.h"

#include <math.h>
#include <string.h>

static void add_result(struct summary *summary, const struct bench_result *result)
{
    if (!summary->first)
        summary->first = result;
    for (int part = 0; part < NR_PARTS; part++) {
        summary->parts[part].ops += result->parts[part].ops;
        summary->parts[part].bytes += result->parts[part].bytes;
        hist_merge(&summary->parts[part].latency_ns, &result->parts[part].latency_ns);
    }
    usage_add(&summary->usage, &result->usage);
    system_usage_add(&summary->system, &result->run.system);
    summary->seconds += result->seconds;
}

void summarise(struct summary *summary, const struct bench_results *results, int point)
{
    memset(summary, 0, sizeof *summary);
    for (size_t index = 0; index < results->count; index++) {
        const struct bench_result *result = &results->items[index];

        summary->repeats += result->point == point;
        summary->valid += result->point == point && result_valid(result);
    }
    for (size_t index = 0; index < results->count; index++) {
        const struct bench_result *result = &results->items[index];

        if (result->point == point && (result_valid(result) || !summary->valid))
            add_result(summary, result);
    }
}

static struct estimate estimate_of(const struct bench_results *results, const struct summary *summary,
                                   double (*measure)(const struct bench_result *), double done)
{
    struct estimate estimate = results_estimate(results, summary->first->point, measure);

    if (!estimate.count)
        estimate.median = estimate.low = estimate.high = summary->seconds > 0 ? done / summary->seconds : NAN;
    return estimate;
}

struct estimate summary_iops(const struct bench_results *results, const struct summary *summary)
{
    return estimate_of(results, summary, result_iops, (double)summary->parts[PART_OP].ops);
}

struct estimate summary_bandwidth(const struct bench_results *results, const struct summary *summary)
{
    return estimate_of(results, summary, result_bandwidth, (double)summary->parts[PART_OP].bytes);
}
