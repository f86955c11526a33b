// What the cleaner of recorded system calls keeps: names and files, descriptors, positions, mappings.
//
// Calls are taken in the order in which they begin. What a call does to names, numbers and sizes counts from its end
// on, because others can rely on it only then; a close counts from its beginning, and so does a fork, whose child runs
// before the parent returns.
#pragma once

#include "calls/input.h"
#include "core/array.h"
#include "core/map.h"
#include "core/table.h"
#include "syscalls/columns.h"

#include <setjmp.h>

enum { NOBODY = -1, ROOT = 0 };

// What something is, or why a row is left out; LEFT_NOT: a file. The names are in replay/clean.py.
enum left {
    LEFT_NOT,
    LEFT_SOCKET,
    LEFT_PIPE,
    LEFT_ANON,
    LEFT_MEMFD,
    LEFT_ASHMEM,
    LEFT_DEVICE,
    LEFT_PROC,
    LEFT_MEMORY,
    LEFT_UNKNOWN,
    LEFT_NO_PATH,
    LEFT_PROCESS,
    LEFT_UNSUPPORTED,
    LEFT_NO_EFFECT,
    LEFT_UNFINISHED,
    LEFT_FILTERED,
};

// In the order of the values of operations.call in schemas/.
enum operation_call {
    OPEN,
    CLOSE,
    DUP,
    LSEEK,
    READ,
    WRITE,
    PREAD,
    PWRITE,
    READV,
    WRITEV,
    PREADV,
    PWRITEV,
    SENDFILE,
    SPLICE,
    COPY_FILE_RANGE,
    FSYNC,
    FDATASYNC,
    SYNC_FILE_RANGE,
    SYNC,
    SYNCFS,
    TRUNCATE,
    FTRUNCATE,
    FALLOCATE,
    FADVISE,
    READAHEAD,
    MMAP,
    MUNMAP,
    MSYNC,
    MAPPED_READ,
    MAPPED_WRITE,
    STAT,
    LSTAT,
    FSTAT,
    ACCESS,
    READLINK,
    GETDENTS,
    STATFS,
    MKDIR,
    RMDIR,
    UNLINK,
    RENAME,
    LINK,
    SYMLINK,
    CHMOD,
    FCHMOD,
    UTIMENS,
    FUTIMENS,
    NO_CALL,
};

// What a recorded call does, of all that are known under several names.
enum step {
    STEP_NOTHING,
    STEP_MEMORY,
    STEP_UNSUPPORTED, // does something to files that no operation can do
    STEP_OPEN,
    STEP_CLOSE,
    STEP_CLOSE_RANGE,
    STEP_DUP,
    STEP_DUP_TO,
    STEP_FCNTL,
    STEP_IOCTL,
    STEP_SEEK,
    STEP_STREAM,     // at the position of the descriptor
    STEP_PLACE,      // at a place that is given
    STEP_BETWEEN,    // from one descriptor to another
    STEP_DESCRIPTOR, // anything else that is done to a descriptor
    STEP_PATH,       // anything else that is done to a path
    STEP_SYNC,
    STEP_MMAP,
    STEP_MUNMAP,
    STEP_MREMAP,
    STEP_MSYNC,
    STEP_MAKE, // mkdir
    STEP_REMOVE,
    STEP_RENAME,
    STEP_LINK,
    STEP_SYMLINK,
    STEP_MKNOD,
    STEP_CHDIR,
    STEP_FCHDIR,
    STEP_GETCWD,
    STEP_CLONE,
    STEP_UNSHARE,
    STEP_EXEC,
    STEP_EXIT,
    STEP_EXIT_GROUP,
    STEP_SPECIAL,      // makes a descriptor that is no file
    STEP_SPECIAL_PAIR, // makes two
    STEP_FOREIGN,      // makes a descriptor of which nothing is known
    STEP_ON_SPECIAL,   // what is done only to sockets and the like
};

struct call_type {
    const char *name;
    uint8_t step;
    uint8_t call;  // enum operation_call
    uint8_t left;  // of what STEP_SPECIAL makes and STEP_ON_SPECIAL is done to
    int32_t flags; // that the call has without being given them
};

enum { CALL_UNKNOWN = 255 };

const struct call_type *call_type(uint8_t number);

