// Objects move when their array grows, so that references to them are indices.
#include "calls/storage.h"

#include "core/array.h"

#include <string.h>

void *storage_push(struct storage *storage, void **objects, size_t *count, size_t *capacity, size_t size)
{
    uint8_t *object;

    if (*count == INT32_MAX || !array_reserve(objects, *count, capacity, size))
        storage_exhausted(storage);
    object = (uint8_t *)*objects + (*count)++ * size;
    memset(object, 0, size);
    return object;
}

_Noreturn void storage_exhausted(struct storage *storage)
{
    longjmp(storage->exhausted, 1);
}

void *storage_allocate(struct storage *storage, size_t size)
{
    void *memory = malloc(size);

    if (!memory)
        storage_exhausted(storage);
    return memory;
}

uint64_t *storage_slot(struct storage *storage, struct map *map, uint64_t space, uint64_t key)
{
    uint64_t *value = map_add(map, space, key);

    if (!value)
        storage_exhausted(storage);
    return value;
}

uint32_t storage_string(struct storage *storage, struct strings *strings, const uint8_t *text, size_t length)
{
    uint32_t string = strings_add(strings, text, length);

    if (string == NO_STRING)
        storage_exhausted(storage);
    return string;
}
