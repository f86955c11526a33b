// A call that was ended before its recorded end stays in the heap until then.
#include "calls/running.h"

#include <stdlib.h>

static void swap(struct heap_entry *one, struct heap_entry *other)
{
    struct heap_entry saved = *one;

    *one = *other;
    *other = saved;
}

static void rise(struct heap_entry *heap, size_t at)
{
    for (; at && heap[at].end_ns < heap[(at - 1) / 2].end_ns; at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

static void sink(struct heap_entry *heap, size_t count)
{
    size_t at = 0, child;

    while ((child = 2 * at + 1) < count) {
        if (child + 1 < count && heap[child + 1].end_ns < heap[child].end_ns)
            child++;
        if (heap[at].end_ns <= heap[child].end_ns)
            return;
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

void running_free(struct running_calls *queue)
{
    free(queue->running);
    free(queue->heap);
}

static void push(struct running_calls *queue, struct heap_entry added)
{
    struct heap_entry *entry = PUSH(queue, heap);

    *entry = added;
    rise(queue->heap, queue->nr_heap - 1);
}

void running_add(struct running_calls *queue, struct threads *threads, const struct running *call)
{
    int32_t index = queue->free;

    if (index == NO_INDEX) {
        PUSH(queue, running);
        index = (int32_t)queue->nr_running - 1;
    } else {
        queue->free = queue->running[index].next_free;
    }
    queue->running[index] = *call;
    threads->threads[call->thread].running = index;
    push(queue, (struct heap_entry){call->end_ns, index});
}

int32_t running_next(struct running_calls *queue, int64_t ts_ns)
{
    int32_t index;

    if (!queue->nr_heap || queue->heap[0].end_ns > ts_ns)
        return NO_INDEX;
    index = queue->heap[0].call;
    queue->heap[0] = queue->heap[--queue->nr_heap];
    sink(queue->heap, queue->nr_heap);
    return index;
}

void running_postpone(struct running_calls *queue, int32_t index)
{
    struct heap_entry *entry = PUSH(queue, heap);

    *entry = (struct heap_entry){INT64_MAX, index}; // no other ends later
}

void running_forget(struct running_calls *queue, int32_t index)
{
    queue->running[index].next_free = queue->free;
    queue->free = index;
}

bool running_end(struct running_calls *queue, struct threads *threads, int32_t index, struct running *call)
{
    *call = queue->running[index];
    if (call->is_over)
        return false;
    queue->running[index].is_over = true;
    if (threads->threads[call->thread].running == index)
        threads->threads[call->thread].running = NO_INDEX;
    return true;
}

int32_t running_opener(const struct running_calls *queue, const struct threads *threads, const struct calls_input *in,
                       int32_t thread, int32_t fd)
{
    enum { NEAR = 64 };
    int32_t table = process_of(threads, thread)->table;

    for (size_t at = 0; at < queue->nr_heap && at < NEAR; at++) {
        const struct running *call = &queue->running[queue->heap[at].call];

        if (!call->is_over && in->result[call->row] == fd && process_of(threads, call->thread)->table == table)
            return queue->heap[at].call;
    }
    return NO_INDEX;
}
