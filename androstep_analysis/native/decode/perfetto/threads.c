// Names of threads over time. The first run over a trace collects them, the second one looks them up for its rows.
#include "decode/perfetto/state.h"

#include "core/array.h"

enum { MAX_THREADS = 1 << 24 }; // four times PID_MAX_LIMIT, as a limit for damaged files

static struct thread *thread_of(struct perfetto *trace, int32_t tid, bool *is_new)
{
    uint64_t *slot = map_find(&trace->thread_of, 0, (uint32_t)tid);

    *is_new = !slot;
    if (slot)
        return &trace->threads[*slot - 1];
    if (trace->nr_threads == MAX_THREADS)
        return NULL;
    if (!array_reserve(&trace->threads, trace->nr_threads, &trace->threads_capacity, sizeof(*trace->threads)))
        return NULL;
    slot = map_add(&trace->thread_of, 0, (uint32_t)tid);
    if (!slot)
        return NULL;
    trace->threads[trace->nr_threads] = (struct thread){.tid = tid, .comm = NO_STRING};
    *slot = ++trace->nr_threads;
    return &trace->threads[trace->nr_threads - 1];
}

static struct task_row *task_row(struct perfetto *trace, int64_t ts_ns, enum task_step step)
{
    struct task_row *row;

    if (!array_reserve(&trace->tasks, trace->nr_tasks, &trace->tasks_capacity, sizeof(*trace->tasks)))
        return NULL;
    row = &trace->tasks[trace->nr_tasks++];
    *row = (struct task_row){
        .ts_ns = ts_ns, .order = trace->totals.events, .comm = NO_STRING, .old_comm = NO_STRING, .step = step};
    return row;
}

static void append_seen(struct perfetto *trace, int64_t ts_ns, int32_t tid, uint32_t comm)
{
    struct task_row *row = task_row(trace, ts_ns, TASK_SEEN);

    if (!row)
        return;
    row->tid = row->thread = tid;
    row->comm = comm;
}

// Appends when the last name was last seen.
static void append_last(struct perfetto *trace, struct thread *thread)
{
    if (thread->comm != NO_STRING && thread->last_ns != thread->first_ns)
        append_seen(trace, thread->last_ns, thread->tid, thread->comm);
    thread->first_ns = thread->last_ns;
}

// Appends when each thread was last seen, after the last packet.
API void perfetto_last_seen(struct perfetto *trace)
{
    for (size_t thread = 0; thread < trace->nr_threads; thread++)
        append_last(trace, &trace->threads[thread]);
}

void thread_seen(struct perfetto *trace, int64_t ts_ns, int32_t tid, uint32_t comm)
{
    struct thread *thread;
    bool is_new;

    if (trace->is_named)
        return;
    thread = thread_of(trace, tid, &is_new);
    if (!thread || (!is_new && comm == NO_STRING))
        return;
    // Bundles are read CPU by CPU, so that times go back.
    if (!is_new && thread->comm == comm && ts_ns >= thread->first_ns) {
        if (ts_ns > thread->last_ns)
            thread->last_ns = ts_ns;
        return;
    }
    if (thread->comm != comm)
        append_last(trace, thread);
    append_seen(trace, ts_ns, tid, comm);
    if (thread->comm != comm || is_new)
        thread->last_ns = ts_ns;
    thread->comm = comm;
    thread->first_ns = ts_ns;
}

// Sets the name of a thread from a time on; NO_STRING: unknown.
static void thread_changed(struct perfetto *trace, int64_t ts_ns, int32_t tid, uint32_t comm)
{
    bool is_new;
    struct thread *thread = thread_of(trace, tid, &is_new);

    if (!thread)
        return;
    thread->comm = comm;
    thread->first_ns = thread->last_ns = ts_ns;
}

// Sets the names of all threads, sorted by thread and time, and begins the second run.
API bool perfetto_names(struct perfetto *trace, const struct versions *versions)
{
    bool is_new;

    trace->versions = *versions;
    trace->is_named = true;
    for (size_t i = 0; i < versions->count; i++) {
        struct thread *thread = thread_of(trace, versions->tids[i], &is_new);

        if (!thread || i > UINT32_MAX)
            return false;
        if (is_new)
            thread->first = (uint32_t)i;
        thread->count++;
    }
    return true;
}

ptrdiff_t version_at(const struct perfetto *trace, int32_t tid, int64_t ts_ns)
{
    uint64_t value = map_value(&trace->thread_of, 0, (uint32_t)tid);
    const struct thread *thread;
    size_t low, high;

    if (!value)
        return -1;
    thread = &trace->threads[value - 1];
    low = thread->first;
    high = low + thread->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (trace->versions.from_ns[middle] <= ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > thread->first ? (ptrdiff_t)low - 1 : -1;
}

void append_task(struct perfetto *trace, enum target target, int64_t ts_ns, int32_t tid)
{
    static const uint32_t steps[] = {
        [NEW_TASK] = TASK_NEW, [FORK] = TASK_FORK, [RENAME] = TASK_RENAME, [EXEC] = TASK_EXEC};
    struct task_row *row;
    int32_t thread;

    if (!has_number(trace, SLOT_thread))
        return;
    thread = (int32_t)trace->values[SLOT_thread].number;
    if (target == WAKE || target == SWITCH) {
        if (has_text(trace, SLOT_prev_comm) && has_number(trace, SLOT_prev_thread))
            thread_seen(trace, ts_ns, (int32_t)trace->values[SLOT_prev_thread].number,
                        text_number(trace, SLOT_prev_comm));
        if (has_text(trace, SLOT_comm))
            thread_seen(trace, ts_ns, thread, text_number(trace, SLOT_comm));
        return;
    }
    row = task_row(trace, ts_ns, steps[target]);
    if (!row)
        return;
    row->tid = tid;
    row->thread = thread;
    row->flags = has_number(trace, SLOT_flags) ? trace->values[SLOT_flags].number : 0;
    row->comm = text_number(trace, target == RENAME ? SLOT_new_comm : target == EXEC ? SLOT_filename : SLOT_comm);
    row->old_comm = text_number(trace, SLOT_old_comm);
    thread_changed(trace, ts_ns, thread, target == RENAME ? row->comm : NO_STRING);
}
