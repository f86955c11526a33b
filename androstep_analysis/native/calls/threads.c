// A thread is found by its tid. The kernel reuses tids: the last thread with a tid counts.
#include "calls/threads.h"

#include <stdlib.h>

void thread_table_free(struct threads *threads)
{
    map_free(&threads->thread_numbers);
    map_free(&threads->process_numbers);
    free(threads->directories);
    free(threads->processes);
    free(threads->threads);
}

static uint64_t *number_of(struct threads *threads, struct map *map, int32_t id)
{
    return storage_slot(threads->storage, map, 0, (uint32_t)id);
}

int32_t directory_new(struct threads *threads, int32_t inode)
{
    int32_t *directory = PUSH(threads, directories);

    *directory = inode;
    return (int32_t)threads->nr_directories - 1;
}

int32_t process_new(struct threads *threads, struct process made)
{
    struct process *process = PUSH(threads, processes);

    *process = made;
    if (made.pid != NO_INT32)
        *number_of(threads, &threads->process_numbers, made.pid) = threads->nr_processes;
    return (int32_t)threads->nr_processes - 1;
}

int32_t thread_new(struct threads *threads, int32_t tid, int32_t process)
{
    struct thread *thread = PUSH(threads, threads);

    *thread = (struct thread){.tid = tid,
                              .process = process,
                              .running = NO_INDEX,
                              .id = NO_INDEX,
                              .pending_fd = NO_INDEX,
                              .pending_entry = NO_INDEX};
    threads->processes[process].nr_threads++;
    *number_of(threads, &threads->thread_numbers, tid) = threads->nr_threads;
    return (int32_t)threads->nr_threads - 1;
}

struct process *process_of(const struct threads *threads, int32_t thread)
{
    return &threads->processes[threads->threads[thread].process];
}

int32_t *working_directory(const struct threads *threads, int32_t thread)
{
    return &threads->directories[process_of(threads, thread)->directory];
}
