// Sizes of files, as far as the calls show them.
#pragma once

#include "calls/files.h"
#include "calls/running.h"

// Begins a call that changes or returns the size of the file.
void size_begin(struct files *files, struct running *call, int32_t inode, bool changes);

// Ends the call. Returns whether no other call changed the size during it.
bool size_end(struct files *files, const struct running *call);

// Records the current size. If there were only writes at known offsets before, the size at the start follows from it.
void size_learn(struct files *files, int32_t inode, int64_t size, uint8_t from);
void size_write(struct files *files, int32_t inode, int64_t offset, int64_t bytes);

// Records an append. Returns the offset of its first byte, or NO_INT64.
int64_t size_append(struct files *files, int32_t inode, bool is_alone, int64_t bytes);

// Records a read at an offset. `is_steady`: no call changed the size during it.
void size_read(struct files *files, int32_t inode, int64_t offset, int64_t requested, int64_t bytes, bool is_steady);
void size_set(struct files *files, int32_t inode, int64_t size);
