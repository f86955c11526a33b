/* What is written: data that compresses and repeats as far as asked. */
#ifndef ANDROSTEP_COMMON_PAYLOAD_H
#define ANDROSTEP_COMMON_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/rng.h"

struct payload {
    struct rng rng;
    uint64_t *pool;      /* random words that blocks are made of */
    uint64_t key, first; /* the seed's, the same for all workers; number of the worker's first block */
    uint64_t records;    /* filled so far with data of their own */
    uint64_t blocks;     /* of one record */
    unsigned owed;       /* hundredths of a record that shall still repeat an earlier one */
    unsigned compress, dedupe;
};

/*
 * `record` is the largest that will be filled. `use` is RNG_PAYLOAD, or RNG_LAYOUT for what is there before the
 * measurement: what is then written differs from it. Returns 0 or -1 with errno ENOMEM.
 */
int payload_open(struct payload *payload, size_t record, unsigned compress, unsigned dedupe, uint64_t seed,
                 enum rng_use use, uint32_t worker);

/*
 * Fills a record. The last `compress` percent of every 4 KiB of it are zeros (as with fio's
 * buffer_compress_percentage). Every 4 KiB differ from all others that any worker of the run was given (all eight bytes
 * and longer do), but `dedupe` percent of the records equal an earlier one of the same worker.
 */
void payload_fill(struct payload *payload, void *record, size_t bytes);
void payload_close(struct payload *payload);

#endif