// Numbers of asm-generic.
enum {
    FLAG_WRONLY = 01,
    FLAG_RDWR = 02,
    FLAG_CREAT = 0100,
    FLAG_EXCL = 0200,
    FLAG_TRUNC = 01000,
    FLAG_APPEND = 02000,
    FLAG_DIRECTORY = 0200000,
    FLAG_NOFOLLOW = 0400000,
    FLAG_CLOEXEC = 02000000,
    FLAG_PATH = 010000000,
    FLAG_TMPFILE = 020000000,
    FLAG_AT_NOFOLLOW = 0x100,
    FLAG_AT_REMOVEDIR = 0x200,
    FLAG_AT_FOLLOW = 0x400,
    FLAG_AT_EMPTY_PATH = 0x1000,
    FLAG_EXCHANGE = 2,
    FLAG_SHARED = 1,
    FLAG_FIXED = 0x10,
    FLAG_ANONYMOUS = 0x20,
    FLAG_PROT_WRITE = 2,
    FLAG_CLONE_VM = 0x100,
    FLAG_CLONE_FS = 0x200,
    FLAG_CLONE_FILES = 0x400,
    FLAG_CLONE_THREAD = 0x10000,
    FLAG_RANGE_CLOEXEC = 4,
    FLAG_KEEP_SIZE = 1,
    FLAG_COLLAPSE_RANGE = 8,
    FLAG_INSERT_RANGE = 0x20,
    FLAG_RWF_APPEND = 0x10,
};

enum { AT_WORKING_DIRECTORY = -100, MOST_PATH_BYTES = 4095 }; // PATH_MAX without the NUL
enum { ERROR_NOENT = 2, ERROR_BADF = 9, ERROR_SPIPE = 29, FIRST_INTERNAL_ERROR = 512 };

enum origin {
    ORIGIN_UNKNOWN, // nobody used it so far
    ORIGIN_START,   // it was there when the recording began
    ORIGIN_MAYBE,   // open made it, unless it was there
    ORIGIN_MADE,
    ORIGIN_APPEARED, // something that is not recorded made it
};

enum inode_type { TYPE_FILE, TYPE_DIRECTORY, TYPE_SYMLINK, TYPE_UNKNOWN };

enum size_from { SIZE_FROM_STAT, SIZE_FROM_END, SIZE_FROM_READS, SIZE_FROM_NOTHING };

struct inode {
    int32_t same;      // itself, or the inode that it turned out to be
    int32_t dentry;    // a name that it has now
    int32_t first_dir; // where it was at the start; NOBODY: its name is not known
    uint32_t first_name;
    int32_t above; // what holds a directory of unknown name
    uint32_t nr_names;
    uint32_t target; // what a link says
    int32_t mode;
    uint32_t dev;
    int64_t ino;
    int64_t size;        // now; NO_INT64: unknown
    int64_t start_size;  // NO_INT64: unknown
    int64_t start_least; // at least so large at the start
    int64_t written_end; // how far writes at known places came
    int64_t appended;    // bytes put behind an end of which the place is not known
    uint32_t busy;       // calls under way that change the size
    uint32_t version;    // counts them
    int32_t number;      // in the tables; NOBODY so far
    int32_t unnamed;     // of `.unnamed/N`
    uint8_t origin, type, left, size_from;
    bool is_walked; // paths lead through it
    bool is_cut;    // the size tells nothing more of that at the start
};

enum dentry_state { NAME_UNKNOWN, NAME_PRESENT, NAME_ABSENT };

struct dentry {
    int32_t dir;
    uint32_t name;
    int32_t inode; // NOBODY: none so far; of an absent one what its own names would be in
    uint32_t path;
    uint32_t path_version;
    int64_t changed_ns; // when the call ended that made or removed it
    uint8_t state;
};

// Where a path leads: `dentry` is NOBODY for the root and for directories without a known name.
struct place {
    int32_t dentry, inode;
};

