// Set of thread ids in order of arrival, with an index.
#include "decode/ftrace/state.h"

#include "core/array.h"

enum { MAX_THREADS = 1 << 24 }; // four times PID_MAX_LIMIT, as a limit for damaged files

void threads_free(struct threads *threads)
{
    free(threads->tids);
    free(threads->names);
    free(threads->named_ns);
    map_free(&threads->indices);
}

uint32_t threads_find(const struct threads *threads, int32_t tid)
{
    return (uint32_t)map_value(&threads->indices, 0, (uint32_t)tid) - 1; // 0, for none, becomes NO_THREAD
}

static bool grow(struct threads *threads)
{
    size_t count = threads->count, capacity = threads->capacity, same = capacity, also = capacity;

    if (!array_reserve(&threads->tids, count, &capacity, sizeof(*threads->tids)) ||
        !array_reserve(&threads->names, count, &same, sizeof(*threads->names)) ||
        !array_reserve(&threads->named_ns, count, &also, sizeof(*threads->named_ns)))
        return false;
    threads->capacity = capacity;
    return true;
}

uint32_t threads_add(struct threads *threads, int32_t tid)
{
    uint32_t index = threads_find(threads, tid);
    uint64_t *slot;

    if (index != NO_THREAD)
        return index;
    if (threads->count == MAX_THREADS || (threads->count == threads->capacity && !grow(threads)))
        return NO_THREAD;
    slot = map_add(&threads->indices, 0, (uint32_t)tid);
    if (!slot)
        return NO_THREAD;
    index = (uint32_t)threads->count++;
    threads->tids[index] = tid;
    threads->names[index] = NO_STRING;
    *slot = (uint64_t)index + 1;
    return index;
}
