// Which file lies at which addresses of a process.
#pragma once

#include "calls/program.h"

struct mapping {
    uint64_t start, end;
    int64_t offset;
    int32_t descriptor; // NO_INDEX: anonymous, or no file
    bool is_copy;       // a fork's: the program has only that of the parent
};

struct space {
    struct mapping *mappings;
    size_t count, room;
    int32_t users;
};

struct mappings {
    struct storage *storage;
    struct program *program;
    uint64_t page_bytes;
    struct space *spaces;
    size_t nr_spaces, room_spaces;
};

void mappings_free(struct mappings *mappings);
int32_t space_new(struct mappings *mappings);
int32_t space_copy(struct mappings *mappings, int32_t space);
void space_release(struct mappings *mappings, int32_t space, int32_t thread, uint32_t row);
void mapping_add(struct mappings *mappings, int32_t space, uint64_t start, int64_t length, int32_t descriptor,
                 int64_t offset);

// Takes a range out; of the mappings in it the first becomes that of `operation` (NULL: of none), the others get
// operations of their own.
void mapping_remove(struct mappings *mappings, int32_t space, int32_t thread, uint32_t row, uint64_t start,
                    int64_t length, struct operation *operation);

// Tells the operation which part of a file lies in a range.
void mapping_sync(const struct mappings *mappings, int32_t space, uint64_t start, int64_t length,
                  struct operation *operation);

// mremap: the mapping is at another address and may be longer; nothing moves in the file.
void mapping_move(struct mappings *mappings, int32_t space, uint64_t start, int64_t length, uint64_t to);
