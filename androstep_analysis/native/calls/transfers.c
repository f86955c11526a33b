// Without recorded results, calls count as having moved the bytes that they requested.
#include "calls/transfers.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/left.h"
#include "calls/positions.h"
#include "calls/rows.h"
#include "calls/sizes.h"
#include "calls/types.h"

bool transfer_is_write(uint8_t call)
{
    return call == WRITE || call == PWRITE || call == WRITEV || call == PWRITEV || call == MAPPED_WRITE;
}

bool transfer_is_at_position(const struct calls *calls, uint32_t row)
{
    int64_t offset = calls->in->offset[row];

    return call_type(calls->in->call[row])->step == STEP_STREAM || offset == -1 || offset == NO_INT64;
}

// Returns the number of bytes moved or, without a recorded result, requested; NO_INT64: unknown.
static int64_t moved_by(const struct calls *calls, uint32_t row)
{
    int64_t result = calls->in->result[row];

    if (calls->in->failed[row] == 1)
        return 0;
    return result != NO_INT64 ? result : calls->in->bytes[row];
}

static bool appends(struct calls *calls, const struct running *call)
{
    return description_of(&calls->open, call->descriptor)->is_append ||
           (row_flags(calls->in, call->row) & FLAG_RWF_APPEND);
}

void transfer_begin(struct calls *calls, struct running *call)
{
    uint8_t operation = call_type(calls->in->call[call->row])->call;
    struct description *description = description_of(&calls->open, call->descriptor);
    int32_t inode = descriptor_inode(&calls->open, call->descriptor);

    if (row_succeeded(calls->in, call->row)) {
        description->writes |= transfer_is_write(operation);
        description->reads |= !transfer_is_write(operation);
    }
    if (inode != NO_INDEX)
        size_begin(&calls->files, call, inode, transfer_is_write(operation));
    if (transfer_is_at_position(calls, call->row))
        position_begin(calls, call->descriptor, &call->is_alone, &call->position_version);
}

// Ends a write to the end of the file.
static int64_t append_end(struct calls *calls, const struct running *call, int64_t moved, bool is_steady)
{
    int64_t offset = size_append(&calls->files, call->sized, is_steady, moved), after;
    bool stays = !transfer_is_at_position(calls, call->row);

    if (stays)
        return offset;
    position_move(calls, call->descriptor, call->is_alone, call->position_version, 0);
    position_lose(calls, call->descriptor);
    if (offset != NO_INT64 && call->is_alone && !__builtin_add_overflow(offset, moved, &after))
        description_of(&calls->open, call->descriptor)->position = after;
    return offset;
}

void transfer_end(struct calls *calls, const struct running *call)
{
    uint32_t row = call->row;
    bool writes = transfer_is_write(call_type(calls->in->call[row])->call), is_steady = size_end(&calls->files, call);
    int64_t moved = moved_by(calls, row), offset = calls->in->offset[row];

    if (moved == NO_INT64) {
        if (transfer_is_at_position(calls, row)) {
            position_move(calls, call->descriptor, call->is_alone, call->position_version, 0);
            position_lose(calls, call->descriptor);
        }
        return;
    }
    if (writes && moved > 0 && call->sized != NO_INDEX && appends(calls, call)) {
        offset = append_end(calls, call, moved, is_steady);
        if (transfer_is_at_position(calls, row))
            operation_of(calls, call)->offset = offset;
        return;
    }
    if (transfer_is_at_position(calls, row)) {
        offset = position_move(calls, call->descriptor, call->is_alone, call->position_version, moved);
        if (!writes && moved > 0)
            position_reach(calls, call->descriptor);
        // An append writes at the end of the file. If it wrote nothing, its offset does not matter.
        operation_of(calls, call)->offset = writes && appends(calls, call) ? NO_INT64 : offset;
    } else if (row_succeeded(calls->in, row)) {
        descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
    }
    if (call->sized == NO_INDEX || !row_succeeded(calls->in, row))
        return;
    if (writes)
        size_write(&calls->files, call->sized, offset, moved);
    else
        size_read(&calls->files, call->sized, offset, calls->in->bytes[row], moved, is_steady);
}

