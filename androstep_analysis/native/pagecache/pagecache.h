// Find the processes that modified the data of each written block, in one pass over page events and writebacks by time.
//
// A dirty interval of a block runs from one writeback of the block to the next. This pass states what the events of
// each interval show; link/owner/rules.py decides whether that is a fact. link/owner/dirty_intervals.py mirrors the
// structures. Functions that return bool return false if memory runs out.
#pragma once

#include "core/table.h"

// EVENT_WRITE is about bytes of a file, the others are about its pages. EVENT_NEW_LIFETIME: the inode has no pages.
enum event_kind {
    EVENT_WRITE,
    EVENT_STORE,
    EVENT_DIRTY,
    EVENT_ADDED,
    EVENT_REMOVED,
    EVENT_INVALIDATED,
    EVENT_NEW_LIFETIME
};

// Events by time; core/table.h defines the values that mean null.
struct page_events {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int32_t *tid;
    const int32_t *pid;
    const uint32_t *comm; // index of the name
    const int64_t *page;
    const int32_t *page_order;
    const int64_t *offset_bytes; // in the file; of EVENT_INVALIDATED, in the folio; of EVENT_STORE, the address
    const int64_t *nr_bytes;
    const uint8_t *kind;
};

// Bytes of files that are written back, or read with direct I/O, by time.
struct writebacks {
    size_t rows;
    const int64_t *ts_ns;
    const int64_t *piece; // identifies the intervals that end here
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *begin;
    const int64_t *end;
    const int32_t *tid; // the submitter
    const uint8_t *is_read;
};

enum device_flags {
    RECORDS_DIRTY = 1,        // the trace records when pages become dirty
    HAS_LARGE_FOLIOS = 2,     // a folio may have several pages
    DIRTIES_BEFORE_STORE = 4, // a store is recorded after the page has become dirty by it
};

// The kind of event that names the modifier.
enum via { VIA_NOTHING, VIA_WRITE, VIA_DIRTY };

// A dirty interval of a block, or for is_read the state of a block that is read. NO_INT64 means null.
struct dirty_interval {
    int64_t piece;
    int64_t file_block;
    int64_t modified_ns;    // the last modification
    int64_t seen_clean_ns;  // the block was clean then: all later modifiers are known
    int64_t doubt_begin_ns; // a writeback between these times may have carried the first modifications
    int64_t doubt_end_ns;
    int64_t touched_ns;    // the last event of the block, or of its folio
    int64_t absent_ns;     // when the block was last added to the cache or dropped
    uint32_t modifier;     // thread of the last modification, or NO_UINT32
    uint32_t modifiers;    // equal sets of processes have equal identifiers
    int32_t count;         // number of processes with a recorded write or store
    int32_t file_dirtiers; // number of processes that have dirtied a page of the file so far
    uint8_t is_read;
    uint8_t via;
    uint8_t is_in_folio;          // the block was added to the cache in a folio of several pages; NO_CODE: unknown
    uint8_t is_first;             // the first interval of the block
    uint8_t is_new_inode;         // the inode's lifetime began in the recording: no page is older
    uint8_t is_clean;             // no event since the block was added to the cache or dropped
    uint8_t is_write_recorded;    // a write or store is recorded
    uint8_t is_complete;          // if all events are recorded, `count` is the number of all modifiers
    uint8_t has_several_dirtiers; // several processes dirtied the page, and no write or store is recorded
    uint8_t is_within_write;      // the dirtier may have been within a write to another page of the file
    uint8_t is_dirtied_by_other;  // another process dirtied the page after the last write or store
    uint8_t was_redirtied;        // the page was dirtied again while the previous writeback was in flight
    uint8_t is_redirtied;         // the same may hold for this writeback, with modifications of different processes
    uint8_t padding[3];
};

// A thread as events name it.
struct thread {
    int64_t ts_ns;   // of the first event
    int64_t process; // NO_INT64: unknown
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    uint32_t is_kernel; // a kernel thread, which moves data of others
};

struct pagecache;

// `page_bytes` is 0 if the page size is unknown. Returns NULL if memory runs out.
API struct pagecache *pagecache_new(int64_t page_bytes);
API void pagecache_free(struct pagecache *cache);

// Files of a device that is not added are written back in sectors of 512 bytes.
API bool pagecache_add_device(struct pagecache *cache, uint32_t dev, int64_t block_bytes, uint32_t flags);

// Register the threads of the events and return the number of known threads, or SIZE_MAX if memory runs out. The caller
// sets is_kernel of the new threads before it passes the events to pagecache_process.
API size_t pagecache_register_threads(struct pagecache *cache, const struct page_events *events);
API struct thread *pagecache_threads(struct pagecache *cache);

// Process events and writebacks that follow the previous ones. An event at the same time as a writeback comes first.
API bool pagecache_process(struct pagecache *cache, const struct page_events *events,
                           const struct writebacks *writebacks);

// Evaluate all pending intervals at the end of the recording.
API bool pagecache_finish(struct pagecache *cache);

// Remove and return the evaluated intervals. They are valid until the next call.
API const struct dirty_interval *pagecache_intervals(struct pagecache *cache, size_t *rows);
