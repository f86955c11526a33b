// A call that succeeds only on files shows that its descriptor is a file.
#include "calls/inquiries.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/left.h"
#include "calls/paths.h"
#include "calls/positions.h"
#include "calls/rows.h"
#include "calls/sizes.h"
#include "calls/types.h"

static bool changes_size(uint8_t call)
{
    return call == FTRUNCATE || call == FALLOCATE;
}

void size_recorded(struct calls *calls, const struct running *call)
{
    int64_t size = calls->in->size[call->row];
    int32_t inode = size == NO_INT64 ? NO_INDEX : descriptor_inode(&calls->open, call->descriptor);

    if (inode != NO_INDEX && !calls->files.inodes[inode].version && calls->files.inodes[inode].size == NO_INT64)
        size_learn(&calls->files, inode, size, SIZE_FROM_STAT);
}

void descriptor_begin(struct calls *calls, struct running *call)
{
    uint8_t operation = operation_of(calls, call)->call;
    struct description *description = description_of(&calls->open, call->descriptor);
    int32_t inode;

    if (row_succeeded(calls->in, call->row)) {
        description->writes |= changes_size(operation);
        description->is_directory |= operation == GETDENTS;
    }
    if (!changes_size(operation) && operation != FSTAT)
        return;
    inode = descriptor_inode(&calls->open, call->descriptor);
    if (inode != NO_INDEX)
        size_begin(&calls->files, call, inode, changes_size(operation));
}

static void allocate_end(struct calls *calls, const struct running *call)
{
    int64_t flags = row_flags(calls->in, call->row);

    if (flags & (FLAG_COLLAPSE_RANGE | FLAG_INSERT_RANGE))
        size_set(&calls->files, call->sized, NO_INT64);
    else if (!(flags & FLAG_KEEP_SIZE))
        size_write(&calls->files, call->sized, calls->in->offset[call->row], calls->in->bytes[call->row]);
}

void descriptor_end(struct calls *calls, const struct running *call)
{
    static const bool PROVES[NO_CALL] = {
        [FTRUNCATE] = true, [FALLOCATE] = true,       [FADVISE] = true,
        [GETDENTS] = true,  [SYNC_FILE_RANGE] = true, [READAHEAD] = true,
    };
    uint8_t operation = operation_of(calls, call)->call;
    bool is_steady = size_end(&calls->files, call);
    int32_t description_index = calls->open.descriptors[call->descriptor].description;

    if (!row_succeeded(calls->in, call->row))
        return;
    if (PROVES[operation])
        descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
    if (operation == GETDENTS)
        position_lose(calls, call->descriptor);
    if (call->sized == NO_INDEX)
        return;
    if (operation == FTRUNCATE)
        size_set(&calls->files, call->sized, is_steady ? calls->in->bytes[call->row] : NO_INT64);
    else if (operation == FALLOCATE)
        allocate_end(calls, call);
    else
        stat_end(calls, NULL, call->sized, call->row, is_steady);
    if (calls->files.inodes[call->sized].left)
        description_is(&calls->open, description_index, calls->files.inodes[call->sized].left);
    else if (operation == FSTAT && calls->in->mode[call->row] != NO_INT32 && (calls->in->mode[call->row] & 0170000))
        descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
}

void seek_begin(struct calls *calls, struct running *call)
{
    int32_t inode = descriptor_inode(&calls->open, call->descriptor);

    if (inode != NO_INDEX)
        size_begin(&calls->files, call, inode, false);
    position_begin(calls, call->descriptor, &call->is_alone, &call->position_version);
}

void seek_end(struct calls *calls, struct running *call)
{
    call->is_sized_alone = size_end(&calls->files, call);
    if (row_succeeded(calls->in, call->row))
        descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
    else if (row_failed_with(calls->in, call->row, ERROR_SPIPE))
        descriptor_is(&calls->open, call->descriptor, LEFT_PIPE);
    position_seek(calls, call);
}
