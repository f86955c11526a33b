#include "iobench/bench.h"

/* Hash one word of each cache line. This detects missing sectors at a low cost. */
#define STEP 64

/* 2^64 divided by the golden ratio. It is odd, so that different hashes stay different. */
#define MIXER 0x9e3779b97f4a7c15u

static uint64_t hash_of(const unsigned char *data, size_t bytes)
{
    uint64_t hash = bytes;
    for (size_t at = 0; at < bytes; at += STEP) {
        uint64_t word = 0;
        memcpy(&word, data + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        hash = ((hash << 31 | hash >> 33) ^ word) * MIXER;
    }
    return hash;
}

void checker_make(struct checker *checker, uint64_t nr_records, struct checker_slot *slots, uint64_t nr_slots)
{
    checker->slots = slots;
    checker->nr_slots = nr_slots;
    checker->shift = 0;
    while ((nr_records - 1) >> checker->shift >= nr_slots)
        checker->shift++;
}

/* Return the slot of a record, or NULL. */
static struct checker_slot *slot_of(struct checker *checker, uint64_t record)
{
    uint64_t slot = record >> checker->shift;
    return slot << checker->shift == record ? &checker->slots[slot] : NULL;
}

void checker_begin(struct checker *checker, uint64_t record, const void *data, size_t bytes)
{
    struct checker_slot *slot = slot_of(checker, record);
    if (!slot)
        return;
    slot->sure = !slot->in_flight++;
    slot->hash = hash_of(data, bytes);
}

void checker_end(struct checker *checker, uint64_t record, int64_t end)
{
    struct checker_slot *slot = slot_of(checker, record);
    if (slot)
        slot->in_flight--;
    if (end > checker->end)
        checker->end = end;
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

int checker_verify(const struct checker *checker, int file, size_t bytes, uint64_t *wrong)
{
    unsigned char *data = malloc(bytes);
    int result = data ? 0 : -1;
    *wrong = UINT64_MAX;
    for (uint64_t slot = 0; !result && slot < checker->nr_slots && *wrong == UINT64_MAX; slot++) {
        uint64_t record = slot << checker->shift;
        if (!checker->slots[slot].sure)
            continue;
        result = read_whole(file, data, bytes, (off_t)(record * bytes));
        if (!result && hash_of(data, bytes) != checker->slots[slot].hash)
            *wrong = record;
    }
    free(data);
    return result;
}
