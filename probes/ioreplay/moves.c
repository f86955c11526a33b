#include "ioreplay/moves.h"

/* MAX_RW_COUNT of include/linux/fs.h, with pages of 4 KiB. */
#define MOST_BYTES INT64_C(0x7ffff000)

static const uint8_t moves[REPLAY_CALLS] = {
    [CALL_READ] = MOVES_READ,
    [CALL_PREAD] = MOVES_READ,
    [CALL_READV] = MOVES_READ,
    [CALL_PREADV] = MOVES_READ,
    [CALL_MAPPED_READ] = MOVES_READ,
    [CALL_WRITE] = MOVES_WRITTEN,
    [CALL_PWRITE] = MOVES_WRITTEN,
    [CALL_WRITEV] = MOVES_WRITTEN,
    [CALL_PWRITEV] = MOVES_WRITTEN,
    [CALL_MAPPED_WRITE] = MOVES_WRITTEN,
    [CALL_SENDFILE] = MOVES_BOTH,
    [CALL_SPLICE] = MOVES_BOTH,
    [CALL_COPY_FILE_RANGE] = MOVES_BOTH,
};

enum replay_moves replay_moves(const struct replay_operation *operation)
{
    if (moves[operation->call] != MOVES_BOTH)
        return moves[operation->call];
    if (operation->descriptor2 == REPLAY_NONE)
        return MOVES_READ;
    return operation->descriptor == REPLAY_NONE ? MOVES_WRITTEN : MOVES_BOTH;
}

int64_t replay_moves_bytes(const struct replay_operation *operation)
{
    return operation->bytes < MOST_BYTES ? operation->bytes : MOST_BYTES;
}

struct replay_moved replay_moved(const struct replay_operation *operation, int64_t result)
{
    enum replay_moves found = replay_moves(operation);
    struct replay_moved moved = {0};

    if (result > 0 && (found == MOVES_READ || found == MOVES_BOTH))
        moved.read = result;
    if (result > 0 && (found == MOVES_WRITTEN || found == MOVES_BOTH))
        moved.written = result;
    return moved;
}
