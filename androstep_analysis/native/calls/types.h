// What each recorded call does, of all that are known under several names.
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
