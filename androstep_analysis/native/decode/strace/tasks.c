// Threads in a log of strace.
#include "decode/strace/strace.h"

#include <stdlib.h>

enum { FIRST_TASKS = 64, TASKS_OF_LINE = 4 }; // no line names more

static size_t task_slot(const struct strace *strace, int32_t tid)
{
    size_t slot = ((uint32_t)tid * 2654435761u >> 7) & strace->mask;

    while (strace->slots[slot] != NO_TASK && strace->tasks[strace->slots[slot]].tid != tid)
        slot = (slot + 1) & strace->mask;
    return slot;
}

bool tasks_grow(struct strace *strace)
{
    int capacity = strace->capacity ? 2 * strace->capacity : FIRST_TASKS;
    size_t nr_slots = 2 * (size_t)capacity;
    struct task *tasks = realloc(strace->tasks, (size_t)capacity * sizeof(*tasks));
    int *slots;

    if (!tasks)
        return false;
    strace->tasks = tasks;
    slots = malloc(nr_slots * sizeof(*slots));
    if (!slots)
        return false;
    free(strace->slots);
    strace->slots = slots;
    strace->mask = nr_slots - 1;
    strace->capacity = capacity;
    for (size_t slot = 0; slot < nr_slots; slot++)
        slots[slot] = NO_TASK;
    for (int i = 0; i < strace->nr_tasks; i++)
        slots[task_slot(strace, tasks[i].tid)] = i;
    return true;
}

bool tasks_reserve(struct strace *strace)
{
    return strace->nr_tasks + TASKS_OF_LINE <= strace->capacity || tasks_grow(strace);
}

struct task *task_find(const struct strace *strace, int32_t tid)
{
    int index = strace->slots[task_slot(strace, tid)];

    return index == NO_TASK ? NULL : &strace->tasks[index];
}

struct task *task_of(struct strace *strace, int32_t tid)
{
    size_t slot;
    struct task *task;

    if (strace->last_task != NO_TASK && strace->tasks[strace->last_task].tid == tid)
        return &strace->tasks[strace->last_task];
    slot = task_slot(strace, tid);
    if (strace->slots[slot] == NO_TASK) {
        if (strace->nr_tasks == strace->capacity) {
            if (!tasks_grow(strace))
                return NULL;
            slot = task_slot(strace, tid);
        }
        task = &strace->tasks[strace->nr_tasks];
        *task = (struct task){.tid = tid, .parent = NO_INT32};
        strace->slots[slot] = strace->nr_tasks++;
    }
    strace->last_task = strace->slots[slot];
    return &strace->tasks[strace->last_task];
}

struct task *task_live(struct strace *strace, int32_t tid)
{
    struct task *task = task_of(strace, tid);

    if (task && !task->is_alive) {
        task->is_alive = true;
        strace->nr_alive++;
    }
    return task;
}

struct task *task_nameless(struct strace *strace)
{
    if (strace->nr_alive == 1 && strace->last_task != NO_TASK && strace->tasks[strace->last_task].is_alive)
        return &strace->tasks[strace->last_task];
    if (strace->nr_alive == 1)
        for (int i = strace->nr_tasks; i-- > 0;)
            if (strace->tasks[i].is_alive)
                return task_of(strace, strace->tasks[i].tid);
    return task_live(strace, strace->default_tid);
}

void task_end(struct strace *strace, struct task *task)
{
    strace->nr_alive -= task->is_alive;
    task->is_alive = false;
}

void tasks_retire_nameless(struct strace *strace)
{
    struct task *nameless = task_find(strace, NO_INT32);

    if (nameless)
        task_end(strace, nameless);
}

// Returns the number of threads, and the ids, parents, kinds and names of at most `capacity` of them.
API size_t strace_tasks(const struct strace *strace, size_t capacity, int32_t *tids, int32_t *parents, uint8_t *kinds,
                        uint32_t *comms)
{
    for (size_t i = 0; i < (size_t)strace->nr_tasks && i < capacity; i++) {
        const struct task *task = &strace->tasks[i];

        tids[i] = task->tid;
        parents[i] = task->parent;
        kinds[i] = task->kind;
        comms[i] = task->comm_length ? strings_add(strace->notes, task->comm, task->comm_length) : NO_STRING;
    }
    return (size_t)strace->nr_tasks;
}
