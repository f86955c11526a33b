// Records of libCacheSim's oracleGeneral with the next use of each object, filled in one forward pass.
#include "core/map.h"
#include "core/table.h"

#include <stdlib.h>

enum { RECORD_BYTES = 24, NEXT_AT = 16 };

struct reuse {
    struct map last_use; // index of the last use plus 1, by object
    uint64_t uses;
};

API struct reuse *reuse_new(void);
API void reuse_free(struct reuse *reuse);
API size_t reuse_add(struct reuse *reuse, uint8_t *records, size_t count, const uint32_t *times,
                     const uint64_t *objects, uint32_t bytes);

struct reuse *reuse_new(void)
{
    return calloc(1, sizeof(struct reuse));
}

void reuse_free(struct reuse *reuse)
{
    if (!reuse)
        return;
    map_free(&reuse->last_use);
    free(reuse);
}

static void put(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

// Append `count` uses to `records`, which starts at the first record and has capacity for all of them. Returns the
// number of added uses; it is smaller only if memory runs out.
size_t reuse_add(struct reuse *reuse, uint8_t *records, size_t count, const uint32_t *times, const uint64_t *objects,
                 uint32_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = records + (size_t)reuse->uses * RECORD_BYTES;
        uint64_t *last = map_add(&reuse->last_use, 0, objects[i]);

        if (!last)
            return i;
        if (*last)
            put(records + (size_t)(*last - 1) * RECORD_BYTES + NEXT_AT, reuse->uses, 8);
        put(record, times[i], 4);
        put(record + 4, objects[i], 8);
        put(record + 12, bytes, 4);
        put(record + NEXT_AT, UINT64_MAX, 8);
        *last = ++reuse->uses;
    }
    return count;
}
