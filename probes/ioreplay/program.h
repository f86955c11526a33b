/* A replay program in memory: recorded file operations of threads, complete enough to be repeated in an empty
 * directory.
 *
 * FORMAT.md describes the file; the structures here are its tables. program.c loads and checks it. All IDs in a loaded
 * program are valid. */
#pragma once

#include "common/record.h"

/* In the order of the values of operations.call in schemas/. */
enum replay_call {
    CALL_OPEN,
    CALL_CLOSE,
    CALL_DUP,
    CALL_LSEEK,
    CALL_READ,
    CALL_WRITE,
    CALL_PREAD,
    CALL_PWRITE,
    CALL_READV,
    CALL_WRITEV,
    CALL_PREADV,
    CALL_PWRITEV,
    CALL_SENDFILE,
    CALL_SPLICE,
    CALL_COPY_FILE_RANGE,
    CALL_FSYNC,
    CALL_FDATASYNC,
    CALL_SYNC_FILE_RANGE,
    CALL_SYNC,
    CALL_SYNCFS,
    CALL_TRUNCATE,
    CALL_FTRUNCATE,
    CALL_FALLOCATE,
    CALL_FADVISE,
    CALL_READAHEAD,
    CALL_MMAP,
    CALL_MUNMAP,
    CALL_MSYNC,
    CALL_MAPPED_READ,
    CALL_MAPPED_WRITE,
    CALL_STAT,
    CALL_LSTAT,
    CALL_FSTAT,
    CALL_ACCESS,
    CALL_READLINK,
    CALL_GETDENTS,
    CALL_STATFS,
    CALL_MKDIR,
    CALL_RMDIR,
    CALL_UNLINK,
    CALL_RENAME,
    CALL_LINK,
    CALL_SYMLINK,
    CALL_CHMOD,
    CALL_FCHMOD,
    CALL_UTIMENS,
    CALL_FUTIMENS,
    REPLAY_CALLS
};

/* Null of 64-bit values is RECORD_NULL_INT64, that of 32-bit values RECORD_NULL_INT32. */
#define REPLAY_NONE RECORD_NULL_INT32 /* no descriptor, file or string */

/* One operation. Flags have asm-generic values. */
struct replay_operation {
    int64_t ts_ns; /* since the start of the program; ascending */
    int64_t duration_ns;
    int64_t offset_bytes, offset2_bytes; /* null: the current position of the descriptor */
    int64_t bytes, result;
    int64_t flags;
    int32_t thread;
    uint32_t index; /* among the operations of its thread, from 0 */
    int32_t descriptor, descriptor2;
    int32_t file, file2;
    int32_t path, path2; /* index in `strings` */
    int32_t request, mode;
    uint8_t call; /* enum replay_call */
    uint8_t inserted;
    int8_t failed; /* 0, 1, or -1: not recorded */
    uint8_t reserved[5];
};

enum replay_kind { KIND_FILE, KIND_DIRECTORY, KIND_SYMLINK, REPLAY_KINDS };

struct replay_file {
    int64_t size_bytes;   /* null: unknown, or a directory or link */
    int32_t path, target; /* index in `strings` */
    int32_t file;
    int32_t first; /* of another name of a file: row of its first name */
    int32_t mode;  /* null: 0600, or 0700 for directories */
    uint8_t kind;  /* enum replay_kind */
    uint8_t size_from;
    uint8_t reserved[2];
};

/* Return whether it is a regular file and not another name of one. */
static inline bool replay_is_file(const struct replay_file *file)
{
    return file->kind == KIND_FILE && file->first == REPLAY_NONE;
}

/* Return the bytes to write before the replay. */
static inline int64_t replay_file_bytes(const struct replay_file *file)
{
    return replay_is_file(file) && file->size_bytes > 0 ? file->size_bytes : 0;
}

/* Add without overflow: a program may claim any size. */
static inline int64_t replay_sum(int64_t sum, int64_t bytes)
{
    return __builtin_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
}

/* `operation` must not start before the earlier operation `after` has ended. */
struct replay_dependency {
    uint32_t operation, after;
};

struct replay_program {
    char sha256[65];     /* of the file */
    int64_t duration_ns; /* from the start to the end of the last operation, as recorded */
    bool is_device;      /* made from requests of a block device: one file and nothing else */
    struct replay_operation *operations;
    uint32_t nr_operations, nr_inserted;
    uint32_t *thread_operations; /* operations of thread 0, followed by those of thread 1, … */
    uint32_t *thread_first;      /* index of the first operation of each thread there; one more entry marks the end */
    uint32_t nr_threads;
    uint32_t nr_descriptors; /* exceeds every descriptor ID */
    const char **strings;    /* paths from the root, targets of links, names of threads */
    uint32_t nr_strings;
    struct replay_file *files; /* directories before their entries */
    uint32_t nr_files;
    struct replay_dependency *dependencies; /* sorted by `after` */
    uint32_t nr_dependencies;
    char *data; /* contents of the file, with all of these tables except those of threads */
};

/* program.c: read and check the file. Returns -1 after printing an error (file, row, expectation). */
int replay_load(const char *path, struct replay_program *program);

/* Return the bytes of all files at the start. */
int64_t replay_files_bytes(const struct replay_program *program);
