// File mappings of the address spaces of processes.
#pragma once

#include "calls/program.h"

struct mapping {
    uint64_t start, end;
    int64_t offset;
    int32_t descriptor; // NO_INDEX: anonymous, or not a file
    bool is_copy;       // of the child of a fork: the program has only that of the parent
};

struct space {
    struct mapping *mappings;
    size_t count, capacity;
    int32_t users;
};

struct mappings {
    struct storage *storage;
    struct program *program;
    uint64_t page_bytes;
    struct space *spaces;
    size_t nr_spaces, spaces_capacity;
};

void mappings_free(struct mappings *mappings);
int32_t space_new(struct mappings *mappings);
int32_t space_copy(struct mappings *mappings, int32_t space);
void space_release(struct mappings *mappings, int32_t space, int32_t thread, uint32_t row);
void mapping_add(struct mappings *mappings, int32_t space, uint64_t start, int64_t length, int32_t descriptor,
                 int64_t offset);

// Unmaps a range. `operation` (NULL: none) gets the first mapping in it; the others get operations of their own.
void mapping_remove(struct mappings *mappings, int32_t space, int32_t thread, uint32_t row, uint64_t start,
                    int64_t length, struct operation *operation);

// Sets the part of a file that is mapped in the range in the operation.
void mapping_sync(const struct mappings *mappings, int32_t space, uint64_t start, int64_t length,
                  struct operation *operation);

// Moves a mapping to another address (mremap). It may grow; its offset in the file stays the same.
void mapping_move(struct mappings *mappings, int32_t space, uint64_t start, int64_t length, uint64_t to);
