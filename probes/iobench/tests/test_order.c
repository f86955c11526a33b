/* Orders of records: complete and unbiased. tests/bench/test_iobench_order.py tests those of seeds and of Mobibench. */
#include "iobench/order.h"

#include <errno.h>
#include <stdlib.h>

#include "common/tests/tap.h"

static const struct {
    uint64_t nr_records;
    unsigned overlap;
    uint64_t distinct;
} cases[] = {
    {1, 0, 1},      {2, 0, 2},       {3, 0, 3},      {1000, 0, 1000}, {4097, 0, 4097}, {256, 25, 192},
    {256, 50, 128}, {256, 75, 64},   {16, 99, 1},    {16, 100, 1},    {1, 100, 1},     {10, 5, 10},
    {1000, 99, 10}, {1001, 50, 501}, {150, 33, 101}, {99, 1, 99},
};

/* Return the number of different records in an order; 0 if one of them does not exist. */
static uint64_t distinct(const struct order *order)
{
    unsigned char *seen = calloc(order->nr_records, 1);
    uint64_t found = 0;

    for (uint64_t number = 0; seen && number < order->nr_records; number++) {
        uint64_t record = order_at(order, number);

        if (record >= order->nr_records) {
            found = 0;
            break;
        }
        found += !seen[record];
        seen[record] = 1;
    }
    free(seen);
    return found;
}

static void check_case(uint64_t nr_records, unsigned overlap, uint64_t expected)
{
    struct order order;
    uint64_t found = 0;

    if (!order_random(&order, nr_records, overlap, 42, RNG_WRITES, 0)) {
        found = distinct(&order);
        order_free(&order);
    }
    tap_ok(found == expected, "random: %llu records, %u %% overlap: %llu distinct", (unsigned long long)nr_records,
           overlap, (unsigned long long)found);
}

/* Return the index of a permutation of four, from 0 to 23. */
static unsigned number_of(const struct order *order)
{
    unsigned number = 0;

    for (unsigned place = 0; place < 4; place++) {
        unsigned smaller = 0;

        for (unsigned behind = place + 1; behind < 4; behind++)
            smaller += order_at(order, behind) < order_at(order, place);
        number = number * (4 - place) + smaller;
    }
    return number;
}

/* All orders of four records are equally likely; the limit is the 99.9 % point for 23 degrees of freedom. Mobibench's
 * shuffle, which swaps each with any, gives a chi-square of more than 1000 here. */
static void check_unbiased(void)
{
    enum { SEEDS = 48000, ORDERS = 24 };
    unsigned counts[ORDERS] = {0};
    double expected = (double)SEEDS / ORDERS, chi = 0;
    struct order order;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (order_random(&order, 4, 0, seed, RNG_READS, 0))
            break;
        counts[number_of(&order)]++;
        order_free(&order);
    }
    for (unsigned number = 0; number < ORDERS; number++)
        chi += (counts[number] - expected) * (counts[number] - expected) / expected;
    tap_ok(chi < 49.73, "the permutations of four are equally likely: chi-square %.1f", chi);
}

/* With overlap every record is equally likely to stay and to be first. Repetitions may come early, not only after those
 * that stay. */
static void check_overlap_unbiased(void)
{
    enum { SEEDS = 20000, RECORDS = 8 };
    unsigned first[RECORDS] = {0}, early = 0;
    double expected = (double)SEEDS / RECORDS, chi = 0;
    struct order order;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (order_random(&order, RECORDS, 50, seed, RNG_READS, 0))
            break;
        first[order_at(&order, 0)]++;
        early += order_at(&order, 0) == order_at(&order, 1);
        order_free(&order);
    }
    for (unsigned record = 0; record < RECORDS; record++)
        chi += (first[record] - expected) * (first[record] - expected) / expected;
    tap_ok(early > SEEDS / 20, "a record comes twice in a row at once: %u of %d", early, SEEDS);
    tap_ok(chi < 24.32, "with overlap each record is as likely to come first: chi-square %.1f", chi);
}

static void check_sequence(void)
{
    struct order order;

    order_sequential(&order, 5);
    tap_ok(order_at(&order, 0) == 0 && order_at(&order, 4) == 4 && order_at(&order, 5) == 0 &&
               order_at(&order, 13) == 3,
           "in sequence, and around");
    order_free(&order);
    tap_ok(!order_random(&order, 5, 0, 1, RNG_KEYS, 0) && order_at(&order, 7) == order_at(&order, 2),
           "random, and around");
    order_free(&order);
    errno = 0;
    tap_ok(order_random(&order, UINT64_MAX / 2, 0, 1, RNG_READS, 0) == -1 && errno == ENOMEM, "more than memory holds");
}

int main(void)
{
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        check_case(cases[index].nr_records, cases[index].overlap, cases[index].distinct);
    check_unbiased();
    check_overlap_unbiased();
    check_sequence();
    return tap_done();
}
