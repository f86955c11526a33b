// Takes the calls in: which is handled where, at its beginning and at its end.
#include "calls/calls.h"

static void leave(struct calls *calls, uint32_t row, uint8_t left)
{
    calls->left[row] = left;
}

// Why a row about a descriptor is left out: what the descriptor is, where that is no file.
static uint8_t left_of(struct calls *calls, int32_t descriptor, uint8_t otherwise)
{
    uint8_t left = descriptor == NOBODY ? (uint8_t)LEFT_NOT : description_of(calls, descriptor)->left;

    return left == LEFT_NOT || left == LEFT_UNKNOWN ? otherwise : left;
}

static bool needs_path(uint8_t step)
{
    return step == STEP_OPEN || step == STEP_PATH || (step >= STEP_MAKE && step <= STEP_MKNOD) || step == STEP_CHDIR;
}

static bool has_text(const struct calls *calls, uint32_t row)
{
    const uint8_t *text;
    size_t length;

    return text_of(calls, calls->in->path[row], &text, &length) && length;
}

// The call that a *at call without a path is, on the descriptor itself.
static uint8_t call_on_descriptor(const struct calls *calls, uint32_t row)
{
    const struct call_type *type = call_type(calls->in->call[row]);

    if (type->step != STEP_PATH || calls->in->fd[row] < 0 || has_text(calls, row))
        return NO_CALL;
    if (type->call == UTIMENS && calls->in->path[row] == NO_STRING)
        return FUTIMENS;
    return type->call == STAT && (row_flags(calls, row) & FLAG_AT_EMPTY_PATH) ? (uint8_t)FSTAT : (uint8_t)NO_CALL;
}

static void begin_on_descriptor(struct calls *calls, struct running *call, uint8_t operation)
{
    call->descriptor = first_descriptor(calls, call);
    call->operation = (int32_t)calls->nr_operations;
    calls_operation(calls, call->row, call->thread, operation)->descriptor = call->descriptor;
    if (call->descriptor == NOBODY)
        operation_of(calls, call)->left = LEFT_UNKNOWN;
    else if (operation != FSTAT)
        size_recorded(calls, call);
}

static void begin_on_path(struct calls *calls, struct running *call, const struct call_type *type)
{
    const struct calls_input *in = calls->in;
    const uint8_t *text;
    size_t length;

    if (in->fd[call->row] >= 0 && in->fd[call->row] != AT_WORKING_DIRECTORY &&
        text_of(calls, in->path[call->row], &text, &length) && length && *text != '/')
        call->descriptor = first_descriptor(calls, call);
    if (in->fd2[call->row] >= 0 && text_of(calls, in->path2[call->row], &text, &length) && length && *text != '/')
        call->descriptor2 = second_descriptor(calls, call);
    if (type->step == STEP_CHDIR) {
        leave(calls, call->row, LEFT_NO_EFFECT);
        return;
    }
    call->operation = (int32_t)calls->nr_operations;
    calls_operation(calls, call->row, call->thread, type->call);
    if (type->step == STEP_OPEN || type->step == STEP_PATH)
        path_begin(calls, call);
}

// What a call did that began before the recording: readers also tell so what was open and where it stood by then.
static void resume(struct calls *calls, uint32_t row, int32_t thread)
{
    const struct calls_input *in = calls->in;
    uint8_t step = call_type(in->call[row])->step;
    int64_t result = in->result[row];
    int32_t descriptor;
    struct place place;

    if (step == STEP_SEEK && in->fd[row] >= 0) {
        descriptor = descriptor_at(calls, thread, row, in->fd[row], NO_STRING, NO_CODE);
        if (descriptor != NOBODY)
            description_of(calls, descriptor)->position = description_of(calls, descriptor)->start = result;
    } else if (step == STEP_CHDIR && in->path[row] != NO_STRING &&
               names_walk(calls, ROOT, in->path[row], true, &place)) {
        names_confirm(calls, &place, TYPE_DIRECTORY);
        *working_directory(calls, thread) = place.inode;
    } else if (result <= INT32_MAX && (step == STEP_OPEN || step == STEP_DUP || step == STEP_SPECIAL)) {
        descriptor_foreign(calls, thread, row, (int32_t)result, in->result_path[row], row_flags(calls, row));
    }
}

