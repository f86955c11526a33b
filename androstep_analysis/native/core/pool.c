// Objects of one size: a list of blocks, and a list of freed objects.
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_OBJECTS = 512 };

// The first bytes of a block point to the previous block; objects keep the alignment of malloc.
enum { BLOCK_HEAD = 16 };

void *pool_take(struct pool *pool)
{
    void *object = pool->free_objects;

    if (object) {
        memcpy(&pool->free_objects, object, sizeof(void *));
        return object;
    }
    if (!pool->left) {
        void *block = malloc(BLOCK_HEAD + BLOCK_OBJECTS * pool->size);

        if (!block)
            return NULL;
        memcpy(block, &pool->blocks, sizeof(void *));
        pool->blocks = block;
        pool->left = BLOCK_OBJECTS;
    }
    pool->left--;
    return (char *)pool->blocks + BLOCK_HEAD + pool->left * pool->size;
}

void pool_give_back(struct pool *pool, void *object)
{
    memcpy(object, &pool->free_objects, sizeof(void *));
    pool->free_objects = object;
}

void pool_free(struct pool *pool)
{
    while (pool->blocks) {
        void *block = pool->blocks;

        memcpy(&pool->blocks, block, sizeof(void *));
        free(block);
    }
    pool->free_objects = NULL;
    pool->left = 0;
}
