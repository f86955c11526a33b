// A close takes effect at its begin, a call that creates a descriptor at its end.
#include "calls/numbers.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/left.h"
#include "calls/rows.h"
#include "calls/types.h"

enum { DUPLICATE = 0, SET_DESCRIPTOR_FLAGS = 2, GET_FLAGS = 3, SET_FLAGS = 4, DUPLICATE_CLOEXEC = 1030 };
enum { SET_CLOEXEC = 0x5451, CLEAR_CLOEXEC = 0x5450, CLONES_RANGES = 1 }; // requests of ioctl, as Python encodes them
enum { DIRECT = 040000, LAST_FD = INT32_MAX };

void close_begin(struct calls *calls, struct running *call)
{
    if (!row_failed_with(calls->in, call->row, ERROR_BADF))
        descriptor_closed(&calls->open, call->thread, calls->in->fd[call->row]);
}

void close_range_begin(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;

    if (row_succeeded(calls->in, call->row))
        descriptors_close_range(&calls->open, call->thread, call->row, (uint32_t)in->fd[call->row],
                                in->fd2[call->row] < 0 ? LAST_FD : (uint32_t)in->fd2[call->row],
                                row_flags(calls->in, call->row) & FLAG_RANGE_CLOEXEC);
}

bool is_duplicate(const struct calls *calls, uint32_t row)
{
    const struct calls_input *in = calls->in;
    uint8_t step = call_type(in->call[row])->step;

    return step == STEP_DUP || (step == STEP_DUP_TO && in->fd[row] != in->fd2[row]) ||
           (step == STEP_FCNTL && (in->request[row] == DUPLICATE || in->request[row] == DUPLICATE_CLOEXEC));
}

void duplicate_end(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint8_t step = call_type(in->call[call->row])->step;
    int64_t result = step == STEP_DUP_TO ? in->fd2[call->row] : in->result[call->row];
    bool is_cloexec = step == STEP_FCNTL ? in->request[call->row] == DUPLICATE_CLOEXEC
                                         : row_flags(calls->in, call->row) & FLAG_CLOEXEC;
    int32_t made;

    if (!row_succeeded(calls->in, call->row) || result < 0 || result > INT32_MAX)
        return;
    made = descriptor_new(&calls->open, calls->open.descriptors[call->descriptor].description);
    descriptor_install(&calls->open, call->thread, call->row, (int32_t)result, made, is_cloexec);
    operation_of(calls, call)->descriptor2 = made;
}

uint8_t descriptor_control(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    int64_t flags = row_flags(calls->in, call->row), result = in->result[call->row];
    struct description *description = description_of(&calls->open, call->descriptor);
    bool was_append = description->is_append;

    if (!row_succeeded(calls->in, call->row))
        return LEFT_NO_EFFECT;
    switch (in->request[call->row]) {
    case SET_DESCRIPTOR_FLAGS:
        descriptor_cloexec(&calls->open, call->thread, in->fd[call->row], flags & (1 | FLAG_CLOEXEC));
        return LEFT_NO_EFFECT;
    case GET_FLAGS:
        if (description->inserted_open != NO_INDEX && result != NO_INT64) {
            description->is_append = result & FLAG_APPEND;
            description->writes |= (result & (FLAG_WRONLY | FLAG_RDWR)) != 0;
            description->reads |= !(result & FLAG_WRONLY);
        }
        return LEFT_NO_EFFECT;
    case SET_FLAGS:
        description->is_append = flags & FLAG_APPEND;
        return was_append != description->is_append || (flags & DIRECT) ? LEFT_UNSUPPORTED : LEFT_NO_EFFECT;
    default:
        return LEFT_NO_EFFECT;
    }
}

uint8_t device_control(struct calls *calls, const struct running *call)
{
    int32_t request = calls->in->request[call->row];

    if (row_succeeded(calls->in, call->row) && (request == SET_CLOEXEC || request == CLEAR_CLOEXEC))
        descriptor_cloexec(&calls->open, call->thread, calls->in->fd[call->row], request == SET_CLOEXEC);
    return request == CLONES_RANGES ? LEFT_UNSUPPORTED : LEFT_NO_EFFECT;
}

void special_end(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    const struct call_type *type = call_type(in->call[call->row]);
    int64_t result = in->result[call->row];
    int32_t made[2] = {in->fd[call->row], in->fd2[call->row]};
    bool is_cloexec = row_flags(calls->in, call->row) & FLAG_CLOEXEC;

    if (!row_succeeded(calls->in, call->row))
        return;
    if (type->step == STEP_SPECIAL) {
        made[0] = result < 0 || result > INT32_MAX ? NO_INDEX : (int32_t)result;
        made[1] = NO_INDEX;
    }
    for (int n = 0; n < 2; n++)
        if (made[n] >= 0)
            descriptor_install(&calls->open, call->thread, call->row, made[n],
                               descriptor_new(&calls->open, description_new(&calls->open, NO_INDEX, type->left)),
                               is_cloexec);
}

void foreign_end(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    bool is_message = call_type(in->call[call->row])->step == STEP_ON_SPECIAL;
    int64_t result = is_message ? in->fd2[call->row] : in->result[call->row];

    if (row_succeeded(calls->in, call->row) && result >= 0 && result <= INT32_MAX)
        descriptor_foreign(calls, call->thread, call->row, (int32_t)result,
                           is_message ? in->fd2_path[call->row] : in->result_path[call->row], 0);
}
