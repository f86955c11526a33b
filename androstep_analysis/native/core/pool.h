// Objects of one size: taken from large blocks, given back one by one, freed all at once.
#pragma once

#include <stddef.h>

struct pool {
    size_t size; // of an object, at least that of a pointer
    void *blocks;
    void *free_objects;
    size_t left; // objects of the last block that were never taken
};

void *pool_take(struct pool *pool); // not cleared; NULL where memory is short
void pool_give_back(struct pool *pool, void *object);
void pool_free(struct pool *pool);
