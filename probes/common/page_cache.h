/* The page cache: bringing a file into a state and finding out whether it is in it. */
#ifndef ANDROSTEP_COMMON_PAGE_CACHE_H
#define ANDROSTEP_COMMON_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

enum cache_state { CACHE_UNKNOWN, CACHE_COLD, CACHE_WARM };
extern const char *const cache_states[3];

struct cache_found {
    enum cache_state state;        /* all files cold, all warm, else unknown */
    int64_t resident_bytes, bytes; /* of all files; resident -1: the kernel does not tell */
    const char *by;                /* cachestat, mincore, or none */
    bool dropped;                  /* drop_caches was written (as root) */
};

/*
 * Writes all dirty pages and drops all clean ones of the whole system, where this program may (as root); else
 * cache_evict drops file by file. Never reports a state: that is cache_look's.
 */
void cache_drop_all(struct cache_found *found);

/* fsync and POSIX_FADV_DONTNEED; for a block device also BLKFLSBUF. Returns 0 or -1 with errno. */
int cache_evict(int file);

/* Reads the file once. Returns 0 or -1 with errno. */
int cache_fill(int file, int64_t bytes);

/* Adds what is resident of the first `bytes` of the file, by mincore(2), or by cachestat(2) (Linux 6.5) where that does
 * not tell. */
void cache_look(int file, int64_t bytes, struct cache_found *found);

/* Sets state from the sums: cold: nothing resident; warm: everything. */
void cache_conclude(struct cache_found *found);

#endif
