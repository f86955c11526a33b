// Descriptor tables, address spaces and working directories are shared or copied.
#include "calls/processes.h"

#include "calls/flags.h"

int32_t thread_of(struct calls *calls, int32_t tid, int32_t pid)
{
    uint64_t value = map_value(&calls->threads.thread_numbers, 0, (uint32_t)tid);
    int32_t process;

    if (value) {
        struct process *owner = &calls->threads.processes[calls->threads.threads[value - 1].process];

        if (owner->pid == NO_INT32)
            owner->pid = pid;
        return (int32_t)value - 1;
    }
    value = pid == NO_INT32 ? 0 : map_value(&calls->threads.process_numbers, 0, (uint32_t)pid);
    if (value && calls->threads.processes[value - 1].nr_threads)
        return thread_new(&calls->threads, tid, (int32_t)value - 1);
    process = process_new(&calls->threads, (struct process){.pid = pid,
                                                            .table = fd_table_new(&calls->open),
                                                            .space = space_new(&calls->mappings),
                                                            .directory = directory_new(&calls->threads, NO_INDEX)});
    return thread_new(&calls->threads, tid, process);
}

void process_clone(struct calls *calls, int32_t thread, uint32_t row, int64_t flags, int32_t child)
{
    const struct process parent = *process_of(&calls->threads, thread);
    struct process made = {.pid = child, .table = parent.table, .space = parent.space, .directory = parent.directory};

    if (flags & FLAG_CLONE_THREAD) {
        thread_new(&calls->threads, child, calls->threads.threads[thread].process);
        return;
    }
    if (flags & FLAG_CLONE_FILES)
        calls->open.tables[parent.table].users++;
    else
        made.table = fd_table_copy(&calls->open, parent.table, row, thread);
    if (flags & FLAG_CLONE_VM)
        calls->mappings.spaces[parent.space].users++;
    else
        made.space = space_copy(&calls->mappings, parent.space);
    if (!(flags & FLAG_CLONE_FS))
        made.directory = directory_new(&calls->threads, calls->threads.directories[parent.directory]);
    thread_new(&calls->threads, child, process_new(&calls->threads, made));
}

static void unshare_table(struct calls *calls, int32_t thread, uint32_t row)
{
    struct process *process = process_of(&calls->threads, thread);
    int32_t shared = process->table;

    if (calls->open.tables[shared].users <= 1)
        return;
    process->table = fd_table_copy(&calls->open, shared, row, thread);
    calls->open.tables[shared].users--;
}

void process_exec(struct calls *calls, int32_t thread, uint32_t row)
{
    struct process *process = process_of(&calls->threads, thread);

    unshare_table(calls, thread, row);
    fd_table_exec(&calls->open, thread, row);
    space_release(&calls->mappings, process->space, thread, row);
    process->space = space_new(&calls->mappings);
    process->nr_threads = 1; // execve ends the other threads
}

void process_unshare(struct calls *calls, int32_t thread, uint32_t row, int64_t flags)
{
    if (flags & FLAG_CLONE_FILES)
        unshare_table(calls, thread, row);
}

void process_exit(struct calls *calls, int32_t thread, uint32_t row, bool all_threads)
{
    struct process *process = process_of(&calls->threads, thread);

    if (process->nr_threads <= 0)
        return;
    process->nr_threads = all_threads ? 0 : process->nr_threads - 1;
    if (process->nr_threads)
        return;
    fd_table_release(&calls->open, thread, row);
    space_release(&calls->mappings, process->space, thread, row);
}
