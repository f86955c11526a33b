// Calls that have begun and not yet ended, by their ends.
#include "calls/calls.h"

static void swap(struct heap_place *one, struct heap_place *other)
{
    struct heap_place saved = *one;

    *one = *other;
    *other = saved;
}

static void rise(struct heap_place *heap, size_t at)
{
    for (; at && heap[at].end_ns < heap[(at - 1) / 2].end_ns; at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

static void sink(struct heap_place *heap, size_t count)
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

void running_add(struct calls *calls, const struct running *call)
{
    int32_t number = calls->free_running;
    struct heap_place *place;

    if (number == NOBODY) {
        PUSH(calls, running);
        number = (int32_t)calls->nr_running - 1;
    } else {
        calls->free_running = calls->running[number].next_free;
    }
    calls->running[number] = *call;
    calls->threads[call->thread].running = number;
    place = PUSH(calls, heap);
    *place = (struct heap_place){call->end_ns, number};
    rise(calls->heap, calls->nr_heap - 1);
}

static void end(struct calls *calls, int32_t number)
{
    struct running call = calls->running[number];

    if (call.is_over)
        return;
    calls->running[number].is_over = true;
    if (calls->threads[call.thread].running == number)
        calls->threads[call.thread].running = NOBODY;
    call_end(calls, &call);
}

// Ends the calls that ended until then.
void running_end_until(struct calls *calls, int64_t ts_ns)
{
    while (calls->nr_heap && calls->heap[0].end_ns <= ts_ns) {
        int32_t number = calls->heap[0].call;

        calls->heap[0] = calls->heap[--calls->nr_heap];
        sink(calls->heap, calls->nr_heap);
        if (ts_ns != INT64_MAX && !calls->running[number].is_over && call_is_early(calls, &calls->running[number])) {
            struct heap_place *place = PUSH(calls, heap);

            *place = (struct heap_place){INT64_MAX, number}; // no other ends later
            continue;
        }
        end(calls, number);
        calls->running[number].next_free = calls->free_running;
        calls->free_running = number;
    }
}

// Ends the call of a thread that begins another one: times and durations are rounded apart from each other.
void running_end_thread(struct calls *calls, int32_t thread)
{
    if (calls->threads[thread].running != NOBODY)
        end(calls, calls->threads[thread].running);
}

// Ends the call that returns the descriptor `fd` to the process, where it is about to: the number is used already.
bool running_end_opener(struct calls *calls, int32_t thread, int32_t fd)
{
    enum { NEAR = 64 };
    int32_t table = calls->processes[calls->threads[thread].process].table;

    for (size_t at = 0; at < calls->nr_heap && at < NEAR; at++) {
        const struct running *call = &calls->running[calls->heap[at].call];

        if (!call->is_over && calls->in->result[call->row] == fd &&
            calls->processes[calls->threads[call->thread].process].table == table) {
            end(calls, calls->heap[at].call);
            return true;
        }
    }
    return false;
}
