// Which open file each descriptor number of each process stands for.
#pragma once

#include "calls/files.h"
#include "calls/input.h"
#include "calls/program.h"
#include "calls/threads.h"

struct description {
    int32_t inode;    // NO_INDEX: none needed so far
    int64_t position; // NO_INT64: unknown
    int64_t start;    // position at which an inserted open must stand; NO_INT64: unknown
    int64_t moved;    // since then; NO_INT64: it was placed anew
    int64_t reach;    // how far behind the start reads came
    uint32_t busy, version;
    int32_t late;          // inserted operation that opens it; NO_INDEX: it was seen being opened
    uint32_t checked_path; // fd_path with which the file was last compared
    uint8_t left;
    bool is_append, is_mixed, reads, writes, is_directory;
};

struct descriptor {
    int32_t description;
    int32_t number; // in the tables
    bool is_needed, is_closed, is_mapped;
};

// A number in a table of descriptors. What a fork copied has no descriptor of its own until it is used.
struct entry {
    int32_t descriptor;
    int32_t from; // entry of the parent
    int32_t fork;
    int32_t thread; // that made it, by the call of a row
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
    size_t nr_descriptions, room_descriptions;
    struct descriptor *descriptors;
    size_t nr_descriptors, room_descriptors;
    struct entry *entries;
    size_t nr_entries, room_entries;
    struct fd_table *tables;
    size_t nr_tables, room_tables;
    struct fork *forks;
    size_t nr_forks, room_forks;
    uint64_t conflicts; // numbers that were given out while they were open
};

void open_files_free(struct open_files *open);

int32_t description_new(struct open_files *open, int32_t inode, uint8_t left);
int32_t descriptor_new(struct open_files *open, int32_t description);
struct description *description_of(const struct open_files *open, int32_t descriptor);

// The file; of one that was opened before the recording and whose path is not recorded, one without a name.
int32_t description_inode(struct open_files *open, struct description *description);

// The file that the descriptor is open on; NO_INDEX where it is none.
int32_t descriptor_inode(struct open_files *open, int32_t descriptor);

// What a call that succeeded, or failed as it does on this kind of thing only, shows.
void description_is(struct open_files *open, int32_t description, uint8_t left);
void descriptor_is(struct open_files *open, int32_t descriptor, uint8_t left);

// The descriptor of the program that a number of the thread's process is; NO_INDEX where it is not open.
int32_t descriptor_known(struct open_files *open, int32_t thread, int32_t fd);

// The same where it must have been open before the recording, since no call opened it.
int32_t descriptor_before(struct open_files *open, int32_t thread, uint32_t row, int32_t fd);

// The number is open from now on, and how it came to be is not recorded: a descriptor that was received.
int32_t descriptor_received(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, bool cloexec);

// The file that a descriptor of a process is open on, as a call of the thread sees it; NO_INDEX where that is no file,
// or not known.
int32_t descriptor_leads_to(struct open_files *open, int32_t thread, int32_t pid, int32_t fd);

// Whether the number is open, and was seen being opened.
bool descriptor_was_opened(const struct open_files *open, int32_t thread, int32_t fd);

// Whether a call closed the number, and none opened it since.
bool descriptor_was_closed(const struct open_files *open, int32_t thread, int32_t fd);

void descriptor_install(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, int32_t descriptor,
                        bool cloexec);
void descriptor_install_late(struct open_files *open, int32_t thread, uint32_t row);

// Closes what the number stands for, where no call of the recording does.
void descriptor_close(struct open_files *open, int32_t thread, uint32_t row, int32_t fd);
void descriptor_closed(struct open_files *open, int32_t thread, int32_t fd);
void descriptor_cloexec(struct open_files *open, int32_t thread, int32_t fd, bool cloexec);
void descriptors_close_range(struct open_files *open, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                             bool cloexec);
int32_t fd_table_new(struct open_files *open);
int32_t fd_table_copy(struct open_files *open, int32_t table, uint32_t row, int32_t thread);
void fd_table_exec(struct open_files *open, int32_t thread, uint32_t row);
void fd_table_release(struct open_files *open, int32_t thread, uint32_t row);
