// How long what was written stays (measures/lifetimes.py): until its block is written again or discarded.

#include <stdlib.h>

#include "core/map.h"
#include "core/table.h"

enum { FIRST_ROOM = 1 << 10 };

struct written {
    int64_t at, request, group;
    bool is_there;
};

struct lifetimes {
    struct map blocks; // number of each block's write, from 1
    struct written *last;
    size_t room;
};

// What happens to blocks, a row for each request or piece: all of it is overwritten, or discarded.
struct life_rows {
    size_t rows;
    const int64_t *devs, *first, *nr_blocks, *at, *requests, *groups;
    const bool *is_write;
};

// The ends of writes, in no particular order: the group that wrote, the age, and how it ended.
struct life_ends {
    size_t ends;
    int64_t *groups, *ages;
    bool *is_rewritten;
};

API struct lifetimes *lifetimes_new(void);
API void lifetimes_free(struct lifetimes *lives);
API size_t lifetimes_blocks(const struct lifetimes *lives);
API bool lifetimes_run(struct lifetimes *lives, const struct life_rows *rows, struct life_ends *ends, int64_t *writes);

static void end(struct life_ends *ends, struct written *last, int64_t at, bool is_rewritten)
{
    ends->groups[ends->ends] = last->group;
    ends->ages[ends->ends] = at - last->at;
    ends->is_rewritten[ends->ends++] = is_rewritten;
    last->is_there = false;
}

static bool grow(struct lifetimes *lives)
{
    size_t room = lives->room ? 2 * lives->room : FIRST_ROOM;
    struct written *last = realloc(lives->last, room * sizeof(*last));

    if (!last)
        return false;
    lives->last = last;
    lives->room = room;
    return true;
}

// False where memory is short. Pieces of one request in the same block are one write, that of the first.
static bool write_block(struct lifetimes *lives, struct life_ends *ends, uint64_t dev, uint64_t block,
                        const struct written *new, int64_t *writes)
{
    uint64_t *at = map_add(&lives->blocks, dev, block);
    struct written *last;

    if (!at)
        return false;
    if (!*at) {
        *at = lives->blocks.count;
        if (*at > lives->room && !grow(lives))
            return false;
        lives->last[*at - 1].is_there = false;
    }
    last = &lives->last[*at - 1];
    if (last->is_there && last->request == new->request)
        return true;
    if (last->is_there)
        end(ends, last, new->at, true);
    *last = *new;
    ++*writes;
    return true;
}

static void discard(struct lifetimes *lives, struct life_ends *ends, uint64_t number, int64_t at)
{
    if (number && lives->last[number - 1].is_there)
        end(ends, &lives->last[number - 1], at, false);
}

// Looks at the blocks of the range or at all that are known, whichever are fewer.
static void discard_range(struct lifetimes *lives, struct life_ends *ends, uint64_t dev, int64_t first, int64_t count,
                          int64_t at)
{
    if ((uint64_t)count <= lives->blocks.room) {
        for (int64_t block = first; block < first + count; block++)
            discard(lives, ends, map_value(&lives->blocks, dev, (uint64_t)block), at);
        return;
    }
    for (size_t slot = 0; slot < lives->blocks.room; slot++) {
        const struct map_slot *one = &lives->blocks.slots[slot];

        if (one->value && one->space == dev && (int64_t)one->key >= first && (int64_t)one->key - first < count)
            discard(lives, ends, one->value, at);
    }
}

// NULL where memory is short.
struct lifetimes *lifetimes_new(void)
{
    return calloc(1, sizeof(struct lifetimes));
}

void lifetimes_free(struct lifetimes *lives)
{
    map_free(&lives->blocks);
    free(lives->last);
    free(lives);
}

// How many blocks were ever written.
size_t lifetimes_blocks(const struct lifetimes *lives)
{
    return lives->blocks.count;
}

// Adds to `writes` of each group the blocks it writes. `ends` must have room for one end of each of these and of each
// block that was written before. False where memory is short.
bool lifetimes_run(struct lifetimes *lives, const struct life_rows *rows, struct life_ends *ends, int64_t *writes)
{
    for (size_t row = 0; row < rows->rows; row++) {
        uint64_t dev = (uint64_t)rows->devs[row];
        int64_t first = rows->first[row], count = rows->nr_blocks[row];
        struct written new = {rows->at[row], rows->requests[row], rows->groups[row], true};

        if (!rows->is_write[row])
            discard_range(lives, ends, dev, first, count, new.at);
        for (int64_t block = first; rows->is_write[row] && block < first + count; block++)
            if (!write_block(lives, ends, dev, (uint64_t)block, &new, &writes[new.group]))
                return false;
    }
    return true;
}
