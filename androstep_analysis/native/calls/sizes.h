// Sizes of files, as far as the calls tell them.
#pragma once

#include "calls/files.h"
#include "calls/running.h"

// A call that changes the size of the file, or tells it, begins.
void size_begin(struct files *files, struct running *call, int32_t inode, bool changes);

// Whether no other call changed the size meanwhile.
bool size_end(struct files *files, const struct running *call);

// The size is known now, and with it that at the start where only writes at known places came between.
void size_learn(struct files *files, int32_t inode, int64_t size, uint8_t from);
void size_write(struct files *files, int32_t inode, int64_t offset, int64_t bytes);

// Bytes went behind the end; returns where that was, or NO_INT64.
int64_t size_append(struct files *files, int32_t inode, bool is_alone, int64_t bytes);

// `bytes` were read at the place; `is_steady` where nothing changed the size meanwhile.
void size_read(struct files *files, int32_t inode, int64_t offset, int64_t requested, int64_t bytes, bool is_steady);
void size_set(struct files *files, int32_t inode, int64_t size);
