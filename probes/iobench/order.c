#include "iobench/bench.h"

static int make(struct order *order, uint64_t nr_records)
{
    order->nr_records = nr_records;
    order->records =
        nr_records > SIZE_MAX / sizeof *order->records ? NULL : malloc(nr_records * sizeof *order->records);
    if (!order->records) {
        errno = ENOMEM;
        return -1;
    }
    for (uint64_t record = 0; record < nr_records; record++)
        order->records[record] = record;
    return 0;
}

static void swap(uint64_t *one, uint64_t *other)
{
    uint64_t kept = *one;
    *one = *other;
    *other = kept;
}

static void shuffle(struct order *order, struct rng *rng)
{
    for (uint64_t left = order->nr_records; left > 1; left--)
        swap(&order->records[left - 1], &order->records[rng_below(rng, left)]);
}

/* Return how many records are not replaced. nr_records * overlap could overflow. */
static uint64_t staying(uint64_t nr_records, unsigned overlap)
{
    uint64_t stay = nr_records - (nr_records / 100 * overlap + nr_records % 100 * overlap / 100);
    return stay ? stay : 1;
}

int order_random(struct order *order, uint64_t nr_records, unsigned overlap, uint64_t seed, enum rng_use use,
                 uint32_t worker)
{
    uint64_t stay = staying(nr_records, overlap);
    struct rng rng;
    if (make(order, nr_records))
        return -1;
    rng_seed(&rng, seed, rng_stream(use, worker));
    shuffle(order, &rng);
    if (stay == nr_records)
        return 0;
    for (uint64_t replaced = stay; replaced < nr_records; replaced++)
        order->records[replaced] = order->records[rng_below(&rng, stay)];
    shuffle(order, &rng);
    return 0;
}

/* Swap each record with any other. Of the n^n outcomes, which n! does not divide, some orders are more likely than
 * others. */
static void shuffle_biased(struct order *order, struct mt64 *mt)
{
    for (uint64_t record = 0; record < order->nr_records; record++)
        swap(&order->records[record], &order->records[mt64_next(mt) % order->nr_records]);
}

int order_mobibench(struct order *order, uint64_t nr_records, unsigned overlap)
{
    static const uint64_t key[] = {0x12345, 0x23456, 0x34567, 0x45678};
    uint64_t stay = staying(nr_records, overlap);
    struct mt64 mt;
    if (make(order, nr_records))
        return -1;
    mt64_seed_array(&mt, key, sizeof key / sizeof *key);
    if (stay < nr_records) {
        shuffle_biased(order, &mt);
        for (uint64_t replaced = stay; replaced < nr_records; replaced++)
            order->records[replaced] = order->records[mt64_next(&mt) % stay];
    }
    shuffle_biased(order, &mt);
    return 0;
}

void order_sequential(struct order *order, uint64_t nr_records)
{
    order->nr_records = nr_records;
    order->records = NULL;
}

uint64_t order_at(const struct order *order, uint64_t number)
{
    number %= order->nr_records;
    return order->records ? order->records[number] : number;
}

void order_free(struct order *order)
{
    free(order->records);
    order->records = NULL;
}
