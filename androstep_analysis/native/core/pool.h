// An allocator for objects of one size: allocated from large blocks, returned one by one, freed all at once.
#pragma once

#include <stddef.h>

struct pool {
    size_t size; // size of an object, at least that of a pointer
    void *blocks;
    void *free_objects;
    size_t left; // never used objects in the last block
};

void *pool_take(struct pool *pool); // not cleared; NULL if memory runs out
void pool_give_back(struct pool *pool, void *object);
void pool_free(struct pool *pool);
