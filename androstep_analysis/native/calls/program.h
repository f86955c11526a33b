// The operations of a program, as far as they are found.
#pragma once

#include "calls/storage.h"

struct operation {
    uint32_t row;
    int32_t thread;
    int32_t descriptor, descriptor2;
    int32_t inode, inode2;
    uint32_t path, path2;
    int64_t offset, offset2, flags, bytes;
    uint8_t call, left, rank;
    bool is_inserted;
};

// Inserted operations before the same row, in their order.
enum rank { RANK_NAME, RANK_CLOSE, RANK_OPEN, RANK_SEEK, RANK_DUP };

struct program {
    struct storage *storage;
    struct operation *operations; // a row each
    size_t nr_operations, room_operations;
    struct operation *late; // inserted ones, in the order in which they were found to be needed
    size_t nr_late, room_late;
};

void program_free(struct program *program);

// The operation that a row is.
struct operation *operation_new(struct program *program, uint32_t row, int32_t thread, uint8_t call);

// An operation that comes before that of the row; those of one row come in the order of their ranks.
struct operation *operation_insert(struct program *program, uint32_t row, int32_t thread, uint8_t call, uint8_t rank);
