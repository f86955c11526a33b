// Find the events that only repeat others: most events of a busy filesystem. `without_repetitions` in
// fs/tracepoints.py states the rules.
#pragma once

#include "core/table.h"

// EVENT_OTHER, EVENT_PATH (not an open) and EVENT_OPEN separate the repetitions of the events about pages and the
// look-ups of a file, and so do handles.
enum repetition_kind { EVENT_OTHER, EVENT_PAGE, EVENT_LOOKUP, EVENT_HANDLE, EVENT_PATH, EVENT_OPEN };

// A batch of table fs_events; core/table.h defines the values that mean null.
struct repeating_events {
    size_t rows;
    const uint8_t *kind;
    const uint8_t *event;
    const uint32_t *dev;
    const int64_t *ino;
    const int32_t *tid;
    const int32_t *pid;
    const uint32_t *comm; // indices of strings
    const uint32_t *name;
    const uint32_t *status;
    const int32_t *page_order;
    const int64_t *file_block;
    const int64_t *block;
    const int64_t *nr_blocks;
    const int64_t *transaction;
    const uint8_t *states_block; // the event states the location of file blocks
};

// Set `is_kept` of each row that does not repeat another one. Returns false if memory runs out.
API bool repetitions_find(const struct repeating_events *events, uint8_t *is_kept);
