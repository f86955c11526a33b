#include "ioreplay/replay.h"

/* MAX_RW_COUNT of include/linux/fs.h, with pages of 4 KiB. */
#define MOST_BYTES INT64_C(0x7ffff000)

#define READS  .size = SIZE_MOVED, .moves = MOVES_READ
#define WRITES .size = SIZE_MOVED, .moves = MOVES_WRITTEN
#define COPIES .descriptor = MAY, .descriptor2 = MAY, .size = SIZE_ANY, .moves = MOVES_BOTH
#define RANGE  .offset = MUST, .size = SIZE_ANY
#define DEVICE .is_for_device = true

const struct replay_shape replay_shapes[REPLAY_CALLS] = {
    [CALL_OPEN] = {"open", .path = MUST, .flags = 0x7FFFC3, DEVICE},
    [CALL_CLOSE] = {"close", .descriptor = NUMBER, DEVICE},
    [CALL_DUP] = {"dup", .descriptor = MUST, .flags = 0x80000},
    [CALL_LSEEK] = {"lseek", .descriptor = MUST, .offset = MUST, .request = 4},
    [CALL_READ] = {"read", .descriptor = MUST, READS},
    [CALL_WRITE] = {"write", .descriptor = MUST, WRITES},
    [CALL_PREAD] = {"pread", .descriptor = MUST, .offset = MUST, READS, DEVICE},
    [CALL_PWRITE] = {"pwrite", .descriptor = MUST, .offset = MUST, WRITES, DEVICE},
    [CALL_READV] = {"readv", .descriptor = MUST, READS},
    [CALL_WRITEV] = {"writev", .descriptor = MUST, WRITES},
    [CALL_PREADV] = {"preadv", .descriptor = MUST, READS, .flags = 0x1FF, DEVICE},
    [CALL_PWRITEV] = {"pwritev", .descriptor = MUST, WRITES, .flags = 0x1FF, DEVICE},
    [CALL_SENDFILE] = {"sendfile", COPIES},
    [CALL_SPLICE] = {"splice", COPIES, .flags = 0xF},
    [CALL_COPY_FILE_RANGE] = {"copy_file_range", COPIES},
    [CALL_FSYNC] = {"fsync", .descriptor = MUST, DEVICE},
    [CALL_FDATASYNC] = {"fdatasync", .descriptor = MUST, DEVICE},
    [CALL_SYNC_FILE_RANGE] = {"sync_file_range", .descriptor = MUST, RANGE, .flags = 7},
    [CALL_SYNC] = {.name = "sync"},
    [CALL_SYNCFS] = {"syncfs", .descriptor = MUST},
    [CALL_TRUNCATE] = {"truncate", .path = MUST, .size = SIZE_ANY},
    [CALL_FTRUNCATE] = {"ftruncate", .descriptor = MUST, .size = SIZE_ANY},
    [CALL_FALLOCATE] = {"fallocate", .descriptor = MUST, RANGE, .flags = 0xFF, DEVICE},
    [CALL_FADVISE] = {"fadvise", .descriptor = MUST, RANGE, .request = 7},
    [CALL_READAHEAD] = {"readahead", .descriptor = MUST, RANGE},
    [CALL_MMAP] = {"mmap", .descriptor = MUST, RANGE, .flags = UINT32_MAX, .request = 0xF},
    [CALL_MUNMAP] = {"munmap", .descriptor = NUMBER, RANGE},
    [CALL_MSYNC] = {"msync", .descriptor = NUMBER, RANGE, .flags = 7},
    [CALL_MAPPED_READ] = {"mapped_read", .descriptor = NUMBER, .offset = MUST, READS},
    [CALL_MAPPED_WRITE] = {"mapped_write", .descriptor = NUMBER, .offset = MUST, WRITES},
    [CALL_STAT] = {"stat", .path = MUST, .flags = 0x7F00},
    [CALL_LSTAT] = {"lstat", .path = MUST, .flags = 0x7F00},
    [CALL_FSTAT] = {"fstat", .descriptor = MUST, .flags = 0x7F00},
    [CALL_ACCESS] = {"access", .path = MUST, .flags = 0x7F00, .request = 7},
    [CALL_READLINK] = {"readlink", .path = MUST},
    [CALL_GETDENTS] = {"getdents", .descriptor = MUST},
    [CALL_STATFS] = {"statfs", .path = MAY, .descriptor = MAY},
    [CALL_MKDIR] = {"mkdir", .path = MUST},
    [CALL_RMDIR] = {"rmdir", .path = MUST, .flags = 0x200},
    [CALL_UNLINK] = {"unlink", .path = MUST},
    [CALL_RENAME] = {"rename", .path = MUST, .path2 = MUST, .flags = 7},
    [CALL_LINK] = {"link", .path = MUST, .path2 = MUST, .flags = 0x1400},
    [CALL_SYMLINK] = {"symlink", .path = MUST, .path2 = MUST},
    [CALL_CHMOD] = {"chmod", .path = MUST, .flags = 0x7F00},
    [CALL_FCHMOD] = {"fchmod", .descriptor = MUST, .flags = 0x7F00},
    [CALL_UTIMENS] = {"utimens", .path = MUST, .flags = 0x7F00},
    [CALL_FUTIMENS] = {"futimens", .descriptor = MUST, .flags = 0x7F00},
};

enum replay_moves replay_moves(const struct replay_operation *operation)
{
    enum replay_moves moves = replay_shapes[operation->call].moves;
    if (moves != MOVES_BOTH)
        return moves;
    if (operation->descriptor2 == REPLAY_NONE)
        return MOVES_READ;
    return operation->descriptor == REPLAY_NONE ? MOVES_WRITTEN : MOVES_BOTH;
}

int64_t replay_moves_bytes(const struct replay_operation *operation)
{
    return operation->bytes < MOST_BYTES ? operation->bytes : MOST_BYTES;
}

/* Values of include/uapi/asm-generic/fcntl.h. O_SYNC includes the bit of O_DSYNC, and O_TMPFILE that of O_DIRECTORY. */
static const struct {
    int64_t generic;
    int flag;
} open_flags[] = {
    {01, O_WRONLY},        {02, O_RDWR},          {0100, O_CREAT},     {0200, O_EXCL},         {01000, O_TRUNC},
    {02000, O_APPEND},     {010000, O_DSYNC},     {04010000, O_SYNC},  {040000, O_DIRECT},     {0200000, O_DIRECTORY},
    {0400000, O_NOFOLLOW}, {01000000, O_NOATIME}, {010000000, O_PATH}, {020200000, O_TMPFILE},
};

int replay_open_flags(int64_t generic)
{
    int flags = O_LARGEFILE;
    for (size_t index = 0; index < sizeof open_flags / sizeof *open_flags; index++)
        if ((generic & open_flags[index].generic) == open_flags[index].generic)
            flags |= open_flags[index].flag;
    return flags;
}
