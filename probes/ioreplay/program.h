/*
 * A replay program in memory: what threads did to files, closed so that it can be done again in an empty directory.
 *
 * FORMAT.md says how it is stored, and the structures here are its tables as they lie in the file. program.c loads and
 * checks it, and what it returns can be trusted: every number that refers to something refers to something that is
 * there.
 */
#ifndef ANDROSTEP_IOREPLAY_PROGRAM_H
#define ANDROSTEP_IOREPLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Null of 64-bit values is RECORD_NULL_INT64, of 32-bit ones RECORD_NULL_INT32. */
#define REPLAY_NONE RECORD_NULL_INT32 /* of numbers of descriptors, files and strings: there is none */

/* Flags are asm-generic's. */
struct replay_operation {
    int64_t ts_ns; /* since the start of the program; never falls from one to the next */
    int64_t duration_ns;
    int64_t offset_bytes, offset2_bytes; /* null: at the descriptor's position */
    int64_t bytes, result;
    int64_t flags;
    int32_t thread;
    uint32_t index; /* which of its thread's operations it is, from 0 */
    int32_t descriptor, descriptor2;
    int32_t file, file2;
    int32_t path, path2; /* into `strings` */
    int32_t request, mode;
    uint8_t call; /* enum replay_call */
    uint8_t inserted;
    int8_t failed; /* 0, 1, or -1: the recording does not tell */
    uint8_t reserved[5];
};

enum replay_kind { KIND_FILE, KIND_DIRECTORY, KIND_SYMLINK, REPLAY_KINDS };

struct replay_file {
    int64_t size_bytes;   /* null where nothing is known of it, and of directories and links */
    int32_t path, target; /* into `strings` */
    int32_t file;
    int32_t first; /* of another name of a file: the row of its first name */
    int32_t mode;  /* null: 0600, of directories 0700 */
    uint8_t kind;  /* enum replay_kind */
    uint8_t size_from;
    uint8_t reserved[2];
};

/* A regular file, and not only another name of one. */
static inline bool replay_is_file(const struct replay_file *file)
{
    return file->kind == KIND_FILE && file->first == REPLAY_NONE;
}

/* What there is to write of it. */
static inline int64_t replay_file_bytes(const struct replay_file *file)
{
    return replay_is_file(file) && file->size_bytes > 0 ? file->size_bytes : 0;
}

/* What a program states may be more than any number holds. */
static inline int64_t replay_sum(int64_t sum, int64_t bytes)
{
    return __builtin_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
}

/* `operation` must not begin before `after`, which comes earlier, has ended. */
struct replay_dependency {
    uint32_t operation, after;
};

struct replay_program {
    char sha256[65];     /* of the file */
    int64_t duration_ns; /* from the start to the end of the last operation, as recorded */
    bool is_device;      /* made from the requests of a block device: one file, and nothing else */
    struct replay_operation *operations;
    uint32_t nr_operations, nr_inserted;
    uint32_t *thread_operations; /* the operations of thread 0, then those of thread 1, … */
    uint32_t *thread_first;      /* for each thread where its own begin there; one more entry marks the end */
    uint32_t nr_threads;
    uint32_t nr_descriptors; /* more than any number of one */
    const char **strings;    /* paths from the root, what links say, names of threads */
    uint32_t nr_strings;
    struct replay_file *files; /* a directory comes before what is in it */
    uint32_t nr_files;
    struct replay_dependency *dependencies; /* sorted by `after` */
    uint32_t nr_dependencies;
    char *data; /* the file, in which all of these tables lie but those of threads */
};

/* program.c: reads and checks the file; -1 after it complained (file, place, what was expected). */
int replay_load(const char *path, struct replay_program *program);
void replay_unload(struct replay_program *program);

/* Of all files that there are at the start. */
int64_t replay_files_bytes(const struct replay_program *program);

#endif
