// Room for one more element of a growing array.
#pragma once

#include "core/array.h"

#include <stdbool.h>
#include <string.h>

// Grow the array that `array` points to if it is full. `size` is that of an element. False if memory runs out.
static inline bool reserve(void *array, size_t count, size_t *capacity, size_t size)
{
    void *objects, *grown;

    if (count < *capacity)
        return true;
    memcpy(&objects, array, sizeof(objects));
    grown = array_grow(objects, capacity, size);
    if (grown)
        memcpy(array, &grown, sizeof(grown));
    return grown != NULL;
}
