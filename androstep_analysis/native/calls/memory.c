// Handles mappings. A program has only mappings of files, and of these only those of the process that created them.
#include "calls/memory.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/left.h"
#include "calls/rows.h"
#include "calls/types.h"

static int32_t space_of(const struct calls *calls, const struct running *call)
{
    return process_of(&calls->threads, call->thread)->space;
}

void mmap_end(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint32_t row = call->row;
    int64_t flags = row_flags(calls->in, row), offset = in->offset[row] == NO_INT64 ? 0 : in->offset[row];
    struct description *description;

    if (!row_succeeded(calls->in, row))
        return;
    if (call->descriptor != NO_INDEX) {
        descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
        description = description_of(&calls->open, call->descriptor);
        description->reads = true;
        description->writes |=
            (flags & FLAG_SHARED) && in->request[row] != NO_INT32 && (in->request[row] & FLAG_PROT_WRITE);
    }
    if (in->result[row] == NO_INT64 || in->bytes[row] == NO_INT64)
        return;
    mapping_remove(&calls->mappings, space_of(calls, call), call->thread, row, (uint64_t)in->result[row],
                   in->bytes[row], NULL);
    if (call->descriptor != NO_INDEX && description_of(&calls->open, call->descriptor)->left == LEFT_NOT)
        mapping_add(&calls->mappings, space_of(calls, call), (uint64_t)in->result[row], in->bytes[row],
                    call->descriptor, offset);
}

void memory_begin(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    struct operation operation = *operation_of(calls, call);

    operation.left = LEFT_MEMORY;
    if (in->address[call->row] != NO_INT64 && in->bytes[call->row] != NO_INT64 && row_succeeded(calls->in, call->row)) {
        if (operation.call == MUNMAP)
            mapping_remove(&calls->mappings, space_of(calls, call), call->thread, call->row,
                           (uint64_t)in->address[call->row], in->bytes[call->row], &operation);
        else
            mapping_sync(&calls->mappings, space_of(calls, call), (uint64_t)in->address[call->row],
                         in->bytes[call->row], &operation);
    }
    *operation_of(calls, call) = operation;
}

void memory_move(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint32_t row = call->row;

    if (row_succeeded(in, row) && in->address[row] != NO_INT64 && in->result[row] != NO_INT64)
        mapping_move(&calls->mappings, space_of(calls, call), (uint64_t)in->address[row], in->bytes[row],
                     (uint64_t)in->result[row]);
}
