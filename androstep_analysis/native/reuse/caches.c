// Cache policies other than LRU (measures/miss_ratio.py), simulated touch by touch.
//
// FIFO; S3-FIFO (Yang et al., SOSP 2023) as in libCacheSim of its authors; ARC (Megiddo and Modha, FAST 2003) with a
// fractional target. Every block known to a cache is in one of its queues, whether it is cached or only remembered (a
// ghost). Memory depends on the size of the cache, not on the number of touched blocks.

#include <stdlib.h>

#include "core/map.h"
#include "core/table.h"

enum { FIRST_ROOM = 1 << 10, MOST_USES = 3, USES_TO_STAY = 2 };

// Queues of S3-FIFO, FIFO and ARC (T1, T2, B1 and B2 in its paper). Ghosts are after MAIN.
enum queue_name { SMALL, MAIN, SMALL_GHOSTS, MAIN_GHOSTS, QUEUES };

enum policy { FIFO, S3FIFO, ARC };

struct node {
    uint64_t dev, number;
    uint32_t newer, older; // 0: none
    uint32_t uses;
    uint8_t queue;
};

struct queue {
    uint32_t newest, oldest;
    size_t count;
};

struct cache {
    enum policy policy;
    size_t blocks; // capacity
    double target; // of ARC: size of SMALL
    struct map known;
    struct node *nodes; // from 1
    size_t room, used;
    uint32_t unused; // first freed node, linked by `older`
    struct queue queues[QUEUES];
};

API struct cache *cache_new(int policy, size_t blocks);
API void cache_free(struct cache *cache);
API bool cache_run(struct cache *cache, size_t touches, const int64_t *devs, const int64_t *blocks, bool *misses);

static void take_out(struct cache *cache, uint32_t at)
{
    struct node *node = &cache->nodes[at];
    struct queue *queue = &cache->queues[node->queue];

    *(node->newer ? &cache->nodes[node->newer].older : &queue->newest) = node->older;
    *(node->older ? &cache->nodes[node->older].newer : &queue->oldest) = node->newer;
    queue->count--;
}

static void put_in(struct cache *cache, enum queue_name name, uint32_t at)
{
    struct node *node = &cache->nodes[at];
    struct queue *queue = &cache->queues[name];

    node->queue = (uint8_t)name;
    node->newer = 0;
    node->older = queue->newest;
    *(queue->newest ? &cache->nodes[queue->newest].newer : &queue->oldest) = at;
    queue->newest = at;
    queue->count++;
}

static void move(struct cache *cache, enum queue_name to, uint32_t at)
{
    take_out(cache, at);
    put_in(cache, to, at);
}

static void forget_oldest(struct cache *cache, enum queue_name name)
{
    uint32_t at = cache->queues[name].oldest;
    struct node *node = &cache->nodes[at];

    take_out(cache, at);
    map_remove(&cache->known, node->dev, node->number);
    node->older = cache->unused;
    cache->unused = at;
}

// Return a node in no queue for a new block; 0 if memory runs out.
static uint32_t new_node(struct cache *cache, uint64_t dev, uint64_t number)
{
    uint32_t at = cache->unused;
    uint64_t *known;

    if (at) {
        cache->unused = cache->nodes[at].older;
    } else {
        if (cache->used + 1 >= cache->room) {
            size_t room = cache->room ? 2 * cache->room : FIRST_ROOM;
            struct node *nodes = realloc(cache->nodes, room * sizeof(*nodes));

            if (!nodes)
                return 0;
            cache->nodes = nodes;
            cache->room = room;
        }
        at = (uint32_t)++cache->used;
    }
    known = map_add(&cache->known, dev, number);
    if (!known)
        return 0;
    *known = at;
    cache->nodes[at] = (struct node){.dev = dev, .number = number};
    return at;
}

static size_t held(const struct cache *cache)
{
    return cache->queues[SMALL].count + cache->queues[MAIN].count;
}

// Evict a block of SMALL and remember it. Frequently used blocks are moved to MAIN instead, so that there may be no
// block to evict.
static void s3fifo_drop_small(struct cache *cache)
{
    size_t ghosts = cache->blocks * 9 / 10;

    while (cache->queues[SMALL].count) {
        uint32_t at = cache->queues[SMALL].oldest;

        if (cache->nodes[at].uses < USES_TO_STAY) {
            if (!ghosts) {
                forget_oldest(cache, SMALL);
                return;
            }
            if (cache->queues[SMALL_GHOSTS].count == ghosts)
                forget_oldest(cache, SMALL_GHOSTS);
            move(cache, SMALL_GHOSTS, at);
            return;
        }
        cache->nodes[at].uses = 0;
        move(cache, MAIN, at);
    }
}

