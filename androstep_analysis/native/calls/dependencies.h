// Operations of a replay program to the orders between threads that a replay keeps (replay/dependencies.py mirrors it).
#pragma once

#include "core/table.h"

// What an operation does beside using its descriptors, as the bits of `does`.
enum operation_does {
    DOES_MAKE = 1 << 0,          // descriptor
    DOES_CLOSE = 1 << 1,         // descriptor
    DOES_DUPLICATE = 1 << 2,     // descriptor, to descriptor2
    DOES_SEEK = 1 << 3,          // by the position of descriptor
    DOES_SEEK2 = 1 << 4,         // by the position of descriptor2
    DOES_SEE = 1 << 5,           // what file holds or is
    DOES_CHANGE = 1 << 6,        // what file holds or is
    DOES_CHANGE2 = 1 << 7,       // what file2 holds
    DOES_MAP = 1 << 8,           // file
    DOES_ACCESS_MAP = 1 << 9,    // memory mapped to file
    DOES_LOOK_UP = 1 << 10,      // path
    DOES_LOOK_UP2 = 1 << 11,     // path2
    DOES_CHANGE_NAME = 1 << 12,  // path
    DOES_CHANGE_NAME2 = 1 << 13, // path2
    DOES_LIST = 1 << 14,         // the directory that descriptor is open on
    DOES_SYNC = 1 << 15,         // everything
    DOES_LIST_PATH = 1 << 16,    // what path holds, if it is a directory
    DOES_LIST_PATH2 = 1 << 17,   // what path2 holds
    DOES_TELL = 1 << 18,         // on which side of a change of a name it is: by number, whatever the times say
};

// Columns, a row for each operation, whose number is that of the row. What holds no value is negative.
struct operations {
    size_t rows;
    const int64_t *begin_ns; // never falls
    const int64_t *end_ns;   // at most the begin of the thread's next operation
    const uint32_t *thread;
    const uint32_t *does;
    const int32_t *descriptor;
    const int32_t *descriptor2;
    const int32_t *file;
    const int32_t *file2;
    const int32_t *path; // number of one of the paths
    const int32_t *path2;
    size_t nr_threads;
    size_t nr_paths;
    const uint8_t *texts;   // of all paths
    const int64_t *offsets; // where each begins, and where the last one ends
};

struct dependencies;

// The orders between these operations, to be freed with dependencies_free; NULL where memory is short.
API struct dependencies *dependencies_new(const struct operations *operations);
API void dependencies_free(struct dependencies *dependencies);
API size_t dependencies_count(const struct dependencies *dependencies);

// For each order the operation that waits, in ascending order, and the one that it waits for.
API void dependencies_copy(const struct dependencies *dependencies, int64_t *operation, int64_t *after);
