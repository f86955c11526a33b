// Growing arrays.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Make room for one more object of `size` bytes in the array that `array` points to: if it is full, double its capacity
// `room`, or allocate the first 64. Returns false if memory runs out; the array is then unchanged.
static inline bool array_reserve(void *array, size_t count, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 64;
    void *objects;

    if (count < *room)
        return true;
    memcpy(&objects, array, sizeof(objects));
    objects = more <= SIZE_MAX / 2 / size ? realloc(objects, more * size) : NULL;
    if (!objects)
        return false;
    memcpy(array, &objects, sizeof(objects));
    *room = more;
    return true;
}