// Checks whether the call got a pointer to an offset whose value is not recorded.
static bool has_unknown_offset(const struct calls *calls, uint32_t row)
{
    const struct calls_input *in = calls->in;

    return in->address[row] != NO_INT64 && in->offset[row] == NO_INT64 && in->offset2[row] == NO_INT64;
}

// Omits a call that moved bytes between files at unknown offsets.
static void leave_between(struct calls *calls, struct running *call)
{
    int32_t inode = descriptor_inode(&calls->open, call->descriptor2);

    operation_of(calls, call)->left = LEFT_UNSUPPORTED;
    position_lose(calls, call->descriptor);
    position_lose(calls, call->descriptor2);
    if (inode != NO_INDEX)
        size_set(&calls->files, inode, NO_INT64);
    call->descriptor = NO_INDEX;
}

void between_begin(struct calls *calls, struct running *call)
{
    const struct calls_input *in = calls->in;
    struct operation *operation;
    bool is_sendfile = call_type(in->call[call->row])->call == SENDFILE;
    int64_t from_offset = is_sendfile ? in->offset2[call->row] : in->offset[call->row];
    int64_t to_offset = is_sendfile ? NO_INT64 : in->offset2[call->row];
    int32_t inode;

    operation = operation_of(calls, call);
    operation->descriptor = call->descriptor;
    operation->descriptor2 = call->descriptor2;
    operation->offset = from_offset;
    operation->offset2 = to_offset;
    if (call->descriptor == NO_INDEX || call->descriptor2 == NO_INDEX) {
        operation->left = LEFT_UNKNOWN;
        return;
    }
    if (has_unknown_offset(calls, call->row)) {
        leave_between(calls, call);
        return;
    }
    description_of(&calls->open, call->descriptor)->reads |= row_succeeded(calls->in, call->row);
    description_of(&calls->open, call->descriptor2)->writes |= row_succeeded(calls->in, call->row);
    if (from_offset == NO_INT64)
        position_begin(calls, call->descriptor, &call->is_alone, &call->position_version);
    if (to_offset == NO_INT64)
        position_begin(calls, call->descriptor2, &call->is_alone2, &call->position_version2);
    inode = descriptor_inode(&calls->open, call->descriptor2);
    if (inode != NO_INDEX)
        size_begin(&calls->files, call, inode, true);
}

void between_end(struct calls *calls, const struct running *call)
{
    int64_t moved = moved_by(calls, call->row), from, to;
    bool is_steady = size_end(&calls->files, call);
    int32_t inode;

    if (call->descriptor == NO_INDEX || call->descriptor2 == NO_INDEX)
        return;
    from = operation_of(calls, call)->offset;
    to = operation_of(calls, call)->offset2;
    if (from == NO_INT64)
        from = position_move(calls, call->descriptor, call->is_alone, call->position_version,
                             moved == NO_INT64 ? 0 : moved);
    if (to == NO_INT64)
        to = position_move(calls, call->descriptor2, call->is_alone2, call->position_version2,
                           moved == NO_INT64 ? 0 : moved);
    if (moved == NO_INT64) {
        position_lose(calls, call->descriptor);
        position_lose(calls, call->descriptor2);
        return;
    }
    if (!row_succeeded(calls->in, call->row))
        return;
    inode = descriptor_inode(&calls->open, call->descriptor);
    if (inode != NO_INDEX)
        size_read(&calls->files, inode, from, NO_INT64, moved, false);
    if (call->sized == NO_INDEX)
        return;
    if (description_of(&calls->open, call->descriptor2)->is_append) {
        size_append(&calls->files, call->sized, is_steady, moved);
        position_lose(calls, call->descriptor2);
    } else {
        size_write(&calls->files, call->sized, to, moved);
    }
}
