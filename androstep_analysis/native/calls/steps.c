// Selects the functions that handle a call.
#include "calls/steps.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/inquiries.h"
#include "calls/left.h"
#include "calls/memory.h"
#include "calls/numbers.h"
#include "calls/paths.h"
#include "calls/processes.h"
#include "calls/rows.h"
#include "calls/texts.h"
#include "calls/transfers.h"
#include "calls/types.h"
#include "syscalls/columns.h"

static void leave(struct calls *calls, uint32_t row, uint8_t left)
{
    calls->left[row] = left;
}

// Returns why a row on a descriptor is omitted: what the descriptor is or, for a file, `otherwise`.
static uint8_t left_of(struct calls *calls, int32_t descriptor, uint8_t otherwise)
{
    uint8_t left = descriptor == NO_INDEX ? (uint8_t)LEFT_NOT : description_of(&calls->open, descriptor)->left;

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

    return text_of(calls->in, calls->in->path[row], &text, &length) && length;
}

// Returns the call on a descriptor that is equivalent to an *at call without a path.
static uint8_t call_on_descriptor(const struct calls *calls, uint32_t row)
{
    const struct call_type *type = call_type(calls->in->call[row]);

    if (type->step != STEP_PATH || calls->in->fd[row] < 0 || has_text(calls, row))
        return NO_CALL;
    if (type->call == UTIMENS && calls->in->path[row] == NO_STRING)
        return FUTIMENS;
    return type->call == STAT && (row_flags(calls->in, row) & FLAG_AT_EMPTY_PATH) ? (uint8_t)FSTAT : (uint8_t)NO_CALL;
}

static void begin_on_descriptor(struct calls *calls, struct running *call, uint8_t operation)
{
    call->operation = (int32_t)calls->program.nr_operations;
    operation_new(&calls->program, call->row, call->thread, operation)->descriptor = call->descriptor;
    if (call->descriptor == NO_INDEX)
        operation_of(calls, call)->left = LEFT_UNKNOWN;
    else if (operation != FSTAT)
        size_recorded(calls, call);
}

static void begin_on_path(struct calls *calls, struct running *call, const struct call_type *type)
{
    if (type->step == STEP_CHDIR) {
        leave(calls, call->row, LEFT_NO_EFFECT);
        return;
    }
    call->operation = (int32_t)calls->program.nr_operations;
    operation_new(&calls->program, call->row, call->thread, type->call);
    if (type->step == STEP_OPEN || type->step == STEP_PATH)
        path_begin(calls, call);
}

// Checks whether the path starts from a descriptor.
static bool is_relative(const struct calls *calls, int32_t fd, uint32_t path)
{
    const uint8_t *text;
    size_t length;

    return fd >= 0 && text_of(calls->in, path, &text, &length) && length && *text != '/';
}

bool call_is_partial(const struct calls *calls, uint32_t row)
{
    const struct call_type *type = call_type(calls->in->call[row]);
    int64_t result = calls->in->result[row];

    if (type->step == STEP_EXIT || type->step == STEP_EXIT_GROUP)
        return false;
    return calls->in->state[row] != STATE_WHOLE ||
           (calls->in->failed[row] == 1 && result != NO_INT64 && -result >= FIRST_INTERNAL_ERROR);
}

// Checks whether the recording has the effect of a call that began before it.
static bool is_resumed(const struct calls *calls, uint32_t row)
{
    return calls->in->state[row] == STATE_RESUMED && row_succeeded(calls->in, row) && calls->in->result[row] >= 0;
}

// Applies the effect of a call that began before the recording. Readers also use such rows for the files that were open
// at the start, and their positions.
void call_resume(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint32_t row = call->row;
    uint8_t step = call_type(in->call[row])->step;
    int64_t result = in->result[row];
    struct location location;

    leave(calls, row, LEFT_UNFINISHED);
    if (!is_resumed(calls, row))
        return;
    if (step == STEP_SEEK && in->fd[row] >= 0) {
        if (call->descriptor != NO_INDEX)
            description_of(&calls->open, call->descriptor)->position =
                description_of(&calls->open, call->descriptor)->start = result;
    } else if (step == STEP_CHDIR && in->path[row] != NO_STRING &&
               names_walk(&calls->names, ROOT, in->path[row], true, &location)) {
        names_confirm(&calls->names, &location, TYPE_DIRECTORY);
        *working_directory(&calls->threads, call->thread) = location.inode;
    } else if (result <= INT32_MAX && (step == STEP_OPEN || step == STEP_DUP || step == STEP_SPECIAL)) {
        descriptor_foreign(calls, call->thread, row, (int32_t)result, in->result_path[row], row_flags(calls->in, row));
    }
}

