// Processes the calls in the order in which they begin, after ending those that ended by then.
#include "calls/calls.h"

#include "calls/descriptors.h"
#include "calls/output.h"
#include "calls/processes.h"
#include "calls/steps.h"

#include <stdlib.h>

void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    files_free(&calls->files);
    program_free(&calls->program);
    thread_table_free(&calls->threads);
    open_files_free(&calls->open);
    mappings_free(&calls->mappings);
    names_free(&calls->names);
    running_free(&calls->running);
    free(calls->row_threads);
    free(calls->ordered);
    free(calls);
}

// --- ends -----------------------------------------------------------------------------------------------------------

static struct moment moment_of(const struct calls *calls, const struct running *call)
{
    return (struct moment){call->row, call->thread, call_end_ns(calls->in, call->row)};
}

// Ends a call. Another call, which needs its result, may be beginning: `now` is restored for it.
static void end_call(struct calls *calls, const struct running *call)
{
    struct moment now = calls->names.now;

    calls->names.now = moment_of(calls, call);
    call_end(calls, call);
    calls->names.now = now;
}

static void end_running(struct calls *calls, int32_t index)
{
    struct running call;

    if (running_end(&calls->running, &calls->threads, index, &call))
        end_call(calls, &call);
}

// Ends the calls that ended by `ts_ns`.
static void end_until(struct calls *calls, int64_t ts_ns)
{
    struct running_calls *queue = &calls->running;
    int32_t index;

    while ((index = running_next(queue, ts_ns)) != NO_INDEX) {
        const struct running *call = &queue->running[index];

        if (ts_ns != INT64_MAX && !call->is_over && call_is_early(calls, call)) {
            running_postpone(queue, index);
            continue;
        }
        end_running(calls, index);
        running_forget(queue, index);
    }
}

// Ends the running call of a thread that begins another one. Times and durations are rounded independently, so that the
// calls of a thread may seem to overlap.
static void end_thread(struct calls *calls, int32_t thread)
{
    if (calls->threads.threads[thread].running != NO_INDEX)
        end_running(calls, calls->threads.threads[thread].running);
}

// --- beginnings -----------------------------------------------------------------------------------------------------

// Returns the descriptor of an fd in the call's row. If another running call is about to return the fd, that call is
// ended first.
static int32_t look_up(struct calls *calls, const struct running *call, enum fd_choice choice)
{
    const struct calls_input *in = calls->in;
    bool is_first = choice == FIRST_FD;
    int32_t fd = is_first ? in->fd[call->row] : in->fd2[call->row], opener;

    if (choice == NO_FD || fd < 0)
        return NO_INDEX;
    if (!descriptor_was_opened(&calls->open, call->thread, fd)) {
        opener = running_opener(&calls->running, &calls->threads, in, call->thread, fd);
        if (opener != NO_INDEX)
            end_running(calls, opener);
    }
    if (call_is_partial(calls, call->row)) // only one side of the call is recorded
        return descriptor_at(calls, call->thread, call->row, fd, NO_STRING, NO_CODE);
    return descriptor_at(calls, call->thread, call->row, fd,
                         is_first ? in->fd_path[call->row] : in->fd2_path[call->row],
                         is_first ? in->fd_kind[call->row] : (uint8_t)NO_CODE);
}

static void begin_call(struct calls *calls, uint32_t row)
{
    const struct calls_input *in = calls->in;
    enum fd_choice fds[2];
    struct running call = {
        .end_ns = call_end_ns(in, row),
        .row = row,
        .thread = thread_of(calls, in->tid[row], in->pid[row]),
        .operation = NO_INDEX,
        .sized = NO_INDEX,
    };

    calls->row_threads[row] = call.thread;
    end_thread(calls, call.thread);
    descriptor_install_pending(&calls->open, call.thread, row);
    calls->threads.threads[call.thread].row = row;
    calls->names.now = moment_of(calls, &call);
    call_fds(calls, row, fds);
    call.descriptor = look_up(calls, &call, fds[0]);
    call.descriptor2 = look_up(calls, &call, fds[1]);
    if (call_is_partial(calls, row)) {
        call_resume(calls, &call);
        return;
    }
    if (!call_begin(calls, &call))
        return;
    if (call.end_ns <= in->ts_ns[row] && call_is_early(calls, &call))
        call.end_ns = INT64_MAX;
    if (call.end_ns > in->ts_ns[row])
        running_add(&calls->running, &calls->threads, &call);
    else
        end_call(calls, &call);
}

// --- all calls ------------------------------------------------------------------------------------------------------

static void prepare(struct calls *calls)
{
    struct storage *storage = &calls->storage;

    calls->program.storage = calls->threads.storage = calls->running.storage = storage;
    calls->running.free = NO_INDEX;
    calls->open.storage = storage;
    calls->open.in = calls->in;
    calls->open.files = &calls->files;
    calls->open.program = &calls->program;
    calls->open.threads = &calls->threads;
    calls->mappings.storage = storage;
    calls->mappings.program = &calls->program;
    calls->mappings.page_bytes = calls->in->page_bytes;
    calls->names.storage = storage;
    calls->names.in = calls->in;
    calls->names.strings = calls->strings;
    calls->names.files = &calls->files;
    calls->names.open = &calls->open;
}

static void follow(struct calls *calls)
{
    const struct calls_input *in = calls->in;

    calls->row_threads = storage_allocate(&calls->storage, (in->rows + 1) * sizeof(*calls->row_threads));
    files_begin(&calls->files, &calls->storage);
    names_begin(&calls->names);
    for (size_t row = 0; row < in->rows; row++) {
        end_until(calls, in->ts_ns[row]);
        begin_call(calls, (uint32_t)row);
    }
    end_until(calls, INT64_MAX);
}

struct calls *calls_clean(const struct calls_input *in, struct strings *strings, uint8_t *left, const int32_t *pids,
                          size_t nr_pids, bool has_unknown)
{
    struct calls *calls = in->rows < INT32_MAX ? calloc(1, sizeof(*calls)) : NULL;

    if (!calls)
        return NULL;
    calls->in = in;
    calls->strings = strings;
    calls->left = left;
    calls->has_unknown = has_unknown;
    prepare(calls);
    if (setjmp(calls->storage.exhausted)) {
        calls_free(calls);
        return NULL;
    }
    follow(calls);
    output_finish(calls, pids, nr_pids);
    return calls;
}
