// Threads and processes.
#pragma once

#include "calls/storage.h"

struct process {
    int32_t pid;
    int32_t table, space, directory;
    int32_t nr_threads;
};

struct thread {
    int32_t tid, process;
    int32_t running;                   // its running call
    int32_t id;                        // in the tables
    int32_t pending_fd, pending_entry; // what its last call creates when it ends
    uint32_t row;                      // of its last call
};

struct threads {
    struct storage *storage;
    struct map thread_numbers, process_numbers; // plus one, by tid and pid
    int32_t *directories;                       // working directories, by an index that processes share
    size_t nr_directories, directories_capacity;
    struct process *processes;
    size_t nr_processes, processes_capacity;
    struct thread *threads;
    size_t nr_threads, threads_capacity;
};

void thread_table_free(struct threads *threads);
int32_t directory_new(struct threads *threads, int32_t inode);
int32_t process_new(struct threads *threads, struct process made);
int32_t thread_new(struct threads *threads, int32_t tid, int32_t process);
struct process *process_of(const struct threads *threads, int32_t thread);
int32_t *working_directory(const struct threads *threads, int32_t thread);
