#include "events/incarnations.h"

#include <stdlib.h>

#include "core/map.h"

// Values of `inodes` count incarnations in steps of COUNT. Bit IS_OVER: the last incarnation has been deleted. The
// lowest bit is set so that no value is 0. In `devices`, bit HAS_CREATIONS and the first incarnation.
enum { EXISTS = 1, IS_OVER = 2, HAS_CREATIONS = 2, COUNT = 4 };

struct incarnations {
    struct map devices;
    struct map inodes;
    uint8_t *is_last; // of each deletion: the incarnation ends, as no later event frees the evicted inode
    size_t nr_deletions;
    size_t deletion; // the next one
};

struct incarnations *incarnations_new(void)
{
    return calloc(1, sizeof(struct incarnations));
}

void incarnations_free(struct incarnations *incarnations)
{
    map_free(&incarnations->devices);
    map_free(&incarnations->inodes);
    free(incarnations->is_last);
    free(incarnations);
}

bool incarnations_device(struct incarnations *incarnations, uint32_t dev, bool has_creations, int32_t first)
{
    uint64_t *device = map_add(&incarnations->devices, dev, 0);

    if (device)
        *device = EXISTS | (has_creations ? HAS_CREATIONS : 0) | (uint64_t)first * COUNT;
    return device != NULL;
}

bool incarnations_deletions(struct incarnations *incarnations, size_t rows, const uint32_t *dev, const int64_t *ino,
                            const uint8_t *is_free)
{
    struct map next = {0}; // by inode: whether its next deletion frees it, + 1
    bool is_done = true;

    free(incarnations->is_last);
    incarnations->is_last = calloc(rows + 1, 1);
    incarnations->nr_deletions = incarnations->is_last ? rows : 0;
    incarnations->deletion = 0;
    for (size_t row = incarnations->nr_deletions; row-- > 0 && is_done;) {
        uint64_t *is_freed = map_add(&next, dev[row], (uint64_t)ino[row]);

        is_done = is_freed != NULL;
        if (!is_done)
            break;
        incarnations->is_last[row] = is_free[row] || *is_freed != 2;
        *is_freed = is_free[row] ? 2 : 1;
    }
    map_free(&next);
    return is_done && incarnations->is_last;
}

// Take an event of a device without creations: an incarnation begins with the first event after the end of another.
static void see_end(struct incarnations *incarnations, uint64_t *inode, enum lifetime_kind kind)
{
    bool is_last = kind == LIFETIME_DELETION && incarnations->deletion < incarnations->nr_deletions &&
                   incarnations->is_last[incarnations->deletion++];

    if (is_last) {
        *inode |= IS_OVER;
    } else if (kind != LIFETIME_FREED_BLOCKS && *inode & IS_OVER) { // freed blocks belong to the deleted file
        *inode += COUNT;
        *inode &= ~(uint64_t)IS_OVER;
    }
}

bool incarnations_number(struct incarnations *incarnations, size_t rows, const uint32_t *dev, const int64_t *ino,
                         const uint8_t *kind, int32_t *incarnation)
{
    for (size_t row = 0; row < rows; row++) {
        uint64_t device = map_value(&incarnations->devices, dev[row], 0);
        uint64_t *inode = map_add(&incarnations->inodes, dev[row], (uint64_t)ino[row]);

        if (!inode)
            return false;
        *inode |= EXISTS;
        if (!(device & HAS_CREATIONS))
            see_end(incarnations, inode, kind[row]);
        else if (kind[row] == LIFETIME_CREATION)
            *inode += COUNT;
        incarnation[row] = (int32_t)(*inode / COUNT + device / COUNT);
    }
    return true;
}
