#define _GNU_SOURCE
#include "iobench/witness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hash one word of each cache line. This detects missing sectors at a low cost. */
#define STEP 64

/* 2^64 divided by the golden ratio. It is odd, so that different hashes stay different. */
#define MIXER 0x9e3779b97f4a7c15u

static uint64_t print_of(const unsigned char *data, size_t bytes)
{
    uint64_t print = bytes;

    for (size_t at = 0; at < bytes; at += STEP) {
        uint64_t word = 0;

        memcpy(&word, data + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        print = ((print << 31 | print >> 33) ^ word) * MIXER;
    }
    return print;
}

void witness_make(struct witness *witness, uint64_t nr_records, struct witness_slot *slots, uint64_t nr_slots)
{
    witness->slots = slots;
    witness->nr_slots = nr_slots;
    witness->shift = 0;
    while ((nr_records - 1) >> witness->shift >= nr_slots)
        witness->shift++;
}

/* Return the slot of a record, or NULL. */
static struct witness_slot *slot_of(struct witness *witness, uint64_t record)
{
    uint64_t slot = record >> witness->shift;

    return slot << witness->shift == record ? &witness->slots[slot] : NULL;
}

void witness_begin(struct witness *witness, uint64_t record, const void *data, size_t bytes)
{
    struct witness_slot *slot = slot_of(witness, record);

    if (!slot)
        return;
    slot->sure = !slot->in_flight++;
    slot->print = print_of(data, bytes);
}

void witness_end(struct witness *witness, uint64_t record, int64_t end)
{
    struct witness_slot *slot = slot_of(witness, record);

    if (slot)
        slot->in_flight--;
    if (end > witness->end)
        witness->end = end;
}

static int read_whole(int file, unsigned char *into, size_t bytes, off_t offset)
{
    size_t done = 0;

    while (done < bytes) {
        ssize_t got = pread(file, into + done, bytes - done, offset + (off_t)done);

        if (got > 0)
            done += (size_t)got;
        else if (!got || errno != EINTR) {
            errno = got ? errno : ENODATA;
            return -1;
        }
    }
    return 0;
}

int witness_look(const struct witness *witness, int file, size_t bytes, uint64_t *wrong)
{
    unsigned char *data = malloc(bytes);
    int result = data ? 0 : -1;

    *wrong = UINT64_MAX;
    for (uint64_t slot = 0; !result && slot < witness->nr_slots && *wrong == UINT64_MAX; slot++) {
        uint64_t record = slot << witness->shift;

        if (!witness->slots[slot].sure)
            continue;
        result = read_whole(file, data, bytes, (off_t)(record * bytes));
        if (!result && print_of(data, bytes) != witness->slots[slot].print)
            *wrong = record;
    }
    free(data);
    return result;
}
