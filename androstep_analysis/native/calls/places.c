// Positions of open files and sizes of files, as far as the calls tell them.
//
// Of calls that overlap on one description nobody knows which came first: their own places are unknown then, and where
// one of them is a seek, so is the position after them.
#include "calls/calls.h"

void position_begin(struct calls *calls, int32_t descriptor, bool *is_alone, uint32_t *version)
{
    struct description *description = description_of(calls, descriptor);

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

// A call has moved the position by `bytes`; returns where it stood, or NO_INT64.
int64_t position_move(struct calls *calls, int32_t descriptor, bool is_alone, uint32_t version, int64_t bytes)
{
    struct description *description = description_of(calls, descriptor);
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

// Bytes were read up to where the position is now.
void position_reach(struct calls *calls, int32_t descriptor)
{
    struct description *description = description_of(calls, descriptor);

    if (description->late != NOBODY && description->moved != NO_INT64 && description->moved > description->reach)
        description->reach = description->moved;
}

// From here on the position is not known.
void position_lose(struct calls *calls, int32_t descriptor)
{
    struct description *description = description_of(calls, descriptor);

    description->position = NO_INT64;
    description->moved = NO_INT64;
}

// The position after a seek that succeeded; what lseek returns, or what follows where the call does not return it.
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
    struct description *description = description_of(calls, call->descriptor);
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
        if (whence == END && position != NO_INT64 && offset != NO_INT64 && call->is_sized_alone && inode != NOBODY &&
            !__builtin_sub_overflow(position, offset, &size))
            size_learn(calls, names_find(calls, inode), size, SIZE_FROM_END);
    }
    settle(description_of(calls, call->descriptor));
}

// --- sizes ----------------------------------------------------------------------------------------------------------

// A call that changes the size of the file, or tells it, begins.
void size_begin(struct calls *calls, struct running *call, int32_t number, bool changes)
{
    struct inode *inode = &calls->inodes[number];

    call->sized = number;
    call->changes_size = changes;
    call->is_sized_alone = !inode->busy;
    inode->busy += changes;
    inode->version += changes;
    call->size_version = inode->version;
}

// Whether no other call changed the size meanwhile.
bool size_end(struct calls *calls, const struct running *call)
{
    struct inode *inode;

    if (call->sized == NOBODY)
        return false;
    inode = &calls->inodes[call->sized];
    if (call->changes_size && inode->busy)
        inode->busy--;
    return call->is_sized_alone && inode->version == call->size_version;
}

static void was_there(struct inode *inode)
{
    if (inode->origin == ORIGIN_MAYBE)
        inode->origin = ORIGIN_START;
}

// The size is known now, and with it that at the start where only writes at known places came between.
void size_learn(struct calls *calls, int32_t number, int64_t size, uint8_t from)
{
    struct inode *inode = &calls->inodes[number];
    int64_t start;

    if (size < 0 || inode->type == TYPE_DIRECTORY)
        return;
    start = size - inode->appended;
    if (!inode->is_cut && inode->start_size == NO_INT64 && start >= inode->start_least &&
        (start > inode->written_end || (!inode->written_end && (start || inode->origin != ORIGIN_MAYBE)))) {
        inode->start_size = start;
        inode->size_from = from;
        if (start)
            was_there(inode);
    }
    inode->size = size;
}

void size_set(struct calls *calls, int32_t number, int64_t size)
{
    struct inode *inode = &calls->inodes[number];

    inode->is_cut = true;
    inode->size = size;
}

void size_write(struct calls *calls, int32_t number, int64_t offset, int64_t bytes)
{
    struct inode *inode = &calls->inodes[number];
    int64_t end;

    if (bytes <= 0)
        return;
    if (offset == NO_INT64 || __builtin_add_overflow(offset, bytes, &end)) {
        size_set(calls, number, NO_INT64);
        return;
    }
    if (end > inode->written_end)
        inode->written_end = end;
    if (inode->size != NO_INT64 && end > inode->size)
        inode->size = end;
}

// Bytes went behind the end; returns where that was, or NO_INT64.
int64_t size_append(struct calls *calls, int32_t number, bool is_alone, int64_t bytes)
{
    struct inode *inode = &calls->inodes[number];
    int64_t place = is_alone ? inode->size : NO_INT64;

    if (bytes <= 0)
        return place;
    if (inode->size != NO_INT64) {
        if (__builtin_add_overflow(inode->size, bytes, &inode->size))
            inode->size = NO_INT64;
        else if (inode->size > inode->written_end)
            inode->written_end = inode->size;
    } else if (__builtin_add_overflow(inode->appended, bytes, &inode->appended)) {
        size_set(calls, number, NO_INT64);
    }
    return place;
}

// `bytes` were read at the place; `is_steady` where nothing changed the size meanwhile.
void size_read(struct calls *calls, int32_t number, int64_t offset, int64_t requested, int64_t bytes, bool is_steady)
{
    struct inode *inode = &calls->inodes[number];
    int64_t end;

    if (offset == NO_INT64 || offset < 0 || bytes < 0 || __builtin_add_overflow(offset, bytes, &end))
        return;
    if (bytes && !inode->is_cut && !inode->appended && end > inode->written_end && end > inode->start_least &&
        inode->start_size == NO_INT64) {
        inode->start_least = end;
        was_there(inode);
    }
    if (is_steady && requested != NO_INT64 && bytes < requested && inode->size == NO_INT64 &&
        (bytes || (end == inode->start_least && end > inode->written_end)))
        size_learn(calls, number, end, SIZE_FROM_END);
}
