/* Properties of the calls in a program: names, required fields, and moved bytes. */
#pragma once

#include "ioreplay/program.h"

enum replay_need {
    UNUSED,
    MAY,
    MUST,
    NUMBER, /* a descriptor ID that need not be open */
};

enum replay_size {
    SIZE_NONE,
    SIZE_ANY,
    SIZE_MOVED, /* uses a buffer */
};

enum replay_moves { MOVES_NOTHING, MOVES_READ, MOVES_WRITTEN, MOVES_BOTH };

struct replay_shape {
    const char *name; /* as in operations.call */
    enum replay_need descriptor, descriptor2, path, path2, offset;
    enum replay_size size;
    enum replay_moves moves;
    int64_t flags;      /* all valid flags; asm-generic values */
    int32_t request;    /* largest value; 0: none */
    bool is_for_device; /* also valid for a block device */
};

extern const struct replay_shape replay_shapes[REPLAY_CALLS];

/* Return the direction of an operation. In copies between files only files of the program count. */
enum replay_moves replay_moves(const struct replay_operation *operation);

/* Return the bytes requested by an operation, limited to what Linux moves in one call. */
int64_t replay_moves_bytes(const struct replay_operation *operation);
