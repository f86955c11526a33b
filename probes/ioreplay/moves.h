/* What the operations of a program read and write. */
#ifndef ANDROSTEP_IOREPLAY_MOVES_H
#define ANDROSTEP_IOREPLAY_MOVES_H

#include "ioreplay/program.h"

enum replay_moves { MOVES_NOTHING, MOVES_READ, MOVES_WRITTEN, MOVES_BOTH };

/* Of copies from file to file only the sides that are files of the program count. */
enum replay_moves replay_moves(const struct replay_operation *operation);

/* How much an operation asks to move, as far as Linux moves it by one call. */
int64_t replay_moves_bytes(const struct replay_operation *operation);

/* Bytes read and written by an operation with this result. */
struct replay_moved {
    int64_t read, written;
};
struct replay_moved replay_moved(const struct replay_operation *operation, int64_t result);

#endif
