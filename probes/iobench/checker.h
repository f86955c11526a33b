/* Hashes of sampled records as last written by a worker, to verify the file after the run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checker_slot {
    uint64_t hash;      /* hash of the data written last */
    uint32_t in_flight; /* writes that have begun and not ended */
    bool sure;          /* false: never written, or by two requests at once */
};

/* One of 2^shift records has a slot. Lies, with its slots, in memory shared between processes. Only one worker writes
 * it. */
struct checker {
    unsigned shift;
    int64_t end; /* after the last byte written */
    uint64_t nr_slots;
    struct checker_slot *slots;
};

/* Prepare sampling of at most `nr_slots` (1 or more) of `nr_records`; the slots are zeroed. */
void checker_make(struct checker *checker, uint64_t nr_records, struct checker_slot *slots, uint64_t nr_slots);

/* Register the begin and end of a write to a record; `end` is the offset after its last byte. */
void checker_begin(struct checker *checker, uint64_t record, const void *data, size_t bytes);
void checker_end(struct checker *checker, uint64_t record, int64_t end);

/* Read the sampled records of `bytes` each. Returns 0, or -1 with errno set if a read fails. `*wrong` is the first
 * record without the data that was written last, or UINT64_MAX. */
int checker_verify(const struct checker *checker, int file, size_t bytes, uint64_t *wrong);
