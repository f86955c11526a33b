// Simulates the operations of a replay program on a device with known service times (whatif/predict.py): threads that
// wait for one another, and a first-come, first-served queue.

#include <stdlib.h>
#include <string.h>

#include "core/table.h"

enum { NOT_FOR_DEVICE = 0 };

struct heap {
    int64_t *when, *what;
    size_t count;
};

struct queue {
    const int64_t *due_ns, *service_ns;
    const int32_t *limit; // most operations in service when it begins, including itself
    int64_t *ready_ns, *start_ns, *end_ns;
    // index in `next` of the first operation that waits for each operation; one more entry marks the end
    size_t *follows;
    int64_t *next;    // waiting operations
    int64_t *awaited; // number of unfinished operations that each operation waits for
    int64_t *waiting; // in the queue, ordered
    size_t first, last;
    struct heap arrivals, completions;
    int64_t in_service;
};

API bool queue_run(size_t operations, const int32_t *thread, size_t threads, const int64_t *due_ns,
                   const int64_t *service_ns, const int32_t *limit, size_t waits, const int64_t *operation,
                   const int64_t *after, int64_t *ready_ns, int64_t *start_ns, int64_t *end_ns);

// --- heaps: earliest time first, at equal times the lowest index -----------------------------------------------------

static bool comes_before(const struct heap *heap, int64_t when, int64_t what, size_t other)
{
    return when != heap->when[other] ? when < heap->when[other] : what < heap->what[other];
}

static void put_at(struct heap *heap, size_t place, int64_t when, int64_t what)
{
    heap->when[place] = when;
    heap->what[place] = what;
}

static void push(struct heap *heap, int64_t when, int64_t what)
{
    size_t place = heap->count++;

    for (; place > 0 && comes_before(heap, when, what, (place - 1) / 2); place = (place - 1) / 2)
        put_at(heap, place, heap->when[(place - 1) / 2], heap->what[(place - 1) / 2]);
    put_at(heap, place, when, what);
}

static int64_t pop(struct heap *heap)
{
    int64_t first = heap->what[0], when = heap->when[--heap->count], what = heap->what[heap->count];
    size_t place = 0;

    while (2 * place + 1 < heap->count) {
        size_t below = 2 * place + 1;

        if (below + 1 < heap->count && comes_before(heap, heap->when[below + 1], heap->what[below + 1], below))
            below++;
        if (comes_before(heap, when, what, below))
            break;
        put_at(heap, place, heap->when[below], heap->what[below]);
        place = below;
    }
    put_at(heap, place, when, what);
    return first;
}

// --- operations ------------------------------------------------------------------------------------------------------

static void arrive(struct queue *queue, int64_t operation, int64_t now_ns)
{
    int64_t due_ns = queue->due_ns[operation];

    queue->ready_ns[operation] = due_ns > now_ns ? due_ns : now_ns;
    push(&queue->arrivals, queue->ready_ns[operation], operation);
}

static void begin(struct queue *queue, int64_t operation, int64_t now_ns)
{
    queue->start_ns[operation] = now_ns;
    queue->end_ns[operation] = now_ns + queue->service_ns[operation];
    push(&queue->completions, queue->end_ns[operation], operation);
}

static void serve(struct queue *queue, int64_t now_ns)
{
    while (queue->first < queue->last && queue->in_service < queue->limit[queue->waiting[queue->first]]) {
        begin(queue, queue->waiting[queue->first++], now_ns);
        queue->in_service++;
    }
}

static void end(struct queue *queue, int64_t operation)
{
    int64_t now_ns = queue->end_ns[operation];

    if (queue->limit[operation] != NOT_FOR_DEVICE)
        queue->in_service--;
    for (size_t number = queue->follows[operation]; number < queue->follows[operation + 1]; number++)
        if (!--queue->awaited[queue->next[number]])
            arrive(queue, queue->next[number], now_ns);
    serve(queue, now_ns);
}