// Calls of which only the end is recorded, or none: they are left out, but what they opened or ended counts.
static bool is_partial(struct calls *calls, uint32_t row, int32_t thread)
{
    const struct call_type *type = call_type(calls->in->call[row]);
    int64_t result = calls->in->result[row];

    if (type->step == STEP_EXIT || type->step == STEP_EXIT_GROUP)
        return false;
    if (calls->in->state[row] == STATE_WHOLE &&
        (calls->in->failed[row] != 1 || result == NO_INT64 || -result < FIRST_INTERNAL_ERROR))
        return false;
    leave(calls, row, LEFT_UNFINISHED);
    if (calls->in->state[row] == STATE_RESUMED && row_succeeded(calls, row) && result >= 0)
        resume(calls, row, thread);
    return true;
}

// Begins a call on a descriptor; false where nothing is to be done at its end.
static bool begin_descriptor_step(struct calls *calls, struct running *call, const struct call_type *type)
{
    if (type->step == STEP_FCNTL && !is_duplicate(calls, call->row)) {
        call->descriptor = first_descriptor(calls, call);
        leave(calls, call->row,
              call->descriptor == NOBODY ? (uint8_t)LEFT_UNKNOWN
                                         : left_of(calls, call->descriptor, descriptor_control(calls, call)));
        return false;
    }
    if (type->step == STEP_DUP_TO && !is_duplicate(calls, call->row)) {
        leave(calls, call->row, LEFT_NO_EFFECT);
        return false;
    }
    begin_on_descriptor(calls, call, type->call);
    if (call->descriptor == NOBODY)
        return false;
    switch (type->step) {
    case STEP_CLOSE:
        close_begin(calls, call);
        return false;
    case STEP_SEEK:
        seek_begin(calls, call);
        break;
    case STEP_STREAM:
    case STEP_PLACE:
        operation_of(calls, call)->offset = calls->in->offset[call->row];
        if (transfer_is_at_position(calls, call->row) && type->step == STEP_PLACE) // preadv2 with offset -1
            operation_of(calls, call)->call = transfer_is_write(type->call) ? WRITEV : READV;
        transfer_begin(calls, call);
        break;
    case STEP_DESCRIPTOR:
        descriptor_begin(calls, call);
        break;
    default:
        break;
    }
    return true;
}

static bool begin_memory(struct calls *calls, struct running *call, const struct call_type *type)
{
    const struct calls_input *in = calls->in;

    if (type->step == STEP_MREMAP) {
        if (row_succeeded(calls, call->row) && in->address[call->row] != NO_INT64 && in->result[call->row] != NO_INT64)
            mapping_move(calls, call->thread, call->row);
        leave(calls, call->row, LEFT_MEMORY);
        return false;
    }
    if (type->step == STEP_MMAP && in->fd[call->row] >= 0 && !(row_flags(calls, call->row) & FLAG_ANONYMOUS)) {
        begin_on_descriptor(calls, call, MMAP);
        return call->descriptor != NOBODY;
    }
    if (type->step == STEP_MMAP) {
        leave(calls, call->row, LEFT_MEMORY);
        return true;
    }
    call->operation = (int32_t)calls->nr_operations;
    calls_operation(calls, call->row, call->thread, type->call);
    memory_begin(calls, call);
    return false;
}

static void begin_process(struct calls *calls, const struct running *call, const struct call_type *type)
{
    int64_t child = calls->in->result[call->row];

    leave(calls, call->row, LEFT_PROCESS);
    if (type->step == STEP_CLONE && row_succeeded(calls, call->row) && child > 0 && child <= INT32_MAX)
        process_clone(calls, call->thread, call->row, row_flags(calls, call->row), (int32_t)child);
    else if (type->step == STEP_EXIT || type->step == STEP_EXIT_GROUP)
        process_exit(calls, call->thread, call->row, type->step == STEP_EXIT_GROUP);
    else if (type->step == STEP_UNSHARE && row_succeeded(calls, call->row))
        process_unshare(calls, call->thread, call->row, row_flags(calls, call->row));
}

