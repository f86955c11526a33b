// Calls on memory that files lie in.
#include "calls/calls.h"

void mmap_end(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint32_t row = call->row;
    int64_t flags = row_flags(calls, row), offset = in->offset[row] == NO_INT64 ? 0 : in->offset[row];
    struct description *description;

    if (!row_succeeded(calls, row))
        return;
    if (call->descriptor != NOBODY) {
        descriptor_is(calls, call->descriptor, LEFT_NOT);
        description = description_of(calls, call->descriptor);
        description->reads = true;
        description->writes |=
            (flags & FLAG_SHARED) && in->request[row] != NO_INT32 && (in->request[row] & FLAG_PROT_WRITE);
    }
    if (in->result[row] == NO_INT64 || in->bytes[row] == NO_INT64)
        return;
    mapping_remove(calls, call->thread, row, (uint64_t)in->result[row], in->bytes[row], NULL);
    if (call->descriptor != NOBODY && description_of(calls, call->descriptor)->left == LEFT_NOT)
        mapping_add(calls, calls->processes[calls->threads[call->thread].process].space, (uint64_t)in->result[row],
                    in->bytes[row], call->descriptor, offset);
}

void memory_begin(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    struct operation operation = *operation_of(calls, call);

    operation.left = LEFT_MEMORY;
    if (in->address[call->row] != NO_INT64 && in->bytes[call->row] != NO_INT64 && row_succeeded(calls, call->row)) {
        if (operation.call == MUNMAP)
            mapping_remove(calls, call->thread, call->row, (uint64_t)in->address[call->row], in->bytes[call->row],
                           &operation);
        else
            mapping_sync(calls, call->thread, call->row, &operation);
    }
    *operation_of(calls, call) = operation;
}