static void take_in(struct queue *queue, int64_t operation)
{
    int64_t now_ns = queue->ready_ns[operation];

    if (queue->limit[operation] == NOT_FOR_DEVICE) {
        begin(queue, operation, now_ns);
        return;
    }
    queue->waiting[queue->last++] = operation;
    serve(queue, now_ns);
}

static void run(struct queue *queue)
{
    const struct heap *arrivals = &queue->arrivals, *completions = &queue->completions;

    while (arrivals->count || completions->count) {
        if (completions->count && (!arrivals->count || completions->when[0] <= arrivals->when[0]))
            end(queue, pop(&queue->completions));
        else
            take_in(queue, pop(&queue->arrivals));
    }
}

// --- dependencies ----------------------------------------------------------------------------------------------------

static void count_wait(struct queue *queue, int64_t operation, int64_t after)
{
    queue->follows[after + 1]++;
    queue->awaited[operation]++;
}

static void note_wait(struct queue *queue, size_t *place, int64_t operation, int64_t after)
{
    queue->next[place[after]++] = operation;
}

static void link_operations(struct queue *queue, size_t operations, const int32_t *thread, int64_t *before,
                            size_t threads, size_t waits, const int64_t *operation, const int64_t *after, size_t *place)
{
    memset(before, -1, threads * sizeof(*before));
    for (size_t number = 0; number < operations; number++) {
        if (before[thread[number]] >= 0)
            count_wait(queue, (int64_t)number, before[thread[number]]);
        before[thread[number]] = (int64_t)number;
    }
    for (size_t number = 0; number < waits; number++)
        count_wait(queue, operation[number], after[number]);
    for (size_t number = 0; number < operations; number++)
        queue->follows[number + 1] += queue->follows[number];
    memcpy(place, queue->follows, operations * sizeof(*place));
    memset(before, -1, threads * sizeof(*before));
    for (size_t number = 0; number < operations; number++) {
        if (before[thread[number]] >= 0)
            note_wait(queue, place, (int64_t)number, before[thread[number]]);
        before[thread[number]] = (int64_t)number;
    }
    for (size_t number = 0; number < waits; number++)
        note_wait(queue, place, operation[number], after[number]);
}

// --- entry point -----------------------------------------------------------------------------------------------------

static void *numbers(size_t count)
{
    return calloc(count + 1, sizeof(int64_t));
}

// Run the simulation. Returns false if memory runs out. A thread does its operations in the order of their indices;
// `after` of a wait must have a lower index than `operation`. The results are the times when each operation is
// requested (`ready_ns`), begins on the device, and ends.
bool queue_run(size_t operations, const int32_t *thread, size_t threads, const int64_t *due_ns,
               const int64_t *service_ns, const int32_t *limit, size_t waits, const int64_t *operation,
               const int64_t *after, int64_t *ready_ns, int64_t *start_ns, int64_t *end_ns)
{
    struct queue queue = {due_ns,
                          service_ns,
                          limit,
                          ready_ns,
                          start_ns,
                          end_ns,
                          .follows = calloc(operations + 2, sizeof(size_t)),
                          .next = numbers(operations + waits),
                          .awaited = numbers(operations),
                          .waiting = numbers(operations),
                          .arrivals = {numbers(operations), numbers(operations), 0},
                          .completions = {numbers(operations), numbers(operations), 0}};
    int64_t *before = numbers(threads);
    size_t *place = calloc(operations + 1, sizeof(*place));
    bool is_done = queue.follows && queue.next && queue.awaited && queue.waiting && queue.arrivals.when &&
                   queue.arrivals.what && queue.completions.when && queue.completions.what && before && place;

    if (is_done) {
        link_operations(&queue, operations, thread, before, threads, waits, operation, after, place);
        for (size_t number = 0; number < operations; number++)
            if (!queue.awaited[number])
                arrive(&queue, (int64_t)number, 0);
        run(&queue);
    }
    free(queue.follows);
    free(queue.next);
    free(queue.awaited);
    free(queue.waiting);
    free(queue.arrivals.when);
    free(queue.arrivals.what);
    free(queue.completions.when);
    free(queue.completions.what);
    free(before);
    free(place);
    return is_done;
}