// A call that is left out, whatever it does; what it shows of its descriptor counts.
static void begin_left(struct calls *calls, struct running *call, const struct call_type *type)
{
    uint8_t left = type->step == STEP_UNSUPPORTED ? (uint8_t)LEFT_UNSUPPORTED : type->left;

    call->descriptor = first_descriptor(calls, call);
    if (type->step == STEP_IOCTL)
        left = call->descriptor == NOBODY ? LEFT_UNKNOWN : device_control(calls, call);
    if (type->step == STEP_ON_SPECIAL && row_succeeded(calls, call->row) && call->descriptor != NOBODY)
        descriptor_is(calls, call->descriptor, type->left);
    leave(calls, call->row, left_of(calls, call->descriptor, left));
}

// Whether there is more to be done at the end of the call.
static bool begin(struct calls *calls, struct running *call, const struct call_type *type)
{
    uint8_t on_descriptor = call_on_descriptor(calls, call->row);

    if (on_descriptor != NO_CALL) {
        begin_on_descriptor(calls, call, on_descriptor);
        if (call->descriptor != NOBODY)
            descriptor_begin(calls, call);
        return call->descriptor != NOBODY;
    }
    if (needs_path(type->step)) {
        begin_on_path(calls, call, type);
        return true;
    }
    switch (type->step) {
    case STEP_CLOSE:
    case STEP_DUP:
    case STEP_DUP_TO:
    case STEP_FCNTL:
    case STEP_SEEK:
    case STEP_STREAM:
    case STEP_PLACE:
    case STEP_DESCRIPTOR:
        return begin_descriptor_step(calls, call, type);
    case STEP_BETWEEN:
        call->operation = (int32_t)calls->nr_operations;
        calls_operation(calls, call->row, call->thread, type->call);
        between_begin(calls, call);
        return true;
    case STEP_MMAP:
    case STEP_MUNMAP:
    case STEP_MREMAP:
    case STEP_MSYNC:
        return begin_memory(calls, call, type);
    case STEP_SYNC:
        calls_operation(calls, call->row, call->thread, SYNC);
        return false;
    case STEP_CLONE:
    case STEP_UNSHARE:
    case STEP_EXIT:
    case STEP_EXIT_GROUP:
        begin_process(calls, call, type);
        return false;
    case STEP_CLOSE_RANGE:
        leave(calls, call->row, LEFT_PROCESS);
        close_range_begin(calls, call);
        return false;
    case STEP_IOCTL:
    case STEP_ON_SPECIAL:
    case STEP_UNSUPPORTED:
        begin_left(calls, call, type);
        return type->step == STEP_ON_SPECIAL && type->flags;
    case STEP_FCHDIR:
        call->descriptor = first_descriptor(calls, call);
        leave(calls, call->row, LEFT_NO_EFFECT);
        return true;
    case STEP_EXEC:
    case STEP_GETCWD:
    case STEP_SPECIAL:
    case STEP_SPECIAL_PAIR:
    case STEP_FOREIGN:
        leave(calls, call->row, type->left);
        return true;
    default:
        leave(calls, call->row, type->left);
        return false;
    }
}

// A call whose duration is not recorded stands on one line, and nothing that was recorded happened meanwhile.
static int64_t end_of(const struct calls_input *in, uint32_t row)
{
    int64_t duration = in->duration_ns[row], end;

    if (duration == NO_INT64 || duration < 0 || __builtin_add_overflow(in->ts_ns[row], duration, &end))
        return in->ts_ns[row];
    return end;
}

// Whether the call cannot have ended yet, whatever its rounded or missing times say: it returns a number that is open.
// It ended before the next call of its thread, and before another thread used the number.
bool call_is_early(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint8_t step = call_type(in->call[call->row])->step;
    bool makes = step == STEP_OPEN || step == STEP_DUP || step == STEP_FCNTL || step == STEP_SPECIAL;
    int64_t result = step == STEP_SPECIAL_PAIR ? in->fd[call->row] : makes ? in->result[call->row] : NO_INT64;

    if (!row_succeeded(calls, call->row) || result < 0 || result > INT32_MAX)
        return false;
    return descriptor_was_opened(calls, call->thread, (int32_t)result) ||
           (step == STEP_SPECIAL_PAIR && in->fd2[call->row] >= 0 &&
            descriptor_was_opened(calls, call->thread, in->fd2[call->row]));
}

