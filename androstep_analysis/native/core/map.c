// The hash table grows by doubling. A removal shifts later entries back, so that no tombstones remain.
#include "core/map.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

void map_free(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}

uint64_t *map_find(const struct map *map, uint64_t space, uint64_t key)
{
    struct map_slot *slot;

    if (!map->count)
        return NULL;
    slot = map_slot(map, space, key);
    return slot->value ? &slot->value : NULL;
}

static bool grow(struct map *map)
{
    size_t room = map->room ? 2 * map->room : FIRST_SLOTS;
    struct map larger = {calloc(room, sizeof(struct map_slot)), map->count, room};

    if (!larger.slots)
        return false;
    for (size_t at = 0; at < map->room; at++) {
        const struct map_slot *old = &map->slots[at];

        if (old->value)
            *map_slot(&larger, old->space, old->key) = *old;
    }
    free(map->slots);
    *map = larger;
    return true;
}

uint64_t *map_add(struct map *map, uint64_t space, uint64_t key)
{
    struct map_slot *slot;

    if (2 * (map->count + 1) > map->room && !grow(map))
        return NULL;
    slot = map_slot(map, space, key);
    if (!slot->value) {
        slot->space = space;
        slot->key = key;
        map->count++;
    }
    return &slot->value;
}

void map_remove(struct map *map, uint64_t space, uint64_t key)
{
    size_t mask = map->room - 1;
    size_t hole = (size_t)(map_slot(map, space, key) - map->slots);

    for (size_t at = (hole + 1) & mask; map->slots[at].value; at = (at + 1) & mask) {
        size_t home = map_hash(map->slots[at].space, map->slots[at].key) & mask;

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].value = 0;
    map->count--;
}
