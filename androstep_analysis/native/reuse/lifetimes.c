// Lifetimes of written blocks, until they are rewritten or discarded (measures/lifetimes.py). The data of one row is
// stored once for all its blocks, so that memory depends on rows and not on bytes.

#include <stdlib.h>

#include "core/array.h"
#include "core/map.h"
#include "core/spans.h"
#include "core/table.h"

// The write of one row. Its blocks are spans with its index in `writes` as their value.
struct write {
    int64_t at, request, group;
    int64_t blocks; // remaining blocks; 0: the entry is free
};

// Blocks whose lifetimes ended together: the group that wrote them, their age, number, whether they were rewritten, and
// whether the order of the row that ended them is known.
struct life_end {
    int64_t group, age, blocks;
    int64_t is_rewritten, is_ordered;
};

struct lifetimes {
    struct map devices; // index of each device's spans, from 1
    struct spans *spans;
    size_t spans_room;
    struct write *writes;
    size_t count, room;
    size_t *free_places;
    size_t free_count, free_room;
    struct life_end *ends;
    size_t ends_count, ends_room;
    struct span *same; // parts that the same request wrote before
    size_t same_count, same_room;
};

// Rows of requests or pieces: all their blocks are overwritten or discarded.
struct life_rows {
    size_t rows;
    const int64_t *devs, *first, *nr_blocks, *at, *requests, *groups;
    const bool *is_write, *is_ordered;
};

API struct lifetimes *lifetimes_new(void);
API void lifetimes_free(struct lifetimes *lives);
API bool lifetimes_run(struct lifetimes *lives, const struct life_rows *rows, int64_t *blocks_written);
API const struct life_end *lifetimes_ends(struct lifetimes *lives, size_t *count);

// Context of a row that removes the previous contents of its blocks.
struct taking {
    struct lifetimes *lives;
    int64_t at, request;
    bool is_write, is_ordered;
};

static bool free_place(struct lifetimes *lives, size_t place)
{
    if (!array_reserve(&lives->free_places, lives->free_count, &lives->free_room, sizeof(*lives->free_places)))
        return false;
    lives->free_places[lives->free_count++] = place;
    return true;
}

static bool keep_same(struct lifetimes *lives, struct span part)
{
    if (!array_reserve(&lives->same, lives->same_count, &lives->same_room, sizeof(*lives->same)))
        return false;
    lives->same[lives->same_count++] = part;
    return true;
}

// End the lifetime of a part. Pieces of one request in the same block are one write, that of the first piece.
static bool take(void *context, struct span part)
{
    const struct taking *taking = context;
    struct lifetimes *lives = taking->lives;
    struct write *write = lives->writes + part.value;
    int64_t blocks = part.end - part.start;

    if (taking->is_write && write->request == taking->request)
        return keep_same(lives, part);
    if (!array_reserve(&lives->ends, lives->ends_count, &lives->ends_room, sizeof(*lives->ends)))
        return false;
    lives->ends[lives->ends_count++] =
        (struct life_end){write->group, taking->at - write->at, blocks, taking->is_write, taking->is_ordered};
    write->blocks -= blocks;
    return write->blocks || free_place(lives, (size_t)part.value);
}

// Return the spans of a device, or NULL if memory runs out.
static struct spans *spans_of(struct lifetimes *lives, uint64_t dev)
{
    uint64_t *number = map_add(&lives->devices, dev, 0);

    if (!number)
        return NULL;
    if (!*number) {
        *number = lives->devices.count;
        if (!array_reserve(&lives->spans, *number - 1, &lives->spans_room, sizeof(*lives->spans)))
            return NULL;
        lives->spans[*number - 1] = (struct spans){0};
    }
    return lives->spans + *number - 1;
}

// Store the write and return its index, or SIZE_MAX if memory runs out.
static size_t add_write(struct lifetimes *lives, struct write write)
{
    size_t place = lives->free_count ? lives->free_places[--lives->free_count] : lives->count;

    if (!array_reserve(&lives->writes, place, &lives->room, sizeof(*lives->writes)))
        return SIZE_MAX;
    lives->count += place == lives->count;
    lives->writes[place] = write;
    return place;
}

// Insert the write where the request itself has not written yet, and restore the parts that it has written. Returns
// false if memory runs out.
static bool put(struct lifetimes *lives, struct spans *spans, struct write write, int64_t first, int64_t end,
                int64_t *blocks_written)
{
    size_t place = add_write(lives, write);
    int64_t blocks = 0;

    if (place == SIZE_MAX)
        return false;
    for (size_t number = 0; number <= lives->same_count; number++) {
        const struct span *same = number < lives->same_count ? lives->same + number : NULL;
        int64_t until = same ? same->start : end;

        if (first < until && !spans_put(spans, (struct span){first, until, (int64_t)place}))
            return false;
        blocks += until - first;
        if (same && !spans_put(spans, *same))
            return false;
        first = same ? same->end : end;
    }
    lives->writes[place].blocks = blocks;
    *blocks_written += blocks;
    return blocks || free_place(lives, place);
}

// Return an empty state, or NULL if memory runs out.
struct lifetimes *lifetimes_new(void)
{
    return calloc(1, sizeof(struct lifetimes));
}

void lifetimes_free(struct lifetimes *lives)
{
    for (size_t number = 0; number < lives->devices.count; number++)
        spans_free(lives->spans + number);
    map_free(&lives->devices);
    free(lives->spans);
    free(lives->writes);
    free(lives->free_places);
    free(lives->ends);
    free(lives->same);
    free(lives);
}

// Process rows, and add the written blocks to `blocks_written` of their groups. Returns false if memory runs out.
bool lifetimes_run(struct lifetimes *lives, const struct life_rows *rows, int64_t *blocks_written)
{
    for (size_t row = 0; row < rows->rows; row++) {
        int64_t first = rows->first[row], end = first + rows->nr_blocks[row];
        struct write write = {rows->at[row], rows->requests[row], rows->groups[row], 0};
        struct taking taking = {lives, write.at, write.request, rows->is_write[row], rows->is_ordered[row]};
        struct spans *spans = spans_of(lives, (uint64_t)rows->devs[row]);

        lives->same_count = 0;
        if (!spans || !spans_take(spans, first, end, take, &taking))
            return false;
        if (taking.is_write && !put(lives, spans, write, first, end, &blocks_written[write.group]))
            return false;
    }
    return true;
}

// Return the ended lifetimes, unordered, and clear them. They are valid until the next call.
const struct life_end *lifetimes_ends(struct lifetimes *lives, size_t *count)
{
    *count = lives->ends_count;
    lives->ends_count = 0;
    return lives->ends;
}
