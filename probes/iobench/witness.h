/* Hashes of sampled records as last written by a worker, to verify the file after the run. */
#ifndef ANDROSTEP_IOBENCH_WITNESS_H
#define ANDROSTEP_IOBENCH_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct witness_slot {
    uint64_t print;     /* hash of the data written last */
    uint32_t in_flight; /* writes that have begun and not ended */
    bool sure;          /* false: never written, or by two requests at once */
};

/* One of 2^shift records has a slot. Lies, with its slots, in memory shared between processes. Only one worker writes
 * it. */
struct witness {
    unsigned shift;
    int64_t end; /* after the last byte written */
    uint64_t nr_slots;
    struct witness_slot *slots;
};

/* Prepare sampling of at most `nr_slots` (1 or more) of `nr_records`; the slots are zeroed. */
void witness_make(struct witness *witness, uint64_t nr_records, struct witness_slot *slots, uint64_t nr_slots);

/* Register the begin and end of a write to a record; `end` is the offset after its last byte. */
void witness_begin(struct witness *witness, uint64_t record, const void *data, size_t bytes);
void witness_end(struct witness *witness, uint64_t record, int64_t end);

/* Read the sampled records of `bytes` each. Returns 0, or -1 with errno set if a read fails. `*wrong` is the first
 * record without the data that was written last, or UINT64_MAX. */
int witness_look(const struct witness *witness, int file, size_t bytes, uint64_t *wrong);

#endif
