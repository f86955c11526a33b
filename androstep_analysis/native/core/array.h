// Arrays that grow.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Makes an array of objects of `size` bytes twice as large, or gives it its first 64. Returns where it is now and tells
// its `room`; NULL where memory is short: then the array stays as it was.
static inline void *array_grow(void *objects, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 64;
    void *grown = more <= SIZE_MAX / 2 / size ? realloc(objects, more * size) : NULL;

    if (grown)
        *room = more;
    return grown;
}
