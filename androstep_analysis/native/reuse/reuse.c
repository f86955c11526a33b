// Reuse distances (measures/reuse.py): the number of other blocks touched since the last touch of a block.
//
// Every touch has an index, and a Fenwick tree counts the blocks by the index of their last touch. When the indices are
// used up, the last touches are renumbered in order. Memory depends on the number of blocks, not of touches.

#include <stdlib.h>

#include "core/map.h"
#include "core/table.h"

enum { FIRST_ROOM = 1 << 12 };

struct block {
    uint64_t dev, number;
};

struct distances {
    struct map last;      // last touch of each block, from 1
    struct block *blocks; // block of each touch
    bool *is_last;
    uint32_t *tree;
    size_t room, touch; // capacity, and the last index used
};

API struct distances *distances_new(void);
API void distances_free(struct distances *reuse);
API bool distances_run(struct distances *reuse, size_t touches, const int64_t *devs, const int64_t *blocks,
                       int64_t *distances);

static void count(struct distances *reuse, size_t at, uint32_t change)
{
    for (; at <= reuse->room; at += at & -at)
        reuse->tree[at] += change;
}

static size_t counted(const struct distances *reuse, size_t at)
{
    size_t sum = 0;

    for (; at; at -= at & -at)
        sum += reuse->tree[at];
    return sum;
}

// Renumber the last touches, with a capacity of twice the number of blocks, but no less than before.
static bool renumber(struct distances *reuse)
{
    size_t room = reuse->room, used = 0;
    struct block *blocks;
    uint32_t *tree;
    bool *is_last;

    if (2 * reuse->last.count > room || !room)
        room = room ? 2 * room : FIRST_ROOM;
    blocks = calloc(room + 1, sizeof(*blocks));
    is_last = calloc(room + 1, sizeof(*is_last));
    tree = calloc(room + 1, sizeof(*tree));
    if (!blocks || !is_last || !tree) {
        free(blocks);
        free(is_last);
        free(tree);
        return false;
    }
    for (size_t touch = 1; touch <= reuse->touch; touch++)
        if (reuse->is_last[touch]) {
            blocks[++used] = reuse->blocks[touch];
            is_last[used] = true;
            *map_find(&reuse->last, blocks[used].dev, blocks[used].number) = used;
        }
    free(reuse->blocks);
    free(reuse->is_last);
    free(reuse->tree);
    reuse->blocks = blocks;
    reuse->is_last = is_last;
    reuse->tree = tree;
    reuse->room = room;
    reuse->touch = used;
    for (size_t touch = 1; touch <= used; touch++)
        count(reuse, touch, 1);
    return true;
}

// Return the distance, -1 for the first touch of a block, or -2 if memory runs out.
static int64_t touch(struct distances *reuse, uint64_t dev, uint64_t number)
{
    int64_t distance = -1;
    uint64_t *last;

    if (reuse->touch == reuse->room && !renumber(reuse))
        return -2;
    last = map_add(&reuse->last, dev, number);
    if (!last)
        return -2;
    if (*last) {
        distance = (int64_t)(reuse->last.count - counted(reuse, *last));
        count(reuse, *last, UINT32_MAX);
        reuse->is_last[*last] = false;
    }
    *last = ++reuse->touch;
    reuse->blocks[*last] = (struct block){dev, number};
    reuse->is_last[*last] = true;
    count(reuse, *last, 1);
    return distance;
}

// Return an empty state, or NULL if memory runs out.
struct distances *distances_new(void)
{
    return calloc(1, sizeof(struct distances));
}

void distances_free(struct distances *reuse)
{
    map_free(&reuse->last);
    free(reuse->blocks);
    free(reuse->is_last);
    free(reuse->tree);
    free(reuse);
}

// Compute one distance for each touch, in order. Returns false if memory runs out.
bool distances_run(struct distances *reuse, size_t touches, const int64_t *devs, const int64_t *blocks,
                   int64_t *distances)
{
    for (size_t at = 0; at < touches; at++) {
        distances[at] = touch(reuse, (uint64_t)devs[at], (uint64_t)blocks[at]);
        if (distances[at] == -2)
            return false;
    }
    return true;
}
