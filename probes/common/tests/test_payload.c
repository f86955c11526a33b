/* Repetitions within and among payloads, by brute force. tests/bench/test_iobench_order.py tests those of whole
 * records, and measures how far payloads can be compressed. */
#include "common/payload.h"

#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

#define BLOCK 4096
#define MIB   (1024 * 1024)

static unsigned char data[5 * MIB];

static int compare_blocks(const void *one, const void *other)
{
    return memcmp(one, other, BLOCK);
}

static int compare_words(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(uint64_t));
}

/* Sort the items and return how many are distinct. */
static size_t distinct(unsigned char *items, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
    size_t found = 1;

    qsort(items, count, bytes, compare);
    for (size_t item = 1; item < count; item++)
        found += memcmp(items + item * bytes, items + (item - 1) * bytes, bytes) != 0;
    return found;
}

/* A compressor looks for earlier occurrences. Here no eight bytes, at any offset, occur twice. */
static void check_no_repetition(void)
{
    enum { RECORD = 65536, RECORDS = 16, WINDOWS = RECORD * RECORDS - 7 };
    static unsigned char windows[WINDOWS * sizeof(uint64_t)];
    struct payload payload;

    if (!tap_ok(!payload_open(&payload, RECORD, 0, 0, 1, RNG_PAYLOAD, 0), "a payload"))
        return;
    for (size_t record = 0; record < RECORDS; record++)
        payload_fill(&payload, data + record * RECORD, RECORD);
    for (size_t window = 0; window < WINDOWS; window++)
        memcpy(windows + window * sizeof(uint64_t), data + window, sizeof(uint64_t));
    tap_ok(distinct(windows, WINDOWS, sizeof(uint64_t), compare_words) == WINDOWS,
           "no eight bytes of 1 MiB occur twice");
    payload_close(&payload);
}

/* Blocks of several workers, for layout and measurement, all differ; where the rest is zeros, by the first bytes
 * alone. */
static void check_all_differ(unsigned compress)
{
    enum { WORKERS = 4, USES = 2, RECORDS = 50, BLOCKS = 3, ALL = WORKERS * USES * RECORDS * BLOCKS };
    unsigned char *next = data;
    struct payload payload;
    bool made = true;

    for (unsigned source = 0; made && source < WORKERS * USES; source++) {
        enum rng_use use = source % USES ? RNG_LAYOUT : RNG_PAYLOAD;

        made = !payload_open(&payload, BLOCKS * BLOCK, compress, 0, 9, use, source / USES ? 1023 - source : 0);
        for (size_t record = 0; made && record < RECORDS; record++, next += BLOCKS * BLOCK)
            payload_fill(&payload, next, BLOCKS * BLOCK);
        if (made)
            payload_close(&payload);
    }
    tap_ok(made && distinct(data, ALL, BLOCK, compare_blocks) == ALL,
           "blocks of workers and of the layout all differ at %u %%", compress);
}

static const size_t short_records[] = {8, 9, 15, 100, 511, 4095, 4097, 5000};

static void check_short(size_t bytes)
{
    enum { RECORDS = 300 };
    struct payload payload;
    bool inside = true;

    memset(data, 0, sizeof data);
    if (!tap_ok(!payload_open(&payload, 2 * BLOCK, 50, 0, 4, RNG_PAYLOAD, 0), "a payload"))
        return;
    for (size_t record = 0; record < RECORDS; record++) {
        unsigned char *place = data + record * BLOCK;

        place[bytes] = 0xa5;
        payload_fill(&payload, place, bytes);
        inside &= place[bytes] == 0xa5;
        if (bytes < BLOCK)
            place[bytes] = 0;
    }
    tap_ok(inside, "%zu bytes: nothing behind the record is touched", bytes);
    tap_ok(distinct(data, RECORDS, BLOCK, compare_blocks) == RECORDS, "%zu bytes: records differ", bytes);
    payload_close(&payload);
}

static const struct {
    const char *name;
    uint64_t seed;
    uint32_t worker;
    bool same;
} others[] = {
    {"the same again", 1, 0, true},
    {"another seed", 2, 0, false},
    {"another worker", 1, 1, false},
};

static void check_seeds(void)
{
    unsigned char one[BLOCK], other[BLOCK];
    struct payload payload;

    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        bool made = !payload_open(&payload, BLOCK, 0, 0, 1, RNG_PAYLOAD, 0);

        if (made) {
            payload_fill(&payload, one, BLOCK);
            payload_close(&payload);
            made = !payload_open(&payload, BLOCK, 0, 0, others[index].seed, RNG_PAYLOAD, others[index].worker);
        }
        if (made) {
            payload_fill(&payload, other, BLOCK);
            payload_close(&payload);
        }
        tap_ok(made && !memcmp(one, other, BLOCK) == others[index].same, "%s", others[index].name);
    }
}

int main(void)
{
    check_no_repetition();
    check_all_differ(40);
    check_all_differ(100);
    for (size_t index = 0; index < sizeof short_records / sizeof *short_records; index++)
        check_short(short_records[index]);
    check_seeds();
    return tap_done();
}
