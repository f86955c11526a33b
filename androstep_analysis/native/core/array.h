// Growing arrays.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Double the capacity of an array of objects of `size` bytes, or allocate the first 64, and update `room`. Returns the
// new array. Returns NULL if memory runs out; the array is then unchanged.
static inline void *array_grow(void *objects, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 64;
    void *grown = more <= SIZE_MAX / 2 / size ? realloc(objects, more * size) : NULL;

    if (grown)
        *room = more;
    return grown;
}
