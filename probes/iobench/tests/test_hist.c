/* Histograms checked against the values themselves. */
#include "iobench/hist.h"

#include <stdlib.h>
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

static uint64_t any(size_t index)
{
    (void)index;
    return random_word() >> 24;
}

static uint64_t of_any_size(size_t index)
{
    return random_word() >> (24 + index % 40);
}

static uint64_t small(size_t index)
{
    return index % 64;
}

static uint64_t at_bounds(size_t index)
{
    return (UINT64_C(1) << index % 41) + index / 41 % 3 - 1;
}

static uint64_t always_the_same(size_t index)
{
    (void)index;
    return 123456789;
}

static uint64_t one_far_away(size_t index)
{
    return index == 5 ? UINT64_C(999999999999) : 1000;
}

static uint64_t beyond_the_last_bucket(size_t index)
{
    return index % 2 ? UINT64_MAX - index : 7;
}

static uint64_t falling(size_t index)
{
    return (VALUES - index) * 977;
}

static const struct {
    const char *name;
    uint64_t (*value)(size_t index);
    size_t count;
} sets[] = {
    {"any", any, VALUES},
    {"of any size", of_any_size, VALUES},
    {"small", small, VALUES},
    {"at bounds of powers", at_bounds, VALUES},
    {"the same", always_the_same, VALUES},
    {"one far away", one_far_away, VALUES},
    {"beyond the last bucket", beyond_the_last_bucket, VALUES},
    {"falling", falling, VALUES},
    {"a single one", any, 1},
    {"two", any, 2},
    {"three", of_any_size, 3},
    {"a hundred and one", any, 101},
};

static int compare(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;

    return (left > right) - (left < right);
}

static void fill(struct hist *hist, uint64_t (*value)(size_t index), size_t count)
{
    memset(hist, 0, sizeof *hist);
    for (size_t index = 0; index < count; index++) {
        values[index] = value(index);
        hist_add(hist, values[index]);
    }
}

static void check_totals(const struct hist *hist, const char *name, size_t count)
{
    uint64_t sum = 0;

    for (size_t index = 0; index < count; index++)
        sum += values[index];
    tap_ok(hist->count == count && hist->sum == sum && hist->least == values[0] && hist->most == values[count - 1],
           "%s: count, sum, least and most are exact", name);
}

static void check_set(size_t set)
{
    static struct hist hist;

    fill(&hist, sets[set].value, sets[set].count);
    qsort(values, sets[set].count, sizeof *values, compare);
    check_totals(&hist, sets[set].name, sets[set].count);
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
    tap_ok(narrow, "buckets follow each other and are narrow");
    tap_ok(inside, "both ends of a bucket fall into it");
    tap_ok(hist_bound(HIST_BUCKETS) == UINT64_C(1) << HIST_TOP, "the last bucket ends at the top");
}

/* Part 0 has the larger values, part 1 the smaller; each is merged into the other. */
static void check_merge(void)
{
    static struct hist whole, parts[2];

    for (unsigned into = 0; into < 2; into++) {
        fill(&whole, of_any_size, VALUES);
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
    for (size_t set = 0; set < sizeof sets / sizeof *sets; set++)
        check_set(set);
    return tap_done();
}