static void take_in(struct calls *calls, const struct running *call)
{
    calls->row = call->row;
    calls->thread = call->thread;
    calls->end_ns = end_of(calls->in, call->row);
}

void call_begin(struct calls *calls, uint32_t row)
{
    const struct calls_input *in = calls->in;
    const struct call_type *type = call_type(in->call[row]);
    struct running call = {
        .end_ns = end_of(in, row),
        .row = row,
        .thread = thread_of(calls, in->tid[row], in->pid[row]),
        .operation = NOBODY,
        .descriptor = NOBODY,
        .descriptor2 = NOBODY,
        .sized = NOBODY,
    };

    calls->row_threads[row] = call.thread;
    running_end_thread(calls, call.thread);
    descriptor_install_late(calls, call.thread, row);
    calls->threads[call.thread].row = row;
    take_in(calls, &call);
    if (is_partial(calls, row, call.thread) || !begin(calls, &call, type))
        return;
    if (call.end_ns <= in->ts_ns[row] && call_is_early(calls, &call))
        call.end_ns = INT64_MAX;
    if (call.end_ns > in->ts_ns[row])
        running_add(calls, &call);
    else
        call_end(calls, &call);
}

static void end_on_descriptor(struct calls *calls, struct running *call, uint8_t step)
{
    if (row_failed_with(calls, call->row, ERROR_BADF)) {
        operation_of(calls, call)->left = LEFT_UNKNOWN;
    } else if (step == STEP_PLACE && row_failed_with(calls, call->row, ERROR_SPIPE)) {
        descriptor_is(calls, call->descriptor, LEFT_PIPE);
    }
    if (step == STEP_SEEK)
        seek_end(calls, call);
    else if (step == STEP_STREAM || step == STEP_PLACE)
        transfer_end(calls, call);
    else if (step == STEP_DUP || step == STEP_DUP_TO || step == STEP_FCNTL)
        duplicate_end(calls, call);
    else
        descriptor_end(calls, call);
}

static void end_step(struct calls *calls, const struct running *begun)
{
    struct running call = *begun;
    const struct call_type *type = call_type(calls->in->call[call.row]);

    switch (type->step) {
    case STEP_OPEN:
        open_end(calls, &call);
        break;
    case STEP_PATH:
        if (call.descriptor != NOBODY && call_on_descriptor(calls, call.row) != NO_CALL)
            end_on_descriptor(calls, &call, STEP_DESCRIPTOR);
        else
            path_end(calls, &call);
        break;
    case STEP_MAKE:
    case STEP_REMOVE:
    case STEP_RENAME:
    case STEP_LINK:
    case STEP_SYMLINK:
    case STEP_MKNOD:
        directory_end(calls, &call);
        break;
    case STEP_BETWEEN:
        between_end(calls, &call);
        break;
    case STEP_MMAP:
        mmap_end(calls, &call);
        break;
    case STEP_CHDIR:
    case STEP_FCHDIR:
    case STEP_GETCWD:
        directory_changed(calls, &call);
        break;
    case STEP_EXEC:
        if (row_succeeded(calls, call.row))
            process_exec(calls, call.thread, call.row);
        break;
    case STEP_SPECIAL:
    case STEP_SPECIAL_PAIR:
        special_end(calls, &call);
        break;
    case STEP_FOREIGN:
    case STEP_ON_SPECIAL:
        foreign_end(calls, &call);
        break;
    default:
        end_on_descriptor(calls, &call, type->step);
        break;
    }
}

// Calls may end while another one is taken in, which needs what they made.
void call_end(struct calls *calls, const struct running *call)
{
    uint32_t row = calls->row;
    int32_t thread = calls->thread;
    int64_t end_ns = calls->end_ns;

    take_in(calls, call);
    end_step(calls, call);
    calls->row = row;
    calls->thread = thread;
    calls->end_ns = end_ns;
}
