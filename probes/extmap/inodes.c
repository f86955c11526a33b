#include "extmap/inodes.h"

#include <stdlib.h>

/* Return the slot of `ino`, or the free slot for it. Open addressing, at most half full; nr_slots is a power of two. */
static size_t slot_of(const struct inodes *set, uint64_t ino)
{
    size_t slot = (size_t)(ino * 0x9E3779B97F4A7C15U >> 20) & (set->nr_slots - 1);

    while (set->slots[slot] && set->slots[slot] != ino)
        slot = (slot + 1) & (set->nr_slots - 1);
    return slot;
}

static int grow(struct inodes *set)
{
    struct inodes larger = {NULL, set->nr_slots ? set->nr_slots * 2 : 1024, set->used};

    larger.slots = calloc(larger.nr_slots, sizeof *larger.slots);
    if (!larger.slots)
        return -1;
    for (size_t slot = 0; slot < set->nr_slots; slot++)
        if (set->slots[slot])
            larger.slots[slot_of(&larger, set->slots[slot])] = set->slots[slot];
    free(set->slots);
    *set = larger;
    return 0;
}

int inodes_add(struct inodes *set, uint64_t ino)
{
    size_t slot;

    if (set->used * 2 >= set->nr_slots && grow(set))
        return -1;
    slot = slot_of(set, ino);
    if (set->slots[slot])
        return 0;
    set->slots[slot] = ino;
    set->used++;
    return 1;
}

void inodes_release(struct inodes *set)
{
    free(set->slots);
    *set = (struct inodes){0};
}