struct description {
    int32_t inode;    // NOBODY: none needed so far
    int64_t position; // NO_INT64: unknown
    int64_t start;    // position at which an inserted open must stand; NO_INT64: unknown
    int64_t moved;    // since then; NO_INT64: it was placed anew
    int64_t reach;    // how far behind the start reads came
    uint32_t busy, version;
    int32_t late;          // inserted operation that opens it; NOBODY: it was seen being opened
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

enum { CLOSED = 1, FIRST_ENTRY = 2 }; // values of the map of a table

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

struct mapping {
    uint64_t start, end;
    int64_t offset;
    int32_t descriptor; // NOBODY: anonymous, or no file
    bool is_copy;       // a fork's: the program has only that of the parent
};

struct space {
    struct mapping *mappings;
    size_t count, room;
    int32_t users;
};

struct process {
    int32_t pid;
    int32_t table, space, directory;
    int32_t nr_threads;
};

struct thread {
    int32_t tid, process;
    int32_t running;             // its call under way
    int32_t number;              // in the tables
    int32_t late_fd, late_entry; // what its last call makes when it ends
    uint32_t row;                // of its last call
};

struct operation {
    uint32_t row;
    int32_t thread;
    int32_t descriptor, descriptor2;
    int32_t inode, inode2;
    uint32_t path, path2;
    int64_t offset, offset2, flags, bytes;
    uint8_t call, left, rank;
    bool is_inserted;
};

// A name that came or went between recorded calls: before that of the row.
struct change {
    uint32_t row, path;
    int32_t thread, inode;
    bool is_gone;
};

// Inserted operations before the same row, in their order.
enum rank { RANK_NAME, RANK_CLOSE, RANK_OPEN, RANK_SEEK, RANK_DUP };

// A call that has begun and not ended.
struct running {
    int64_t end_ns;
    int32_t next_free;
    bool is_over;
    uint32_t row;
    int32_t thread, operation;
    int32_t descriptor, descriptor2;
    uint32_t position_version, position_version2, size_version;
    int32_t sized; // inode whose size it changes or tells
    bool is_alone, is_alone2, is_sized_alone, changes_size;
};

// Calls under way by their ends. One that ended before its turn keeps its place until then.
struct heap_place {
    int64_t end_ns;
    int32_t call;
};

struct calls {
    const struct calls_input *in;
    struct strings *strings;
    uint8_t *left; // of each row
    struct map dentry_numbers, inode_numbers, thread_numbers, process_numbers;
    struct inode *inodes;
    size_t nr_inodes, room_inodes;
    struct dentry *dentries;
    size_t nr_dentries, room_dentries;
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
    struct space *spaces;
    size_t nr_spaces, room_spaces;
    int32_t *directories; // working ones, by the number that processes share
    size_t nr_directories, room_directories;
    struct process *processes;
    size_t nr_processes, room_processes;
    struct thread *threads;
    size_t nr_threads, room_threads;
    struct operation *operations;
    size_t nr_operations, room_operations;
    struct operation *late; // inserted ones, in the order in which they were found to be needed
    size_t nr_late, room_late;
    struct change *changes;
    size_t nr_changes, room_changes;
    struct running *running;
    size_t nr_running, room_running;
    int32_t free_running; // first of those that can be used again
    struct heap_place *heap;
    size_t nr_heap, room_heap;
    int32_t *row_threads;       // of each row
    struct operation **ordered; // in the end those that are kept
    size_t nr_ordered, nr_numbered, nr_numbered_threads, nr_files;
    uint8_t *scratch;
    size_t room_scratch;
    uint32_t tree_version;
    uint32_t row; // of the call that is taken in, with its thread and end
    int32_t thread;
    int64_t end_ns;
    uint32_t nr_unnamed;
    uint64_t conflicts;
    uint32_t dev, shm, proc, sys, ashmem, fd, self, thread_self; // numbers of names
    bool has_unknown;                                            // descriptors of unknown kind count as files
    jmp_buf no_memory;
};

// calls.c: one more object in an array, zeroed; does not return where memory is short.
void *calls_push(struct calls *calls, void **objects, size_t *count, size_t *room, size_t size);
#define PUSH(calls, name)                                                                                              \
    calls_push(calls, (void **)&(calls)->name, &(calls)->nr_##name, &(calls)->room_##name, sizeof(*(calls)->name))
void *calls_allocate(struct calls *calls, size_t size);
uint64_t *calls_slot(struct calls *calls, struct map *map, uint64_t space, uint64_t key); // as map_add
_Noreturn void calls_out_of_memory(struct calls *calls);
uint32_t calls_string(struct calls *calls, const uint8_t *text, size_t length);
struct operation *calls_operation(struct calls *calls, uint32_t row, int32_t thread, uint8_t call);
struct operation *calls_insert(struct calls *calls, uint32_t row, int32_t thread, uint8_t call, uint8_t rank);

// names.c
void names_begin(struct calls *calls);
int32_t names_find(struct calls *calls, int32_t inode);
int32_t names_unnamed(struct calls *calls, uint8_t type, uint8_t origin);
bool names_walk(struct calls *calls, int32_t start, uint32_t text, bool follow, struct place *place);
void names_confirm(struct calls *calls, struct place *place, uint8_t type);
void names_absent(struct calls *calls, const struct place *place);
void names_make(struct calls *calls, struct place *place, uint8_t type, uint8_t origin);
void names_appear(struct calls *calls, struct place *place);
void names_remove(struct calls *calls, const struct place *place);
void names_rename(struct calls *calls, const struct place *from, const struct place *to, bool exchange);
void names_link(struct calls *calls, int32_t inode, const struct place *to);
int32_t names_identify(struct calls *calls, struct place *place, int32_t inode, uint32_t dev, int64_t ino);
uint32_t names_path(struct calls *calls, int32_t dentry);      // NO_STRING: longer than any call can be given
uint32_t names_first_path(struct calls *calls, int32_t inode); // NO_STRING: too long, or it cannot have been there
uint32_t names_unnamed_path(struct calls *calls, int32_t inode);
uint8_t names_left(const struct calls *calls, const struct place *place);
bool text_of(const struct calls *calls, uint32_t text, const uint8_t **at, size_t *length);
bool text_is_path(const uint8_t *text, size_t length);

// descriptors.c
int32_t descriptor_at(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, uint8_t kind);
int32_t descriptor_new(struct calls *calls, int32_t description);
int32_t description_new(struct calls *calls, int32_t inode, uint8_t left);
int32_t description_inode(struct calls *calls, struct description *description);
void description_is(struct calls *calls, int32_t description, uint8_t left);
void descriptor_is(struct calls *calls, int32_t descriptor, uint8_t left);
int32_t descriptor_inode(struct calls *calls, int32_t descriptor);
struct description *description_of(struct calls *calls, int32_t descriptor);
void descriptor_install(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, int32_t descriptor,
                        bool cloexec);
void descriptor_install_late(struct calls *calls, int32_t thread, uint32_t row);
void descriptor_close(struct calls *calls, int32_t thread, uint32_t row, int32_t fd);
void descriptor_closed(struct calls *calls, int32_t thread, int32_t fd);
void descriptor_foreign(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, int64_t flags);
void descriptor_cloexec(struct calls *calls, int32_t thread, int32_t fd, bool cloexec);
void descriptors_close_range(struct calls *calls, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                             bool cloexec);
void fd_table_exec(struct calls *calls, int32_t thread, uint32_t row);
int32_t fd_table_new(struct calls *calls);
int32_t fd_table_copy(struct calls *calls, int32_t table, uint32_t row, int32_t thread);
void fd_table_release(struct calls *calls, int32_t thread, uint32_t row);
int32_t descriptor_leads_to(struct calls *calls, int32_t pid, int32_t fd);
bool descriptor_was_opened(struct calls *calls, int32_t thread, int32_t fd);
uint8_t kind_of_path(struct calls *calls, uint32_t text, uint8_t kind);

// processes.c
int32_t thread_of(struct calls *calls, int32_t tid, int32_t pid);
void process_clone(struct calls *calls, int32_t thread, uint32_t row, int64_t flags, int32_t child);
void process_exec(struct calls *calls, int32_t thread, uint32_t row);
void process_exit(struct calls *calls, int32_t thread, uint32_t row, bool all_threads);
void process_unshare(struct calls *calls, int32_t thread, uint32_t row, int64_t flags);
int32_t *working_directory(struct calls *calls, int32_t thread);

// places.c
void position_begin(struct calls *calls, int32_t descriptor, bool *is_alone, uint32_t *version);
int64_t position_move(struct calls *calls, int32_t descriptor, bool is_alone, uint32_t version, int64_t bytes);
void position_seek(struct calls *calls, const struct running *call);
void position_reach(struct calls *calls, int32_t descriptor);
void position_lose(struct calls *calls, int32_t descriptor);
void size_begin(struct calls *calls, struct running *call, int32_t inode, bool changes);
bool size_end(struct calls *calls, const struct running *call);
void size_learn(struct calls *calls, int32_t inode, int64_t size, uint8_t from);
void size_write(struct calls *calls, int32_t inode, int64_t offset, int64_t bytes);
int64_t size_append(struct calls *calls, int32_t inode, bool is_alone, int64_t bytes);
void size_read(struct calls *calls, int32_t inode, int64_t offset, int64_t requested, int64_t bytes, bool is_steady);
void size_set(struct calls *calls, int32_t inode, int64_t size);

// mappings.c
int32_t space_new(struct calls *calls);
int32_t space_copy(struct calls *calls, int32_t space);
void space_release(struct calls *calls, int32_t space, int32_t thread, uint32_t row);
void mapping_add(struct calls *calls, int32_t space, uint64_t start, int64_t length, int32_t descriptor,
                 int64_t offset);
void mapping_remove(struct calls *calls, int32_t thread, uint32_t row, uint64_t start, int64_t length,
                    struct operation *operation);
void mapping_sync(struct calls *calls, int32_t thread, uint32_t row, struct operation *operation);
void mapping_move(struct calls *calls, int32_t thread, uint32_t row);

// rows.c: what the row of a call says, and the descriptors that it names
bool row_succeeded(const struct calls *calls, uint32_t row);
bool row_failed_with(const struct calls *calls, uint32_t row, int64_t error);
int64_t row_flags(const struct calls *calls, uint32_t row);
struct operation *operation_of(struct calls *calls, const struct running *call);
int32_t first_descriptor(struct calls *calls, const struct running *call);
int32_t second_descriptor(struct calls *calls, const struct running *call);

// steps.c
void call_begin(struct calls *calls, uint32_t row);
void call_end(struct calls *calls, const struct running *call);
bool call_is_early(struct calls *calls, const struct running *call);

// paths.c
void path_begin(struct calls *calls, struct running *call);
void path_end(struct calls *calls, const struct running *call);
bool walk_path(struct calls *calls, const struct running *call, uint32_t text, bool is_second, bool follow,
               struct place *place);
uint32_t place_path(struct calls *calls, const struct place *place);
void stat_end(struct calls *calls, struct place *place, int32_t inode, uint32_t row, bool is_steady);
void open_end(struct calls *calls, const struct running *call);
void directory_end(struct calls *calls, const struct running *call);
void directory_changed(struct calls *calls, const struct running *call);

// transfers.c
bool transfer_is_write(uint8_t call);
bool transfer_is_at_position(const struct calls *calls, uint32_t row);
void transfer_begin(struct calls *calls, struct running *call);
void transfer_end(struct calls *calls, const struct running *call);
void between_begin(struct calls *calls, struct running *call);
void between_end(struct calls *calls, const struct running *call);

// sizes.c
void size_recorded(struct calls *calls, const struct running *call);
void descriptor_begin(struct calls *calls, struct running *call);
void descriptor_end(struct calls *calls, const struct running *call);
void seek_begin(struct calls *calls, struct running *call);
void seek_end(struct calls *calls, struct running *call);

// numbers.c
void close_begin(struct calls *calls, struct running *call);
void close_range_begin(struct calls *calls, const struct running *call);
bool is_duplicate(const struct calls *calls, uint32_t row);
void duplicate_end(struct calls *calls, const struct running *call);
uint8_t descriptor_control(struct calls *calls, const struct running *call);
uint8_t device_control(struct calls *calls, const struct running *call);
void special_end(struct calls *calls, const struct running *call);
void foreign_end(struct calls *calls, const struct running *call);

// memory.c
void mmap_end(struct calls *calls, const struct running *call);
void memory_begin(struct calls *calls, const struct running *call);

// output.c
size_t output_finish(struct calls *calls, const int32_t *pids, size_t nr_pids);

// running.c
void running_add(struct calls *calls, const struct running *call);
void running_end_until(struct calls *calls, int64_t ts_ns);
void running_end_thread(struct calls *calls, int32_t thread);
bool running_end_opener(struct calls *calls, int32_t thread, int32_t fd);
