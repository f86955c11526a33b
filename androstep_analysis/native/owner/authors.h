// Who made what a block of a file holds when it is written out: what goes in and what comes out. The rules stand in
// androstep_analysis/link/owner/authorship.py, which also mirrors these structures.
#pragma once

#include "core/table.h"

// What an event says of a block. Those before TOUCH_ABSENT may have changed it.
enum touch_kind { TOUCH_WRITE, TOUCH_STORE, TOUCH_DIRTY, TOUCH_MAYBE, TOUCH_ABSENT };

// What a turn's author is told by.
enum via { VIA_NOTHING, VIA_WRITE, VIA_DIRTY };

// A row for each block that an event is about, in order of time; see core/table.h for what holds no value. A life ends
// where an inode's pages are dropped.
struct touches {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *life;
    const int64_t *file_block;
    const int32_t *tid;
    const int64_t *process; // which no two processes have in common
    const uint8_t *kind;
    const uint8_t *is_begun;    // the page may become dirty by it later
    const uint8_t *is_mover;    // a thread of the kernel, which changes nothing by itself
    const uint8_t *is_in_folio; // its page came as one of several; NO_CODE where that is not told
};

// A row for each block that is written out, in order of time.
struct outs {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *life;
    const int64_t *file_block;
    const int32_t *tid; // that submits it
};

// For each row of struct outs what happened in the turn that it ends.
struct turns {
    int64_t *author;        // row of struct touches, or NO_INT64
    int64_t *seen_clean_ns; // since when all writers are known
    int64_t *wrote_ns;      // when the first one wrote that may have been written out before, and
    int64_t *edge_ns;       // until when it may have been; NO_INT64 where there is none
    int32_t *count;         // processes that wrote
    int32_t *changers;      // processes that made a page of the file dirty, ever
    uint32_t *who;          // equal sets of processes have equal numbers
    uint8_t *via;
    uint8_t *is_in_folio;
    uint8_t *is_first;   // of its block
    uint8_t *is_clean;   // nothing touched the page since it came into the cache
    uint8_t *by_maker;   // a write or store is told
    uint8_t *is_exact;   // the processes that wrote are all there were, where every event is told
    uint8_t *is_others;  // several processes made it dirty, and no write is told
    uint8_t *is_cluster; // who made it dirty may have been in a write to another page of the file
    uint8_t *is_torn;    // another process made it dirty after the last write
};

// Decides all turns. False where memory is short.
API bool authors_decide(const struct touches *touches, const struct outs *outs, struct turns *turns);
