/* What the calls of a program are: their names, what their operations must say, and which bytes they move. */
#ifndef ANDROSTEP_IOREPLAY_SHAPES_H
#define ANDROSTEP_IOREPLAY_SHAPES_H

#include "ioreplay/program.h"

enum replay_need {
    UNUSED,
    MAY,
    MUST,
    NUMBER, /* of descriptors: it need not be open */
};

enum replay_size {
    SIZE_NONE,
    SIZE_ANY,
    SIZE_MOVED, /* goes through a buffer */
};

enum replay_moves { MOVES_NOTHING, MOVES_READ, MOVES_WRITTEN, MOVES_BOTH };

struct replay_shape {
    const char *name; /* as operations.call has it */
    enum replay_need descriptor, descriptor2, path, path2, offset;
    enum replay_size size;
    enum replay_moves moves;
    int64_t flags;      /* all that there are; asm-generic's */
    int32_t request;    /* the greatest; 0: none */
    bool is_for_device; /* a block device has it, too */
};

extern const struct replay_shape replay_shapes[REPLAY_CALLS];

/* Of copies from file to file only the sides that are files of the program count. */
enum replay_moves replay_moves(const struct replay_operation *operation);

/* How much an operation asks to move, as far as Linux moves it by one call. */
int64_t replay_moves_bytes(const struct replay_operation *operation);

#endif
