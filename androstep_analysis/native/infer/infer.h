// Infers the file block of each request from events available without root, in one pass ordered by time. The rules are
// described in androstep_analysis/link/inferred.py, which mirrors these structures.
#pragma once

#include "core/table.h"

enum infer_kind {
    INFER_WRITE,      // a thread begins to write into the page cache; `block` is the end of the write in bytes
    INFER_SYNC,       // a thread begins a fsync
    INFER_SYNCED,     // and ends it
    INFER_CACHED,     // pages are added to the cache
    INFER_DROPPED,    // pages leave the cache
    INFER_MAPPED,     // blocks of the file are at `block` of the device
    INFER_ALLOCATING, // a thread looks up blocks of the file without a location
    INFER_LOOKED_UP,  // any other lookup
    INFER_GONE,       // the inode is deleted
    INFER_WRITES,     // a write request is issued; `first` is its first block on the device
    INFER_READS,      // a read request is issued
};

enum infer_flags {
    FLAG_FLUSHER = 1,  // an unbound kernel worker: writeback
    FLAG_KBLOCKD = 2,  // a bound worker, which issues plugged requests of other threads
    FLAG_KERNEL = 4,   // any kernel thread
    FLAG_SYNC = 8,     // the request has REQ_SYNC
    FLAG_F2FS = 16,    // the filesystem is F2FS; others rewrite allocated blocks in place
    FLAG_WRITTEN = 32, // the mapped blocks contain data
};

// `RULES` of inferred.py, in their order.
enum infer_rule {
    RULE_NONE,
    RULE_PLACE,
    RULE_CONVERTED,
    RULE_ALLOCATED,
    RULE_SYNC,
    RULE_SYNC_OTHER,
    RULE_NODE,
    RULE_WRITEBACK,
    RULE_WRITEBACK_DURING_SYNC,
    RULE_WRITEBACK_UNORDERED,
    RULE_WRITEBACK_MISFIT,
    RULE_SELF,
    RULE_DIRECT,
    RULE_READ,
    RULE_READ_PLACE,
    RULE_LATER,
};

// Events and issued requests ordered by time; blocks are those of the filesystem on `dev`.
struct infer_events {
    size_t rows;
    const int64_t *ts;
    const int64_t *ino;
    const int64_t *first; // block of the file or of the device
    const int64_t *count;
    const int64_t *block;
    const uint32_t *dev;
    const int32_t *tid;
    const uint8_t *kind;
    const uint8_t *flags;
};

// Inferred contents of one block of a request; `event` and `author` are rows of the events.
struct inference {
    int64_t event;
    int64_t block; // of the device
    int64_t ino;   // NO_INT64: none
    int64_t file_block;
    int64_t author; // event that wrote the page or began the fsync; NO_INT64: unknown
    int64_t rule;
};

struct infer;

// Run the pass. Returns NULL if memory runs out.
API struct infer *infer_run(const struct infer_events *events);
API const struct inference *infer_result(const struct infer *infer, size_t *rows);
API void infer_free(struct infer *infer);
