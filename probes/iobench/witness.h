/* Samples of what a worker wrote last, so that after the run somebody can look whether it is there. */
#ifndef ANDROSTEP_IOBENCH_WITNESS_H
#define ANDROSTEP_IOBENCH_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct witness_slot {
    uint64_t print;     /* of what was written last */
    uint32_t in_flight; /* writes that are begun and not over */
    bool sure;          /* false: never written, or by two requests at the same time */
};

/* One record out of 2^shift has a slot. Lies, with its slots, in memory that processes share; only one worker writes
 * it. */
struct witness {
    unsigned shift;
    int64_t end; /* behind the last byte written */
    uint64_t nr_slots;
    struct witness_slot *slots;
};

/* For a file of `nr_records`, of which at most `nr_slots` (1 or more) are sampled; the slots are zeroed. */
void witness_make(struct witness *witness, uint64_t nr_records, struct witness_slot *slots, uint64_t nr_slots);

/* Before and after a record is written; `end`: behind its last byte. */
void witness_begin(struct witness *witness, uint64_t record, const void *data, size_t bytes);
void witness_end(struct witness *witness, uint64_t record, int64_t end);

/*
 * Reads the sampled records of `bytes` each. Returns 0, or -1 with errno where a read fails. `*wrong` is the first
 * record that does not hold what was written last, or UINT64_MAX.
 */
int witness_look(const struct witness *witness, int file, size_t bytes, uint64_t *wrong);

#endif
