// The mappings of an address space are sorted by address and do not overlap.
#include "calls/mappings.h"

#include "calls/left.h"
#include "calls/types.h"
#include "core/array.h"

#include <string.h>

void mappings_free(struct mappings *mappings)
{
    for (size_t n = 0; n < mappings->nr_spaces; n++)
        free(mappings->spaces[n].mappings);
    free(mappings->spaces);
}

int32_t space_new(struct mappings *mappings)
{
    struct space *space = PUSH(mappings, spaces);

    space->users = 1;
    return (int32_t)mappings->nr_spaces - 1;
}

// Copies the mappings for the child of a fork. In the program only the parent has them.
int32_t space_copy(struct mappings *mappings, int32_t index)
{
    int32_t copy = space_new(mappings);
    const struct space *space = &mappings->spaces[index];
    struct space *made = &mappings->spaces[copy];

    if (!space->count)
        return copy;
    made->mappings = storage_allocate(mappings->storage, space->count * sizeof(*made->mappings));
    memcpy(made->mappings, space->mappings, space->count * sizeof(*made->mappings));
    made->count = made->capacity = space->count;
    for (size_t n = 0; n < made->count; n++)
        made->mappings[n].is_copy = true;
    return copy;
}

// Adds without overflow: a crafted recording may have any offsets.
static int64_t offset_after(int64_t offset, uint64_t distance)
{
    return (int64_t)((uint64_t)offset + distance);
}

static int64_t length_of(const struct mapping *mapping)
{
    return (int64_t)(mapping->end - mapping->start);
}

static void unmap(struct mappings *mappings, int32_t thread, uint32_t row, const struct mapping *mapping)
{
    struct operation *operation;

    if (mapping->is_copy)
        return;
    operation = operation_insert(mappings->program, row, thread, MUNMAP, RANK_CLOSE);
    operation->descriptor = mapping->descriptor;
    operation->offset = mapping->offset;
    operation->bytes = length_of(mapping);
}

void space_release(struct mappings *mappings, int32_t index, int32_t thread, uint32_t row)
{
    struct space *space = &mappings->spaces[index];

    if (--space->users)
        return;
    for (size_t n = 0; n < space->count; n++)
        unmap(mappings, thread, row, &space->mappings[n]);
    free(space->mappings);
    space->mappings = NULL;
    space->count = space->capacity = 0;
}

// Returns the first mapping that ends after the address.
static size_t first_after(const struct space *space, uint64_t address)
{
    size_t low = 0, high = space->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (space->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_at(struct mappings *mappings, struct space *space, size_t at, struct mapping mapping)
{
    if (!array_reserve(&space->mappings, space->count, &space->capacity, sizeof(*space->mappings)))
        storage_exhausted(mappings->storage);
    memmove(&space->mappings[at + 1], &space->mappings[at], (space->count - at) * sizeof(mapping));
    space->mappings[at] = mapping;
    space->count++;
}

static bool range_of(const struct mappings *mappings, uint64_t start, int64_t length, uint64_t *end)
{
    uint64_t page = mappings->page_bytes;

    return length > 0 && length <= INT64_MAX - (int64_t)page &&
           !__builtin_add_overflow(start, ((uint64_t)length + page - 1) / page * page, end);
}

void mapping_add(struct mappings *mappings, int32_t index, uint64_t start, int64_t length, int32_t descriptor,
                 int64_t offset)
{
    struct space *space = &mappings->spaces[index];
    struct mapping mapping = {.start = start, .offset = offset, .descriptor = descriptor};

    if (range_of(mappings, start, length, &mapping.end))
        insert_at(mappings, space, first_after(space, start), mapping);
}

static void describe(struct operation *operation, const struct mapping *part)
{
    operation->descriptor = part->descriptor;
    operation->offset = part->offset;
    operation->bytes = length_of(part);
    operation->left = LEFT_NOT;
}

void mapping_remove(struct mappings *mappings, int32_t index, int32_t thread, uint32_t row, uint64_t start,
                    int64_t length, struct operation *operation)
{
    struct space *space = &mappings->spaces[index];
    uint64_t end;
    size_t at;

    if (!range_of(mappings, start, length, &end))
        return;
    at = first_after(space, start);
    while (at < space->count && space->mappings[at].start < end) {
        struct mapping whole = space->mappings[at], part = whole;

        memmove(&space->mappings[at], &space->mappings[at + 1], (--space->count - at) * sizeof(whole));
        if (whole.start < start) {
            struct mapping before = whole;

            part.start = before.end = start;
            part.offset = offset_after(whole.offset, start - whole.start);
            insert_at(mappings, space, at++, before);
        }
        if (whole.end > end) {
            struct mapping after = whole;

            part.end = after.start = end;
            after.offset = offset_after(whole.offset, end - whole.start);
            insert_at(mappings, space, at, after);
        }
        if (operation && !part.is_copy) {
            describe(operation, &part);
            operation = NULL;
        } else {
            unmap(mappings, thread, row, &part);
        }
    }
}

void mapping_sync(const struct mappings *mappings, int32_t index, uint64_t start, int64_t length,
                  struct operation *operation)
{
    const struct space *space = &mappings->spaces[index];
    uint64_t end;
    size_t at;
    struct mapping part;

    if (!range_of(mappings, start, length, &end))
        return;
    at = first_after(space, start);
    if (at == space->count || space->mappings[at].start >= end)
        return;
    part = space->mappings[at];
    if (part.start < start) {
        part.offset = offset_after(part.offset, start - part.start);
        part.start = start;
    }
    if (part.end > end)
        part.end = end;
    describe(operation, &part);
}

void mapping_move(struct mappings *mappings, int32_t index, uint64_t start, int64_t length, uint64_t to)
{
    struct space *space = &mappings->spaces[index];
    uint64_t end;
    int64_t offset;
    struct mapping moved;
    size_t at = first_after(space, start);

    if (!range_of(mappings, start, length, &end) || at == space->count || space->mappings[at].start > start)
        return;
    moved = space->mappings[at];
    offset = offset_after(moved.offset, start - moved.start);
    memmove(&space->mappings[at], &space->mappings[at + 1], (--space->count - at) * sizeof(moved));
    mapping_add(mappings, index, to, length, moved.descriptor, offset);
    if (moved.is_copy) {
        at = first_after(space, to);
        if (at < space->count)
            space->mappings[at].is_copy = true;
    }
}