// Evict a block of MAIN. Used blocks are inserted again with one use less.
static void s3fifo_drop_main(struct cache *cache)
{
    for (;;) {
        uint32_t at = cache->queues[MAIN].oldest;
        struct node *node = &cache->nodes[at];

        if (!node->uses) {
            forget_oldest(cache, MAIN);
            return;
        }
        node->uses = (node->uses < MOST_USES ? node->uses : MOST_USES) - 1;
        move(cache, MAIN, at);
    }
}

static void s3fifo_make_room(struct cache *cache)
{
    size_t most_main = cache->blocks - cache->blocks / 10;

    while (held(cache) >= cache->blocks)
        if (cache->queues[MAIN].count > most_main || !cache->queues[SMALL].count)
            s3fifo_drop_main(cache);
        else
            s3fifo_drop_small(cache);
}

// Adapt ARC's target size of SMALL after a hit of a ghost.
static void arc_learn(struct cache *cache, bool was_small)
{
    double small = (double)cache->queues[SMALL_GHOSTS].count, main = (double)cache->queues[MAIN_GHOSTS].count;
    double ratio = was_small ? main / small : small / main;
    double change = ratio > 1 ? ratio : 1;

    cache->target += was_small ? change : -change;
    if (cache->target < 0)
        cache->target = 0;
    if (cache->target > (double)cache->blocks)
        cache->target = (double)cache->blocks;
}

static void arc_replace(struct cache *cache, bool was_main_ghost)
{
    double small = (double)cache->queues[SMALL].count;
    bool of_small = small > 0 && (small > cache->target || (was_main_ghost && small >= cache->target));

    if (of_small || !cache->queues[MAIN].count)
        move(cache, SMALL_GHOSTS, cache->queues[SMALL].oldest);
    else
        move(cache, MAIN_GHOSTS, cache->queues[MAIN].oldest);
}

// Make room for an unknown block.
static void arc_make_room(struct cache *cache)
{
    const struct queue *queues = cache->queues;

    if (held(cache) < cache->blocks)
        return;
    if (queues[SMALL].count + queues[SMALL_GHOSTS].count >= cache->blocks) {
        if (!queues[SMALL_GHOSTS].count) {
            forget_oldest(cache, SMALL);
            return;
        }
        forget_oldest(cache, SMALL_GHOSTS);
    } else if (cache->known.count >= 2 * cache->blocks) {
        forget_oldest(cache, MAIN_GHOSTS);
    }
    arc_replace(cache, false);
}

// Record the use of a cached block.
static void hit(struct cache *cache, uint32_t at)
{
    if (cache->policy == ARC)
        move(cache, MAIN, at);
    else if (cache->nodes[at].uses < UINT32_MAX)
        cache->nodes[at].uses++;
}

// Cache a remembered block again.
static void recall(struct cache *cache, uint32_t at)
{
    bool was_main = cache->nodes[at].queue == MAIN_GHOSTS;

    if (cache->policy == ARC)
        arc_learn(cache, !was_main);
    take_out(cache, at);
    if (cache->policy == ARC)
        arc_replace(cache, was_main);
    else
        s3fifo_make_room(cache);
    cache->nodes[at].uses = 0;
    put_in(cache, MAIN, at);
}

// Cache an unknown block. Returns false if memory runs out.
static bool admit(struct cache *cache, uint64_t dev, uint64_t number)
{
    uint32_t at;

    if (cache->policy == ARC)
        arc_make_room(cache);
    else if (cache->policy == S3FIFO)
        s3fifo_make_room(cache);
    else if (held(cache) == cache->blocks)
        forget_oldest(cache, SMALL);
    at = new_node(cache, dev, number);
    if (at)
        put_in(cache, SMALL, at);
    return at != 0;
}

// Create a cache; NULL if memory runs out.
struct cache *cache_new(int policy, size_t blocks)
{
    struct cache *cache = calloc(1, sizeof(*cache));

    if (cache) {
        cache->policy = (enum policy)policy;
        cache->blocks = blocks;
    }
    return cache;
}

void cache_free(struct cache *cache)
{
    map_free(&cache->known);
    free(cache->nodes);
    free(cache);
}

// Set whether each touch misses, in order. Returns false if memory runs out.
bool cache_run(struct cache *cache, size_t touches, const int64_t *devs, const int64_t *blocks, bool *misses)
{
    for (size_t touch = 0; touch < touches; touch++) {
        uint64_t dev = (uint64_t)devs[touch], number = (uint64_t)blocks[touch];
        uint32_t at = (uint32_t)map_value(&cache->known, dev, number);

        misses[touch] = !at || cache->nodes[at].queue > MAIN;
        if (!cache->blocks)
            continue;
        if (!misses[touch])
            hit(cache, at);
        else if (at)
            recall(cache, at);
        else if (!admit(cache, dev, number))
            return false;
    }
    return true;
}
