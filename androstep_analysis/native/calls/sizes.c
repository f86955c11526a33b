// The size at the start follows from sizes that calls return later, as long as no call has set the size.
#include "calls/sizes.h"

void size_begin(struct files *files, struct running *call, int32_t index, bool changes)
{
    struct inode *inode = &files->inodes[index];

    call->sized = index;
    call->changes_size = changes;
    call->is_sized_alone = !inode->busy;
    inode->busy += changes;
    inode->version += changes;
    call->size_version = inode->version;
}

bool size_end(struct files *files, const struct running *call)
{
    struct inode *inode;

    if (call->sized == NO_INDEX)
        return false;
    inode = &files->inodes[call->sized];
    if (call->changes_size && inode->busy)
        inode->busy--;
    return call->is_sized_alone && inode->version == call->size_version;
}

static void was_there(struct inode *inode)
{
    if (inode->origin == ORIGIN_MAYBE)
        inode->origin = ORIGIN_START;
}

void size_learn(struct files *files, int32_t index, int64_t size, uint8_t from)
{
    struct inode *inode = &files->inodes[index];
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

void size_set(struct files *files, int32_t index, int64_t size)
{
    struct inode *inode = &files->inodes[index];

    inode->is_cut = true;
    inode->size = size;
}

void size_write(struct files *files, int32_t index, int64_t offset, int64_t bytes)
{
    struct inode *inode = &files->inodes[index];
    int64_t end;

    if (bytes <= 0)
        return;
    if (offset == NO_INT64 || __builtin_add_overflow(offset, bytes, &end)) {
        size_set(files, index, NO_INT64);
        return;
    }
    if (end > inode->written_end)
        inode->written_end = end;
    if (inode->size != NO_INT64 && end > inode->size)
        inode->size = end;
}

int64_t size_append(struct files *files, int32_t index, bool is_alone, int64_t bytes)
{
    struct inode *inode = &files->inodes[index];
    int64_t offset = is_alone ? inode->size : NO_INT64;

    if (bytes <= 0)
        return offset;
    if (inode->size != NO_INT64) {
        if (__builtin_add_overflow(inode->size, bytes, &inode->size))
            inode->size = NO_INT64;
        else if (inode->size > inode->written_end)
            inode->written_end = inode->size;
    } else if (__builtin_add_overflow(inode->appended, bytes, &inode->appended)) {
        size_set(files, index, NO_INT64);
    }
    return offset;
}

void size_read(struct files *files, int32_t index, int64_t offset, int64_t requested, int64_t bytes, bool is_steady)
{
    struct inode *inode = &files->inodes[index];
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
        size_learn(files, index, end, SIZE_FROM_END);
}
