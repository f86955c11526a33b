// Threads and processes, and what clone makes them share.
#include "calls/calls.h"

static uint64_t *number_of(struct calls *calls, struct map *map, int32_t id)
{
    return calls_slot(calls, map, 0, (uint32_t)id);
}

static int32_t directory_new(struct calls *calls, int32_t inode)
{
    int32_t *directory = PUSH(calls, directories);

    *directory = inode;
    return (int32_t)calls->nr_directories - 1;
}

static int32_t process_new(struct calls *calls, struct process made)
{
    struct process *process = PUSH(calls, processes);

    *process = made;
    if (made.pid != NO_INT32)
        *number_of(calls, &calls->process_numbers, made.pid) = calls->nr_processes;
    return (int32_t)calls->nr_processes - 1;
}

static int32_t thread_new(struct calls *calls, int32_t tid, int32_t process)
{
    struct thread *thread = PUSH(calls, threads);

    *thread = (struct thread){
        .tid = tid, .process = process, .running = NOBODY, .number = NOBODY, .late_fd = NOBODY, .late_entry = NOBODY};
    calls->processes[process].nr_threads++;
    *number_of(calls, &calls->thread_numbers, tid) = calls->nr_threads;
    return (int32_t)calls->nr_threads - 1;
}

// The thread of that name; one that nobody was seen making was there before the recording.
int32_t thread_of(struct calls *calls, int32_t tid, int32_t pid)
{
    uint64_t number = map_value(&calls->thread_numbers, 0, (uint32_t)tid);
    int32_t process;

    if (number) {
        struct process *owner = &calls->processes[calls->threads[number - 1].process];

        if (owner->pid == NO_INT32)
            owner->pid = pid;
        return (int32_t)number - 1;
    }
    number = pid == NO_INT32 ? 0 : map_value(&calls->process_numbers, 0, (uint32_t)pid);
    if (number && calls->processes[number - 1].nr_threads)
        return thread_new(calls, tid, (int32_t)number - 1);
    process = process_new(calls, (struct process){.pid = pid,
                                                  .table = fd_table_new(calls),
                                                  .space = space_new(calls),
                                                  .directory = directory_new(calls, NOBODY)});
    return thread_new(calls, tid, process);
}

int32_t *working_directory(struct calls *calls, int32_t thread)
{
    return &calls->directories[calls->processes[calls->threads[thread].process].directory];
}

void process_clone(struct calls *calls, int32_t thread, uint32_t row, int64_t flags, int32_t child)
{
    const struct process parent = calls->processes[calls->threads[thread].process];
    struct process made = {.pid = child, .table = parent.table, .space = parent.space, .directory = parent.directory};

    if (flags & FLAG_CLONE_THREAD) {
        thread_new(calls, child, calls->threads[thread].process);
        return;
    }
    if (flags & FLAG_CLONE_FILES)
        calls->tables[parent.table].users++;
    else
        made.table = fd_table_copy(calls, parent.table, row, thread);
    if (flags & FLAG_CLONE_VM)
        calls->spaces[parent.space].users++;
    else
        made.space = space_copy(calls, parent.space);
    if (!(flags & FLAG_CLONE_FS))
        made.directory = directory_new(calls, calls->directories[parent.directory]);
    thread_new(calls, child, process_new(calls, made));
}

static void unshare_table(struct calls *calls, int32_t thread, uint32_t row)
{
    struct process *process = &calls->processes[calls->threads[thread].process];
    int32_t shared = process->table;

    if (calls->tables[shared].users <= 1)
        return;
    process->table = fd_table_copy(calls, shared, row, thread);
    calls->tables[shared].users--;
}

void process_exec(struct calls *calls, int32_t thread, uint32_t row)
{
    struct process *process = &calls->processes[calls->threads[thread].process];

    unshare_table(calls, thread, row);
    fd_table_exec(calls, thread, row);
    space_release(calls, process->space, thread, row);
    process->space = space_new(calls);
    process->nr_threads = 1; // the others are gone
}

void process_unshare(struct calls *calls, int32_t thread, uint32_t row, int64_t flags)
{
    if (flags & FLAG_CLONE_FILES)
        unshare_table(calls, thread, row);
}

void process_exit(struct calls *calls, int32_t thread, uint32_t row, bool all_threads)
{
    struct process *process = &calls->processes[calls->threads[thread].process];

    if (process->nr_threads <= 0)
        return;
    process->nr_threads = all_threads ? 0 : process->nr_threads - 1;
    if (process->nr_threads)
        return;
    fd_table_release(calls, thread, row);
    space_release(calls, process->space, thread, row);
}
