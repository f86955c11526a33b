// A hash table of what is known by two numbers, such as a device and a sector: open addressing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t space;
    uint64_t key;
    uint64_t value; // 0: the slot is free
};

// All zeros is an empty one.
struct map {
    struct map_slot *slots;
    size_t count;
    size_t room; // slots: a power of two, at most half of which are taken, or 0
};

static inline size_t map_hash(uint64_t space, uint64_t key)
{
    uint64_t hash = (space ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

    hash = ((hash ^ (hash >> 32)) + key) * 0xd6e8feb86659fd93u;
    return (size_t)(hash ^ (hash >> 32));
}

// The slot of the key, or the free one where it would go. There must be slots.
static inline struct map_slot *map_slot(const struct map *map, uint64_t space, uint64_t key)
{
    size_t mask = map->room - 1;
    size_t at = map_hash(space, key) & mask;

    while (map->slots[at].value && (map->slots[at].key != key || map->slots[at].space != space))
        at = (at + 1) & mask;
    return &map->slots[at];
}

// The value of the key; 0 where it is not there.
static inline uint64_t map_value(const struct map *map, uint64_t space, uint64_t key)
{
    return map->count ? map_slot(map, space, key)->value : 0;
}

void map_free(struct map *map);

// Where the value of the key stands until the table changes, or NULL.
uint64_t *map_find(const struct map *map, uint64_t space, uint64_t key);

// As map_find, but takes the key in where it is new: its value is 0 then, and the caller must give it another one
// before the table is used again. NULL where memory is short.
uint64_t *map_add(struct map *map, uint64_t space, uint64_t key);

// Forgets the key, which must be there.
void map_remove(struct map *map, uint64_t space, uint64_t key);
