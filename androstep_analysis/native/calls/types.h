// Kinds of recorded calls. Several names may have the same kind.
#pragma once

#include <stdint.h>

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

enum step {
    STEP_NOTHING,
    STEP_MEMORY,
    STEP_UNSUPPORTED, // affects files in a way that no operation reproduces
    STEP_OPEN,
    STEP_CLOSE,
    STEP_CLOSE_RANGE,
    STEP_DUP,
    STEP_DUP_TO,
    STEP_FCNTL,
    STEP_IOCTL,
    STEP_SEEK,
    STEP_STREAM,     // at the position of the descriptor
    STEP_AT_OFFSET,  // at an offset that is an argument
    STEP_BETWEEN,    // from one descriptor to another
    STEP_DESCRIPTOR, // any other call on a descriptor
    STEP_PATH,       // any other call on a path
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
    STEP_SPECIAL,      // creates a descriptor that is not a file
    STEP_SPECIAL_PAIR, // creates two of them
    STEP_FOREIGN,      // creates a descriptor of unknown kind
    STEP_ON_SPECIAL,   // succeeds only on sockets and the like
};

struct call_type {
    const char *names; // separated by spaces
    uint8_t step;
    uint8_t call;  // enum operation_call
    uint8_t left;  // enum left of what STEP_SPECIAL creates and STEP_ON_SPECIAL uses
    int32_t flags; // flags that the call implies
};

enum { CALL_UNKNOWN = 255 };

const struct call_type *call_type(uint8_t index);
