/* The extents of one open file, from FIEMAP, or from FIBMAP where the filesystem has no FIEMAP (FAT, exFAT). */
#ifndef ANDROSTEP_EXTMAP_FILEMAP_H
#define ANDROSTEP_EXTMAP_FILEMAP_H

#include <stdint.h>

/* Set beside FIEMAP_EXTENT_*: the extent comes from FIBMAP, which does not tell what state it is in. */
#define FILEMAP_BY_FIBMAP 0x80000000U

struct filemap_extent {
    int64_t file_offset_bytes, physical_bytes, nr_bytes;
    uint32_t flags; /* FIEMAP_EXTENT_* */
};

/* Gets one extent; returns 0, or anything else to stop. */
typedef int filemap_take(void *context, const struct filemap_extent *extent);

/*
 * Calls `take` for every extent of the regular file or directory `fd` of `size_bytes`, in the order of the file. What
 * is dirty in memory and has no block yet is told as such, not written. Returns 0, what `take` returned if not 0, or
 * -1 with errno set: EOPNOTSUPP where the filesystem does not tell.
 */
int filemap(int fd, int64_t size_bytes, filemap_take *take, void *context);

/* The same by FIBMAP alone: slower, for regular files only, and without what is dirty or unwritten. */
int filemap_by_fibmap(int fd, int64_t size_bytes, filemap_take *take, void *context);

#endif
