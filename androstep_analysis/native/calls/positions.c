// If calls on one description overlap, their order is unknown. Then the offsets of these calls are unknown and, if one
// of them is a seek, also the position after them.
#include "calls/positions.h"

#include "calls/sizes.h"
#include "calls/types.h"

void position_begin(struct calls *calls, int32_t descriptor, bool *is_alone, uint32_t *version)
{
    struct description *description = description_of(&calls->open, descriptor);

    *is_alone = !description->busy++;
    *version = ++description->version;
}

static bool position_end(struct description *description, bool is_alone, uint32_t version)
{
    if (description->busy)
        description->busy--;
    return is_alone && description->version == version;
}

static void settle(struct description *description)
{
    if (!description->is_mixed)
        return;
    description->position = NO_INT64;
    description->moved = NO_INT64;
    if (!description->busy)
        description->is_mixed = false;
}

int64_t position_move(struct calls *calls, int32_t descriptor, bool is_alone, uint32_t version, int64_t bytes)
{
    struct description *description = description_of(&calls->open, descriptor);
    bool alone = position_end(description, is_alone, version);
    int64_t position = alone ? description->position : NO_INT64;

    if (bytes > 0 && description->position != NO_INT64 &&
        __builtin_add_overflow(description->position, bytes, &description->position))
        description->position = NO_INT64;
    if (bytes > 0 && description->moved != NO_INT64 &&
        __builtin_add_overflow(description->moved, bytes, &description->moved))
        description->moved = NO_INT64;
    settle(description);
    return position;
}

void position_reach(struct calls *calls, int32_t descriptor)
{
    struct description *description = description_of(&calls->open, descriptor);

    if (description->inserted_open != NO_INDEX && description->moved != NO_INT64 &&
        description->moved > description->reach)
        description->reach = description->moved;
}

void position_lose(struct calls *calls, int32_t descriptor)
{
    struct description *description = description_of(&calls->open, descriptor);

    description->position = NO_INT64;
    description->moved = NO_INT64;
}

// Returns the position after a successful seek: its result or, if the call does not return it, what its arguments
// imply.
static int64_t sought(struct calls *calls, const struct running *call, struct description *description)
{
    const struct calls_input *in = calls->in;
    int64_t offset = in->offset[call->row], result = in->result[call->row], position;
    int32_t whence = in->request[call->row];

    if (call_type(in->call[call->row])->flags) { // _llseek returns 0
        if (whence == 0)
            return offset;
        if (whence != 1 || description->position == NO_INT64 || offset == NO_INT64)
            return NO_INT64;
        return __builtin_add_overflow(description->position, offset, &position) ? NO_INT64 : position;
    }
    return result != NO_INT64 ? result : whence == 0 ? offset : NO_INT64;
}

void position_seek(struct calls *calls, const struct running *call)
{
    enum { CURRENT = 1, END = 2 };
    struct description *description = description_of(&calls->open, call->descriptor);
    const struct calls_input *in = calls->in;
    int64_t offset = in->offset[call->row], position = NO_INT64, start, size;
    int32_t whence = in->request[call->row], inode;
    bool failed = in->failed[call->row] == 1;
    bool is_alone = position_end(description, call->is_alone, call->position_version);

    if (!is_alone)
        description->is_mixed = true;
    else if (!failed)
        position = sought(calls, call, description);
    if (!failed) {
        if (whence == CURRENT && position != NO_INT64 && offset != NO_INT64 && description->moved != NO_INT64 &&
            description->start == NO_INT64 && !__builtin_sub_overflow(position, offset, &start) &&
            !__builtin_sub_overflow(start, description->moved, &start) && start >= 0)
            description->start = start;
        if (position >= 0 || position == NO_INT64)
            description->position = position;
        if (whence != CURRENT || offset)
            description->moved = NO_INT64;
        inode = description->inode;
        if (whence == END && position != NO_INT64 && offset != NO_INT64 && call->is_sized_alone && inode != NO_INDEX &&
            !__builtin_sub_overflow(position, offset, &size))
            size_learn(&calls->files, inode_find(&calls->files, inode), size, SIZE_FROM_END);
    }
    settle(description_of(&calls->open, call->descriptor));
}
