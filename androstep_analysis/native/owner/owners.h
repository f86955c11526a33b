// Who made what a block of a file holds when it is written out, in one pass over the events in order of time. The rules
// stand in androstep_analysis/link/owner/authorship.py; link/owner/turns.py mirrors these structures.
#pragma once

#include "core/table.h"

// What an event is about: bytes of a file that are written to, or pages of it. EVENT_BEGINS: the inode has no pages.
enum event_kind { EVENT_WRITE, EVENT_STORE, EVENT_DIRTY, EVENT_CACHED, EVENT_UNCACHED, EVENT_CUT, EVENT_BEGINS };

// Events in order of time; see core/table.h for what holds no value.
struct page_events {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int32_t *tid;
    const int32_t *pid;
    const uint32_t *comm; // number of the name
    const int64_t *page;
    const int32_t *page_order;
    const int64_t *offset_bytes; // in the file, or of EVENT_CUT in the page
    const int64_t *nr_bytes;
    const uint8_t *kind;
};

// Bytes of a file that are written out, or read, in order of time.
struct outs {
    size_t rows;
    const int64_t *ts_ns;
    const int64_t *piece; // by which its turns are told
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *begin;
    const int64_t *end;
    const int32_t *tid; // that submits them
    const uint8_t *is_read;
};

// What is known of a device: in what units its files are written out, and what the trace tells of it.
enum device_flags {
    TELLS_DIRTY = 1,  // when pages become dirty
    HAS_FOLIOS = 2,   // the cache may hold several pages as one
    STORES_DIRTY = 4, // a store is told when the page is dirty by it
};

// What a turn's author is told by.
enum via { VIA_NOTHING, VIA_WRITE, VIA_DIRTY };

// What happened in one turn of a block: from one writing out to the next. NO_INT64 is what there is not.
struct turn {
    int64_t piece;
    int64_t file_block;
    int64_t author_ns;
    int64_t seen_clean_ns; // since when all writers are known
    int64_t wrote_ns;      // when the first one wrote that may have been written out before, and
    int64_t edge_ns;       // until when it may have been
    int64_t touched_ns;    // when the block was last changed, and
    int64_t absent_ns;     // last absent from the cache
    uint32_t author;       // number of the thread, or NO_UINT32
    uint32_t who;          // equal sets of processes have equal numbers
    int32_t count;         // processes that wrote
    int32_t changers;      // processes that have made a page of the file dirty so far
    uint8_t is_read;       // nothing is written out: only when it was touched is told
    uint8_t via;
    uint8_t is_in_folio; // its page came as one of several; NO_CODE where that is not told
    uint8_t is_first;    // of its block
    uint8_t is_reborn;   // of a life whose begin is told: no page is older
    uint8_t is_clean;    // nothing touched the page since it came into the cache
    uint8_t by_maker;    // a write or store is told
    uint8_t is_exact;    // the processes that wrote are all there were, where every event is told
    uint8_t is_others;   // several processes made it dirty, and no write is told
    uint8_t is_cluster;  // who made it dirty may have been in a write to another page of the file
    uint8_t is_torn;     // another process made it dirty after the last write
    uint8_t was_ahead;   // the page was dirty again when it was written out before
    uint8_t is_ahead;    // and so it may be now, with what other processes than before changed
    uint8_t unused[3];
};

// A thread as an event names it.
struct thread {
    int64_t ts_ns;   // of the first event
    int64_t process; // NO_INT64 where neither is known
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    uint32_t is_mover; // a thread of the kernel, which changes nothing by itself
};

struct owners;

// `page_bytes` is 0 where it is not known.
API struct owners *owners_new(int64_t page_bytes);
API void owners_free(struct owners *owners);

// What is known of a device. Others are written out by single sectors. False where memory is short.
API bool owners_device(struct owners *owners, uint32_t dev, int64_t block_bytes, uint32_t flags);

// Takes in the threads of the events, and returns how many are known; SIZE_MAX where memory is short. Of the new ones
// is_mover is to be told before the events follow.
API size_t owners_meet(struct owners *owners, const struct page_events *events);
API struct thread *owners_threads(struct owners *owners);

// Events and outs that follow what came before. What touches a block in the very instant in which it is written out
// counts as having done so before. False where memory is short.
API bool owners_follow(struct owners *owners, const struct page_events *events, const struct outs *outs);

// Nothing follows: all turns are decided. False where memory is short.
API bool owners_finish(struct owners *owners);

// The turns that are decided, and forgets them; they stand until the next call.
API const struct turn *owners_turns(struct owners *owners, size_t *rows);
