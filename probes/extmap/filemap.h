/* Extents of one open file from FIEMAP, or from FIBMAP if the filesystem has no FIEMAP (FAT, exFAT). */
#pragma once

#include "common/base.h"

/* Set together with FIEMAP_EXTENT_*: the extent comes from FIBMAP, which reports no state. */
#define FILEMAP_BY_FIBMAP 0x80000000U

struct filemap_extent {
    int64_t file_offset_bytes, physical_bytes, nr_bytes;
    uint32_t flags; /* FIEMAP_EXTENT_* */
};

/* Receive one extent. Returns 0, or any other value to stop. */
typedef int filemap_take(void *context, const struct filemap_extent *extent);

/* Call `take` for every extent of the regular file or directory `fd` of `size_bytes`, in file order. Dirty pages
 * without a block are reported as delayed allocation and not written. Returns 0, the value of `take` if not 0, or -1
 * with errno set: EOPNOTSUPP if the filesystem does not report extents. */
int filemap(int fd, int64_t size_bytes, filemap_take *take, void *context);

/* List by FIBMAP alone: slower, for regular files only, and without delayed or unwritten state. */
int filemap_by_fibmap(int fd, int64_t size_bytes, filemap_take *take, void *context);
