/* Bringing a file into a cache state, and checking that it is in this state. */
#pragma once

#include "common/base.h"

enum cache_state { CACHE_UNKNOWN, CACHE_COLD, CACHE_WARM };
extern const char *const cache_states[3];

struct cache_found {
    enum cache_state state;        /* all files cold, all files warm, or else unknown */
    int64_t resident_bytes, bytes; /* sums of all files; resident -1: not reported by the kernel */
    const char *by;                /* cachestat, mincore or none */
    bool dropped;                  /* drop_caches was written (needs root) */
};

/* Write all dirty pages and drop all clean ones of the whole system, if permitted (as root). Otherwise cache_evict has
 * to drop each file. Only cache_look determines the state. */
void cache_drop_all(struct cache_found *found);

/* Evict a file by fsync and POSIX_FADV_DONTNEED; for a block device also by BLKFLSBUF. Asks again for pages that are
 * still resident. Returns 0, or -1 with errno set. */
int cache_evict(int file);

/* Read the file once. Returns 0, or -1 with errno set. */
int cache_fill(int file, int64_t bytes);

/* Add the resident bytes among the first `bytes` of the file: by mincore(2), or by cachestat(2) (Linux 6.5) if
 * mincore(2) cannot be trusted. */
void cache_look(int file, int64_t bytes, struct cache_found *found);

/* Set the state from the sums. Cold: nothing is resident; warm: everything is. */
void cache_conclude(struct cache_found *found);
