/* The order of visits to the records of a file. */
#pragma once

#include <stdint.h>

#include "common/rng.h"

struct order {
    uint64_t nr_records; /* not 0 */
    uint64_t *records;   /* NULL: in sequence */
};

/* Create a uniform permutation of 0 … nr_records-1 by Fisher and Yates (Durstenfeld 1964). `overlap` percent of the
 * records (but never all) are then replaced by remaining ones, and the result is shuffled again. Returns 0, or -1 with
 * errno ENOMEM. */
int order_random(struct order *order, uint64_t nr_records, unsigned overlap, uint64_t seed, enum rng_use use,
                 uint32_t worker);

/* Create the order of the original Mobibench 1.0.9, with its fixed key of MT19937-64 and its biased shuffle. Returns 0,
 * or -1 with errno ENOMEM.
 *
 * The order is the same for every worker, because the original seeds its generator again in each thread. Its threads
 * then share that generator without a lock, so that the orders of several threads differ between runs and cannot be
 * reproduced. Here each worker has the order of a single thread of the original. */
int order_mobibench(struct order *order, uint64_t nr_records, unsigned overlap);

void order_sequential(struct order *order, uint64_t nr_records);
uint64_t order_at(const struct order *order, uint64_t number); /* `number` modulo nr_records */
void order_free(struct order *order);
