// A hash table with a key of two numbers, such as device and sector; open addressing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t space;
    uint64_t key;
    uint64_t value; // 0: the slot is free
};

// A hash table; all zero: empty.
struct map {
    struct map_slot *slots;
    size_t count;
    size_t room; // number of slots: 0 or a power of two, at most half of them used
};

static inline size_t map_hash(uint64_t space, uint64_t key)
{
    uint64_t hash = (space ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

    hash = ((hash ^ (hash >> 32)) + key) * 0xd6e8feb86659fd93u;
    return (size_t)(hash ^ (hash >> 32));
}

// Return the slot of the key, or the free slot for it. There must be slots.
static inline struct map_slot *map_slot(const struct map *map, uint64_t space, uint64_t key)
{
    size_t mask = map->room - 1;
    size_t at = map_hash(space, key) & mask;

    while (map->slots[at].value && (map->slots[at].key != key || map->slots[at].space != space))
        at = (at + 1) & mask;
    return &map->slots[at];
}

// Return the value of the key, or 0 if it is missing.
static inline uint64_t map_value(const struct map *map, uint64_t space, uint64_t key)
{
    return map->count ? map_slot(map, space, key)->value : 0;
}

void map_free(struct map *map);

// Return a pointer to the value of the key, valid until the table changes, or NULL.
uint64_t *map_find(const struct map *map, uint64_t space, uint64_t key);

// Return a pointer to the value of the key, inserting the key if it is new. The value of a new key is 0; the caller
// must set another one before the table is used again. Returns NULL if memory runs out.
uint64_t *map_add(struct map *map, uint64_t space, uint64_t key);

// Remove the key, which must exist.
void map_remove(struct map *map, uint64_t space, uint64_t key);
