/* Buckets of histograms and their sums. tests/bench/test_iobench_output.py checks what is recorded of them. */
#include "iobench/hist.h"

#include <string.h>

#include "common/tests/tap.h"

#define VALUES 20000

static uint64_t values[VALUES];

/* The 64-bit congruential generator of Numerical Recipes: the test shares no code with the tested program. */
static uint64_t random_word(void)
{
    static uint64_t state = 1;

    state = state * UINT64_C(3935559000370003845) + UINT64_C(2691343689449507681);
    return state >> 8 ^ state << 40;
}

static uint64_t of_any_size(size_t index)
{
    return random_word() >> (24 + index % 40);
}

static void fill(struct hist *hist)
{
    memset(hist, 0, sizeof *hist);
    for (size_t index = 0; index < VALUES; index++) {
        values[index] = of_any_size(index);
        hist_add(hist, values[index]);
    }
}

static void check_bounds(void)
{
    static struct hist hist;
    bool narrow = hist_bound(0) == 0, inside = true;

    for (unsigned bucket = 0; bucket < HIST_BUCKETS; bucket++) {
        uint64_t lower = hist_bound(bucket), upper = hist_bound(bucket + 1);

        narrow &= upper > lower && (upper - lower == 1 || upper - lower <= lower >> HIST_BITS);
        memset(&hist, 0, sizeof hist);
        hist_add(&hist, lower);
        hist_add(&hist, upper - 1);
        inside &= hist.buckets[bucket] == 2;
    }
    memset(&hist, 0, sizeof hist);
    hist_add(&hist, UINT64_MAX);
    tap_ok(hist.buckets[HIST_BUCKETS - 1] == 1 && hist.most == UINT64_MAX, "the last bucket has all larger values");
    tap_ok(narrow, "buckets follow each other and are narrow");
    tap_ok(inside, "both ends of a bucket fall into it");
    tap_ok(hist_bound(HIST_BUCKETS) == UINT64_C(1) << HIST_TOP, "the last bucket ends at the top");
}

/* Part 0 has the larger values, part 1 the smaller; each is merged into the other. */
static void check_merge(void)
{
    static struct hist whole, parts[2];

    for (unsigned into = 0; into < 2; into++) {
        fill(&whole);
        memset(&parts[0], 0, sizeof parts[0]);
        memset(&parts[1], 0, sizeof parts[1]);
        for (size_t index = 0; index < VALUES; index++)
            hist_add(&parts[values[index] < 1000], values[index]);
        hist_merge(&parts[into], &parts[!into]);
        tap_ok(!memcmp(&parts[into], &whole, sizeof whole), "merged parts are the whole");
        memset(&parts[!into], 0, sizeof parts[!into]);
        hist_merge(&parts[into], &parts[!into]);
        tap_ok(!memcmp(&parts[into], &whole, sizeof whole), "an empty part changes nothing");
    }
}

int main(void)
{
    check_bounds();
    check_merge();
    return tap_done();
}
