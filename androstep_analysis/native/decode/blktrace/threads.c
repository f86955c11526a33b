// Names of the threads of a recording over time.
#include "decode/blktrace/state.h"

#include "core/array.h"

#include <stdlib.h>

// Limits for damaged files. Linux assigns no higher thread ids (PID_MAX_LIMIT).
enum { MAX_THREADS = 1 << 22, MAX_NAMES = 1 << 22 };

struct thread *thread_get(struct blktrace *trace, uint32_t pid)
{
    uint64_t value = map_value(&trace->thread_of, 0, pid);
    uint64_t *slot;

    if (value)
        return &trace->threads[value - 1];
    if (trace->nr_threads == MAX_THREADS)
        return NULL;
    if (!array_reserve(&trace->threads, trace->nr_threads, &trace->threads_capacity, sizeof(*trace->threads)))
        return NULL;
    slot = map_add(&trace->thread_of, 0, pid);
    if (!slot)
        return NULL;
    trace->threads[trace->nr_threads] = (struct thread){.pid = pid, .string = NO_STRING};
    *slot = ++trace->nr_threads;
    return &trace->threads[trace->nr_threads - 1];
}

static bool add_name(struct blktrace *trace, struct name name)
{
    if (trace->nr_names == MAX_NAMES)
        return false;
    if (!array_reserve(&trace->names, trace->nr_names, &trace->names_capacity, sizeof(*trace->names)))
        return false;
    trace->names[trace->nr_names++] = name;
    return true;
}

void thread_rename(struct blktrace *trace, uint32_t pid, int64_t ts_ns, const uint8_t *text, size_t length)
{
    const uint8_t *end = memchr(text, 0, length);
    uint32_t string = strings_add(trace->strings, text, end ? (size_t)(end - text) : length);
    struct thread *thread = thread_get(trace, pid);

    if (thread && thread->string == string)
        return;
    if (!thread || string == NO_STRING ||
        !add_name(trace, (struct name){.ts_ns = ts_ns, .pid = pid, .string = string})) {
        trace->report.names_left++;
        return;
    }
    thread->string = string;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *left = a;
    const struct name *right = b;

    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    if (left->ts_ns != right->ts_ns)
        return left->ts_ns < right->ts_ns ? -1 : 1;
    return left->string < right->string ? -1 : left->string > right->string;
}

void threads_settle(struct blktrace *trace, int64_t shift_ns)
{
    if (trace->nr_names)
        qsort(trace->names, trace->nr_names, sizeof(*trace->names), compare_names);
    for (size_t i = 0; i < trace->nr_names; i++) {
        struct name *name = trace->names + i;
        struct thread *thread = &trace->threads[map_value(&trace->thread_of, 0, name->pid) - 1];

        name->ts_ns = (int64_t)((uint64_t)name->ts_ns - (uint64_t)shift_ns);
        if (!thread->nr_names++)
            thread->first = (uint32_t)i;
    }
}

uint32_t thread_name_at(const struct blktrace *trace, const struct thread *thread, int64_t ts_ns)
{
    const struct name *names;
    uint32_t least = 0;
    uint32_t most = thread->nr_names;

    if (!most)
        return NO_STRING; // the recording may have no names at all
    names = trace->names + thread->first;
    while (most - least > 1) {
        uint32_t middle = least + (most - least) / 2;

        if (names[middle].ts_ns <= ts_ns)
            least = middle;
        else
            most = middle;
    }
    return names[least].string;
}

API size_t blktrace_nr_names(const struct blktrace *trace)
{
    return trace->nr_names;
}

API size_t blktrace_nr_threads(const struct blktrace *trace)
{
    return trace->nr_threads;
}

// Copies all threads in order of appearance, and their names sorted by thread and time.
API void blktrace_threads(const struct blktrace *trace, uint32_t *pids, uint32_t *named, int64_t *ts_ns,
                          uint32_t *strings)
{
    for (size_t i = 0; i < trace->nr_threads; i++)
        pids[i] = trace->threads[i].pid;
    for (size_t i = 0; i < trace->nr_names; i++) {
        named[i] = trace->names[i].pid;
        ts_ns[i] = trace->names[i].ts_ns;
        strings[i] = trace->names[i].string;
    }
}
