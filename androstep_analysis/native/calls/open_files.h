// The open file of each fd of each process.
#pragma once

#include "calls/files.h"
#include "calls/input.h"
#include "calls/program.h"
#include "calls/threads.h"

struct description {
    int32_t inode;    // NO_INDEX: not needed so far
    int64_t position; // NO_INT64: unknown
    int64_t start;    // position after an inserted open; NO_INT64: unknown
    int64_t moved;    // since then; NO_INT64: a call set the position
    int64_t reach;    // end of the reads, relative to the start
    uint32_t busy, version;
    int32_t inserted_open; // inserted operation for its open; NO_INDEX: a recorded call opened it
    uint32_t checked_path; // fd_path that the file was last compared with
    uint8_t left;
    bool is_append, is_mixed, reads, writes, is_directory;
};

struct descriptor {
    int32_t description;
    int32_t id; // in the tables
    bool is_needed, is_closed, is_mapped;
};

// An entry of a descriptor table. A copy by fork has no descriptor of its own until it is used.
struct entry {
    int32_t descriptor;
    int32_t from; // entry of the parent
    int32_t fork;
    int32_t thread; // thread that created it, by the call of `row`
    uint32_t row;
    uint16_t depth;
    bool is_cloexec;
};

struct fd_table {
    struct map entries;
    int32_t users;
    int32_t parent; // table that it was copied from
    int32_t fork;
};

struct fork {
    uint32_t row;
    int32_t thread;
};

struct open_files {
    struct storage *storage;
    const struct calls_input *in;
    struct files *files;
    struct program *program;
    struct threads *threads;
    struct description *descriptions;
    size_t nr_descriptions, descriptions_capacity;
    struct descriptor *descriptors;
    size_t nr_descriptors, descriptors_capacity;
    struct entry *entries;
    size_t nr_entries, entries_capacity;
    struct fd_table *tables;
    size_t nr_tables, tables_capacity;
    struct fork *forks;
    size_t nr_forks, forks_capacity;
    uint64_t conflicts; // open fds that a call returned again
};

void open_files_free(struct open_files *open);

int32_t description_new(struct open_files *open, int32_t inode, uint8_t left);
int32_t descriptor_new(struct open_files *open, int32_t description);
struct description *description_of(const struct open_files *open, int32_t descriptor);

// Returns the file. A file that was opened before the recording and whose path is not recorded is one without a name.
int32_t description_inode(struct open_files *open, struct description *description);

// Returns the file that the descriptor is open on; NO_INDEX if it is not a file.
int32_t descriptor_inode(struct open_files *open, int32_t descriptor);

// Records what the description is, as a call shows that succeeds, or fails in this way, only on this kind.
void description_is(struct open_files *open, int32_t description, uint8_t left);
void descriptor_is(struct open_files *open, int32_t descriptor, uint8_t left);

// Returns the descriptor of the program for an fd of the thread's process; NO_INDEX if it is not open.
int32_t descriptor_known(struct open_files *open, int32_t thread, int32_t fd);

// As descriptor_known, for an fd that must have been open before the recording, since no call opened it.
int32_t descriptor_before(struct open_files *open, int32_t thread, uint32_t row, int32_t fd);

// Marks the fd as open although no recorded call opened it: a descriptor that was received.
int32_t descriptor_received(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, bool cloexec);

// Returns the file that a descriptor of process `pid` is open on, as a call of the thread sees it; NO_INDEX if it is
// unknown or not a file.
int32_t descriptor_leads_to(struct open_files *open, int32_t thread, int32_t pid, int32_t fd);

// Checks whether the fd is known to be open.
bool descriptor_was_opened(const struct open_files *open, int32_t thread, int32_t fd);

// Checks whether a call closed the fd and none opened it since.
bool descriptor_was_closed(const struct open_files *open, int32_t thread, int32_t fd);

void descriptor_install(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, int32_t descriptor,
                        bool cloexec);
void descriptor_install_pending(struct open_files *open, int32_t thread, uint32_t row);

// Closes the fd without a recorded call that did so.
void descriptor_close(struct open_files *open, int32_t thread, uint32_t row, int32_t fd);
void descriptor_closed(struct open_files *open, int32_t thread, int32_t fd);
void descriptor_cloexec(struct open_files *open, int32_t thread, int32_t fd, bool cloexec);
void descriptors_close_range(struct open_files *open, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                             bool cloexec);
int32_t fd_table_new(struct open_files *open);
int32_t fd_table_copy(struct open_files *open, int32_t table, uint32_t row, int32_t thread);
void fd_table_exec(struct open_files *open, int32_t thread, uint32_t row);
void fd_table_release(struct open_files *open, int32_t thread, uint32_t row);
