/* Payload of writes with a given compressibility and share of repetitions. */
#pragma once

#include "common/rng.h"

struct payload {
    struct rng rng;
    uint64_t *pool;      /* random words from which blocks are made */
    uint64_t key, first; /* key of the seed, the same for all workers; ID of the worker's first block */
    uint64_t records;    /* filled so far with unique data */
    uint64_t blocks;     /* of one record */
    unsigned owed;       /* hundredths of a record still to be repeated */
    unsigned compress, dedupe;
};

/* Prepare the payload of one worker. `record` is the size of the largest record. `use` is RNG_PAYLOAD, or RNG_LAYOUT
 * for the data written before the measurement; the two differ. */
void payload_open(struct payload *payload, size_t record, unsigned compress, unsigned dedupe, uint64_t seed,
                  enum rng_use use, uint32_t worker);

/* Fill a record. The last `compress` percent of every 4 KiB are zeros, as with fio's buffer_compress_percentage. Every
 * 4 KiB differ from all others of any worker of the run (all aligned eight bytes and longer ranges do), except that
 * `dedupe` percent of the records repeat an earlier one of the same worker. */
void payload_fill(struct payload *payload, void *record, size_t bytes);
void payload_close(struct payload *payload);
