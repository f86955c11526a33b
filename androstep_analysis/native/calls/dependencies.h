// Finds the dependencies between threads that a replay must keep (mirrored by replay/dependencies.py).
#pragma once

#include "core/table.h"

// Effects of an operation besides the use of its descriptors, as bits of `does`.
enum operation_does {
    DOES_MAKE = 1 << 0,          // creates descriptor
    DOES_CLOSE = 1 << 1,         // closes descriptor
    DOES_DUPLICATE = 1 << 2,     // duplicates descriptor as descriptor2
    DOES_SEEK = 1 << 3,          // uses the position of descriptor
    DOES_SEEK2 = 1 << 4,         // uses the position of descriptor2
    DOES_SEE = 1 << 5,           // reads data or attributes of file
    DOES_CHANGE = 1 << 6,        // changes data or attributes of file
    DOES_CHANGE2 = 1 << 7,       // changes data of file2
    DOES_MAP = 1 << 8,           // maps file
    DOES_ACCESS_MAP = 1 << 9,    // accesses memory mapped to file
    DOES_LOOK_UP = 1 << 10,      // looks up path
    DOES_LOOK_UP2 = 1 << 11,     // looks up path2
    DOES_CHANGE_NAME = 1 << 12,  // changes the name path
    DOES_CHANGE_NAME2 = 1 << 13, // changes the name path2
    DOES_LIST = 1 << 14,         // lists the directory that descriptor is open on
    DOES_SYNC = 1 << 15,         // writes everything back
    DOES_LIST_PATH = 1 << 16,    // reads the entries of path, if it is a directory
    DOES_LIST_PATH2 = 1 << 17,   // reads the entries of path2
    DOES_TELL = 1 << 18,         // its result shows on which side of a name change it is (ordered by number, not time)
};

// Columns with a row for each operation, whose number is that of the row. Negative values are null.
struct operations {
    size_t rows;
    const int64_t *begin_ns; // ascending
    const int64_t *end_ns;   // at most the begin of the thread's next operation
    const uint32_t *thread;
    const uint32_t *does;
    const int32_t *descriptor;
    const int32_t *descriptor2;
    const int32_t *file;
    const int32_t *file2;
    const int32_t *path; // index of a path
    const int32_t *path2;
    size_t nr_threads;
    size_t nr_paths;
    const uint8_t *texts;   // all paths, concatenated
    const int64_t *offsets; // begin of each path, and the end of the last one
};

struct dependencies;

// Finds the dependencies of these operations. Free the result with dependencies_free. Returns NULL without memory.
API struct dependencies *dependencies_new(const struct operations *operations);
API void dependencies_free(struct dependencies *dependencies);
API size_t dependencies_count(const struct dependencies *dependencies);

// Copies the operation that waits, in ascending order, and the one that it waits for, of each dependency.
API void dependencies_copy(const struct dependencies *dependencies, int64_t *operation, int64_t *after);
