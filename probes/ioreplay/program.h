/*
 * A replay program in memory: what threads did to files, closed so that it can be done again in an empty directory.
 *
 * FORMAT.md says how it is stored; program.c loads and checks it, and what it returns can be trusted: every
 * number that refers to something refers to something that is there.
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

/* names.c: the values of operations.call, in the same order. */
extern const char *const replay_call_names[REPLAY_CALLS];

#define REPLAY_NONE (-1) /* of descriptors, files and paths: there is none */

/* Null of 64-bit values is RECORD_NULL_INT64, of 32-bit ones RECORD_NULL_INT32. Flags are asm-generic's. */
struct replay_operation {
    int64_t ts_ns;                       /* since the start of the program; never falls from one to the next */
    int64_t offset_bytes, offset2_bytes; /* null: at the descriptor's position */
    int64_t bytes, result;
    int64_t flags;
    int32_t thread;
    int32_t descriptor, descriptor2;
    int32_t path, path2; /* into `paths` */
    int32_t request, mode;
    uint8_t call; /* enum replay_call */
    bool inserted;
    int8_t failed;  /* 0, 1, or -1: the recording does not tell */
    uint32_t index; /* which of its thread's operations it is, from 0 */
};

enum replay_kind { KIND_FILE, KIND_DIRECTORY, KIND_SYMLINK };

struct replay_file {
    int32_t path, target; /* into `paths` */
    int32_t file;         /* rows of the same file are names of one file; REPLAY_NONE: of none other */
    int32_t mode;         /* null: 0600, of directories 0700 */
    int64_t size_bytes;   /* 0 where nothing is known of it, and of directories and links */
    uint8_t kind;         /* enum replay_kind */
};

/* `operation` must not begin before `after`, which comes earlier and is of another thread, has ended. */
struct replay_dependency {
    uint32_t operation, after;
};

struct replay_program {
    char sha256[65];     /* of the file */
    int64_t duration_ns; /* from the start to the end of the last operation, as recorded */
    bool is_device;      /* made from the requests of a block device: one file, path "device", and nothing else */
    struct replay_operation *operations;
    uint32_t nr_operations, nr_inserted;
    uint32_t *thread_operations; /* the operations of thread 0, then those of thread 1, … */
    uint32_t *thread_first;      /* for each thread where its own begin there; one more entry marks the end */
    uint32_t nr_threads;
    uint32_t nr_descriptors; /* more than any number of one */
    const char **paths;      /* without leading slash; no component is "", "." or "..", but for the path "." itself;
                                what links say (`target`, path2 of symlink) can be anything */
    uint32_t nr_paths;
    char *texts;               /* what `paths` points into */
    struct replay_file *files; /* a directory comes before what is in it */
    uint32_t nr_files;
    struct replay_dependency *dependencies; /* sorted by operation */
    uint32_t nr_dependencies;
};

/* program.c: reads and checks the file; -1 after it complained (file, place, what was expected). */
int replay_load(const char *path, struct replay_program *program);
void replay_unload(struct replay_program *program);

#endif
