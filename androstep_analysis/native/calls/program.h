// The operations of a program while they are collected.
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

// Order of the inserted operations before one row.
enum rank { RANK_NAME, RANK_CLOSE, RANK_OPEN, RANK_SEEK, RANK_DUP };

struct program {
    struct storage *storage;
    struct operation *operations; // one for each row
    size_t nr_operations, operations_capacity;
    struct operation *inserted; // inserted ones, in the order in which they turned out to be needed
    size_t nr_inserted, inserted_capacity;
};

void program_free(struct program *program);

// Appends the operation of a row.
struct operation *operation_new(struct program *program, uint32_t row, int32_t thread, uint8_t call);

// Inserts an operation before that of the row. Those before one row are ordered by rank.
struct operation *operation_insert(struct program *program, uint32_t row, int32_t thread, uint8_t call, uint8_t rank);