// Begins a call on a descriptor; false if there is nothing to do at its end.
static bool begin_descriptor_step(struct calls *calls, struct running *call, const struct call_type *type)
{
    if (type->step == STEP_FCNTL && !is_duplicate(calls, call->row)) {
        leave(calls, call->row,
              call->descriptor == NO_INDEX ? (uint8_t)LEFT_UNKNOWN
                                           : left_of(calls, call->descriptor, descriptor_control(calls, call)));
        return false;
    }
    if (type->step == STEP_DUP_TO && !is_duplicate(calls, call->row)) {
        leave(calls, call->row, LEFT_NO_EFFECT);
        return false;
    }
    begin_on_descriptor(calls, call, type->call);
    if (call->descriptor == NO_INDEX)
        return false;
    switch (type->step) {
    case STEP_CLOSE:
        close_begin(calls, call);
        return false;
    case STEP_SEEK:
        seek_begin(calls, call);
        break;
    case STEP_STREAM:
    case STEP_AT_OFFSET:
        operation_of(calls, call)->offset = calls->in->offset[call->row];
        if (transfer_is_at_position(calls, call->row) && type->step == STEP_AT_OFFSET) // preadv2 with offset -1
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

// Checks whether the mapped memory is that of a file.
static bool is_of_file(const struct calls *calls, uint32_t row)
{
    return calls->in->fd[row] >= 0 && !(row_flags(calls->in, row) & FLAG_ANONYMOUS);
}

static bool begin_memory(struct calls *calls, struct running *call, const struct call_type *type)
{
    if (type->step == STEP_MREMAP) {
        memory_move(calls, call);
        leave(calls, call->row, LEFT_MEMORY);
        return false;
    }
    if (type->step == STEP_MMAP && is_of_file(calls, call->row)) {
        begin_on_descriptor(calls, call, MMAP);
        return call->descriptor != NO_INDEX;
    }
    if (type->step == STEP_MMAP) {
        leave(calls, call->row, LEFT_MEMORY);
        return true;
    }
    call->operation = (int32_t)calls->program.nr_operations;
    operation_new(&calls->program, call->row, call->thread, type->call);
    memory_begin(calls, call);
    return false;
}

static void begin_process(struct calls *calls, const struct running *call, const struct call_type *type)
{
    int64_t child = calls->in->result[call->row];

    leave(calls, call->row, LEFT_PROCESS);
    if (type->step == STEP_CLONE && row_succeeded(calls->in, call->row) && child > 0 && child <= INT32_MAX)
        process_clone(calls, call->thread, call->row, row_flags(calls->in, call->row), (int32_t)child);
    else if (type->step == STEP_EXIT || type->step == STEP_EXIT_GROUP)
        process_exit(calls, call->thread, call->row, type->step == STEP_EXIT_GROUP);
    else if (type->step == STEP_UNSHARE && row_succeeded(calls->in, call->row))
        process_unshare(calls, call->thread, call->row, row_flags(calls->in, call->row));
}

// Begins a call that is omitted in any case. It may still show what its descriptor is.
static void begin_left(struct calls *calls, struct running *call, const struct call_type *type)
{
    uint8_t left = type->step == STEP_UNSUPPORTED ? (uint8_t)LEFT_UNSUPPORTED : type->left;

    if (type->step == STEP_IOCTL)
        left = call->descriptor == NO_INDEX ? LEFT_UNKNOWN : device_control(calls, call);
    if (type->step == STEP_ON_SPECIAL && row_succeeded(calls->in, call->row) && call->descriptor != NO_INDEX)
        descriptor_is(&calls->open, call->descriptor, type->left);
    leave(calls, call->row, left_of(calls, call->descriptor, left));
}

void call_fds(const struct calls *calls, uint32_t row, enum fd_choice fds[2])
{
    const struct calls_input *in = calls->in;
    const struct call_type *type = call_type(in->call[row]);
    bool has_one;

    fds[0] = fds[1] = NO_FD;
    if (call_is_partial(calls, row)) {
        fds[0] = type->step == STEP_SEEK && is_resumed(calls, row) ? FIRST_FD : NO_FD;
        return;
    }
    if (call_on_descriptor(calls, row) == NO_CALL && needs_path(type->step)) {
        fds[0] = is_relative(calls, in->fd[row], in->path[row]) ? FIRST_FD : NO_FD;
        fds[1] = is_relative(calls, in->fd2[row], in->path2[row]) ? SECOND_FD : NO_FD;
        return;
    }
    if (type->step == STEP_BETWEEN) { // the first fd of sendfile is the destination
        fds[0] = type->call == SENDFILE ? SECOND_FD : FIRST_FD;
        fds[1] = type->call == SENDFILE ? FIRST_FD : SECOND_FD;
        return;
    }
    switch (type->step) {
    case STEP_DUP_TO:
        has_one = is_duplicate(calls, row);
        break;
    case STEP_MMAP:
        has_one = is_of_file(calls, row);
        break;
    case STEP_PATH:
    case STEP_CLOSE:
    case STEP_DUP:
    case STEP_FCNTL:
    case STEP_SEEK:
    case STEP_STREAM:
    case STEP_AT_OFFSET:
    case STEP_DESCRIPTOR:
    case STEP_IOCTL:
    case STEP_ON_SPECIAL:
    case STEP_UNSUPPORTED:
    case STEP_FCHDIR:
        has_one = true;
        break;
    default:
        has_one = false;
        break;
    }
    fds[0] = has_one ? FIRST_FD : NO_FD;
}

bool call_begin(struct calls *calls, struct running *call)
{
    const struct call_type *type = call_type(calls->in->call[call->row]);
    uint8_t on_descriptor = call_on_descriptor(calls, call->row);

    if (on_descriptor != NO_CALL) {
        begin_on_descriptor(calls, call, on_descriptor);
        if (call->descriptor != NO_INDEX)
            descriptor_begin(calls, call);
        return call->descriptor != NO_INDEX;
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
    case STEP_AT_OFFSET:
    case STEP_DESCRIPTOR:
        return begin_descriptor_step(calls, call, type);
    case STEP_BETWEEN:
        call->operation = (int32_t)calls->program.nr_operations;
        operation_new(&calls->program, call->row, call->thread, type->call);
        between_begin(calls, call);
        return true;
    case STEP_MMAP:
    case STEP_MUNMAP:
    case STEP_MREMAP:
    case STEP_MSYNC:
        return begin_memory(calls, call, type);
    case STEP_SYNC:
        operation_new(&calls->program, call->row, call->thread, SYNC);
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

int64_t call_end_ns(const struct calls_input *in, uint32_t row)
{
    int64_t duration = in->duration_ns[row], end;

    if (duration == NO_INT64 || duration < 0 || __builtin_add_overflow(in->ts_ns[row], duration, &end))
        return in->ts_ns[row];
    return end;
}

bool call_is_early(const struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    uint8_t step = call_type(in->call[call->row])->step;
    bool makes = step == STEP_OPEN || step == STEP_DUP || step == STEP_FCNTL || step == STEP_SPECIAL;
    int64_t result = step == STEP_SPECIAL_PAIR ? in->fd[call->row] : makes ? in->result[call->row] : NO_INT64;

    if (!row_succeeded(calls->in, call->row) || result < 0 || result > INT32_MAX)
        return false;
    return descriptor_was_opened(&calls->open, call->thread, (int32_t)result) ||
           (step == STEP_SPECIAL_PAIR && in->fd2[call->row] >= 0 &&
            descriptor_was_opened(&calls->open, call->thread, in->fd2[call->row]));
}

static void end_on_descriptor(struct calls *calls, struct running *call, uint8_t step)
{
    if (row_failed_with(calls->in, call->row, ERROR_BADF)) {
        operation_of(calls, call)->left = LEFT_UNKNOWN;
    } else if (step == STEP_AT_OFFSET && row_failed_with(calls->in, call->row, ERROR_SPIPE)) {
        descriptor_is(&calls->open, call->descriptor, LEFT_PIPE);
    }
    if (step == STEP_SEEK)
        seek_end(calls, call);
    else if (step == STEP_STREAM || step == STEP_AT_OFFSET)
        transfer_end(calls, call);
    else if (step == STEP_DUP || step == STEP_DUP_TO || step == STEP_FCNTL)
        duplicate_end(calls, call);
    else
        descriptor_end(calls, call);
}

void call_end(struct calls *calls, const struct running *begun)
{
    struct running call = *begun;
    const struct call_type *type = call_type(calls->in->call[call.row]);

    switch (type->step) {
    case STEP_OPEN:
        open_end(calls, &call);
        break;
    case STEP_PATH:
        if (call.descriptor != NO_INDEX && call_on_descriptor(calls, call.row) != NO_CALL)
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
        if (row_succeeded(calls->in, call.row))
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
