// What the row of a call says, and the descriptors that it names.
#include "calls/calls.h"

bool row_succeeded(const struct calls *calls, uint32_t row)
{
    return calls->in->failed[row] != 1;
}

bool row_failed_with(const struct calls *calls, uint32_t row, int64_t error)
{
    return calls->in->failed[row] == 1 && calls->in->result[row] == -error;
}

int64_t row_flags(const struct calls *calls, uint32_t row)
{
    int64_t flags = calls->in->flags[row];

    return (flags == NO_INT64 ? 0 : flags) | call_type(calls->in->call[row])->flags;
}

struct operation *operation_of(struct calls *calls, const struct running *call)
{
    return &calls->operations[call->operation];
}

int32_t first_descriptor(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;

    return descriptor_at(calls, call->thread, call->row, in->fd[call->row], in->fd_path[call->row],
                         in->fd_kind[call->row]);
}

int32_t second_descriptor(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;

    return descriptor_at(calls, call->thread, call->row, in->fd2[call->row], in->fd2_path[call->row], NO_CODE);
}
