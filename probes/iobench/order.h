/* In which order the records of a file are visited. */
#ifndef ANDROSTEP_IOBENCH_ORDER_H
#define ANDROSTEP_IOBENCH_ORDER_H

#include <stdint.h>

#include "common/rng.h"

struct order {
    uint64_t nr_records; /* not 0 */
    uint64_t *records;   /* NULL: in sequence */
};

/*
 * A uniform permutation of 0 … nr_records-1 by Fisher and Yates (Durstenfeld 1964), of which `overlap` percent (but
 * never the last one) are replaced by records that stay, then shuffled anew. Returns 0 or -1 with errno ENOMEM.
 */
int order_random(struct order *order, uint64_t nr_records, unsigned overlap, uint64_t seed, enum rng_use use,
                 uint32_t worker);

/*
 * The order of the original Mobibench 1.0.9, with its fixed key of MT19937-64 and its biased shuffle; 0 or -1 with
 * errno ENOMEM. It is the same for every worker, because the original seeds its generator anew in each thread. Its
 * threads then draw from that one generator without a lock: what several of them get differs from run to run and cannot
 * be reproduced. Here each has what the original gives to a thread that is alone.
 */
int order_mobibench(struct order *order, uint64_t nr_records, unsigned overlap);

void order_sequential(struct order *order, uint64_t nr_records);
uint64_t order_at(const struct order *order, uint64_t number); /* number modulo nr_records */
void order_free(struct order *order);

#endif
