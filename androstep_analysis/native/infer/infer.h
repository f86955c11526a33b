// Which block of which file a request moves, inferred from the events that a phone without root permits, in one pass in
// order of time. The rules are described in androstep_analysis/link/inferred.py, which mirrors these structures.
#pragma once

#include "core/table.h"

enum infer_kind {
    INFER_WRITE,      // a thread begins to write into the page cache; `block` is the byte where the write ends
    INFER_SYNC,       // a thread begins a fsync
    INFER_SYNCED,     // and ends it
    INFER_CACHED,     // pages come into the cache
    INFER_DROPPED,    // pages leave the cache
    INFER_MAPPED,     // blocks of the file lie at `block` of the device
    INFER_ALLOCATING, // a thread looks up blocks of the file that have no place yet
    INFER_LOOKED_UP,  // any other look-up
    INFER_GONE,       // the inode is deleted
    INFER_WRITES,     // a request to write is issued; `first` is its first block on the device
    INFER_READS,      // a request to read
};

enum infer_flags {
    FLAG_FLUSHER = 1,   // an unbound worker of the kernel: writeback
    FLAG_KBLOCKD = 2,   // a bound one, which issues what others plugged
    FLAG_KERNEL = 4,    // any thread of the kernel
    FLAG_SYNC = 8,      // the request has REQ_SYNC
    FLAG_REWRITES = 16, // the filesystem writes a block where it was before, if it has a place
    FLAG_INLINE = 32,   // the filesystem keeps small files in their inode
    FLAG_WRITTEN = 64,  // what is mapped holds data
};

enum infer_rule {
    RULE_NONE,
    RULE_SYNC,       // dirty pages of the inode that the issuing thread is in a fsync of
    RULE_SYNC_OTHER, // the same, issued by a worker of kblockd
    RULE_NODE,       // what such a thread issues when no dirty page is left
    RULE_PLACE,      // the page that the block held before
    RULE_ALLOCATED,  // the page that writeback has just looked up
    RULE_WRITEBACK,  // dirty pages, in the order in which their inodes became dirty
    RULE_SELF,       // dirty pages of the file that the issuing thread wrote last
    RULE_DIRECT,     // no dirty page: direct I/O of the file that the thread touched last
    RULE_LATER,      // a later event says which page the block holds
    RULE_READ,       // pages that the issuing thread put into the cache
    RULE_READ_PLACE, // and that lie where an event said
};

// Events and issues of requests in order of time; blocks are those of the filesystem on `dev`.
struct infer_events {
    size_t rows;
    const uint32_t *dev;
    const int64_t *ino;
    const int32_t *tid;
    const int64_t *first; // block of the file, or of the device
    const int64_t *count;
    const int64_t *block;
    const uint8_t *kind;
    const uint8_t *flags;
};

// What is inferred of one block of a request; `event` and `author` are rows of the events.
struct inference {
    int64_t event;
    int64_t block; // of the device
    int64_t ino;   // NO_INT64: none
    int64_t file_block;
    int64_t author; // who wrote the page, or is in the fsync; NO_INT64: unknown
    int64_t rule;
};

struct infer;

// NULL where memory is short.
API struct infer *infer_run(const struct infer_events *events);
API const struct inference *infer_result(const struct infer *infer, size_t *rows);
API void infer_free(struct infer *infer);
