// Input and output of the linker of block events to requests. androstep_analysis/link/requests/linker.py mirrors it.
#pragma once

#include "core/table.h"

// Columns of table requests; test_native holds them against schemas/requests.json.
enum request_column {
    REQUEST_ID,
    REQUEST_DEV,
    REQUEST_PART_DEV,
    REQUEST_SECTOR,
    REQUEST_PART_SECTOR,
    REQUEST_NR_SECTORS,
    REQUEST_OP,
    REQUEST_SYNC,
    REQUEST_META,
    REQUEST_FUA,
    REQUEST_PREFLUSH,
    REQUEST_READAHEAD,
    REQUEST_PRIO,
    REQUEST_SWAP,
    REQUEST_RWBS,
    REQUEST_QUEUE_NS,
    REQUEST_INSERT_NS,
    REQUEST_ISSUE_NS,
    REQUEST_COMPLETE_NS,
    REQUEST_NR_BIOS,
    REQUEST_SUBMIT_TID,
    REQUEST_SUBMIT_PID,
    REQUEST_SUBMIT_COMM,
    REQUEST_CPU,
    REQUEST_ERROR,
    REQUEST_MATCHED,
    REQUEST_ISSUE_ERROR_NS, // null here
};

// Columns of table bios; test_native holds them against schemas/bios.json.
enum bio_column {
    BIO_REQUEST_ID,
    BIO_SECTOR,
    BIO_NR_SECTORS,
    BIO_QUEUE_NS,
    BIO_SUBMIT_NS,
    BIO_SUBMIT_TID,
    BIO_SUBMIT_PID,
    BIO_SUBMIT_COMM,
    BIO_STATED_TYPE,
    BIO_STATED_PATH,
};

// Operations and outcomes, in the order of the schema's values.
enum request_operation { OP_READ, OP_WRITE, OP_FLUSH, OP_DISCARD, OP_SECURE_ERASE, OP_ZONE, OP_OTHER, NR_OPERATIONS };
enum matched {
    MATCHED_FULL,
    MATCHED_NO_ISSUE,
    MATCHED_NO_COMPLETE,
    MATCHED_REQUEUED,
    MATCHED_SPLIT,
    MATCHED_INTERCHANGEABLE
};

// Facts about a device that hold for the whole trace.
enum {
    DEVICE_IS_STACKED = 1,  // the trace has its bios again on a device below, so that only its remaps count
    DEVICE_HAS_FLUSHES = 2, // flush requests are issued to it
    DEVICE_HAS_BIOS = 4,    // bios with sectors are queued to it
    DEVICE_HAS_ISSUES = 8,
    DEVICE_HAS_COMPLETIONS = 16,
    DEVICE_HAS_REQUEUES = 32,
    DEVICE_ROWS_NAME_SUBMITTERS = 64, // issues and completions name the submitter
};

// A string view of Arrow: contains up to 12 bytes, or the location of a longer string.
struct text_view {
    int32_t length;
    union {
        uint8_t bytes[12];
        struct {
            uint8_t prefix[4];
            int32_t buffer;
            int32_t offset;
        };
    };
};

// A column of strings. Its first row is at `offset` in `views` and in the bits of `present` (NULL: no string is null).
struct texts {
    const struct text_view *views;
    const uint8_t *const *buffers;
    const uint8_t *present;
    size_t offset;
};

// Columns of table block_events, in order of time. core/table.h has the values that represent null; a null `dev` is 0.
struct block_events {
    size_t rows;
    const int64_t *ts_ns;
    const int32_t *cpu;
    const int32_t *tid;
    const int32_t *pid;
    struct texts comm;
    const uint8_t *action;
    const uint32_t *dev;
    const int64_t *sector;
    const int64_t *nr_sectors;
    struct texts rwbs;
    const int32_t *error;
    const uint32_t *old_dev;
    const int64_t *old_sector;
    const uint8_t *block_type;
    struct texts path;
};

// Operation of an rwbs string, and a bit for each flag, in the order of the columns from REQUEST_SYNC on.
struct meaning {
    uint8_t op;
    uint8_t flags;
};

// Output tables, in the order of request_id except for requests that finish late. request_id is the index of the event
// that determines the position of the request: its last issue, or else the queueing of its first bio unless that bio is
// split, or else its completion.
struct linked {
    struct table *requests;
    struct table *bios;
};

struct linker;

// Create a linker. Both tables use `strings`; free the linker before it. Returns NULL if memory runs out.
API struct linker *linker_new(struct strings *strings);
API void linker_free(struct linker *linker);

// Prepare the linker. These functions return false if memory runs out.

// Declare a device with its DEVICE_... flags. Events of other devices are ignored.
API bool linker_device(struct linker *linker, uint32_t dev, uint32_t flags);

// Declare a device that begins at sector `start` of another one, if the trace has no remaps.
API bool linker_partition(struct linker *linker, uint32_t dev, uint32_t parent, int64_t start, int64_t nr_sectors);

// Declare the meaning of an rwbs string, before `strings` has any other string.
API bool linker_meaning(struct linker *linker, const uint8_t *rwbs, size_t length, uint8_t op, uint8_t flags);

// Link the events from row `from` on until all are read or a table is full. Returns the next row, or -1 if memory runs
// out. The linker keeps no reference to `events`.
API int64_t linker_link(struct linker *linker, const struct block_events *events, size_t from, struct linked *linked);

// After the last event, output the unfinished requests until a table is full. Returns 1 if there are more, 0 at the
// end, or -1 if memory runs out.
API int64_t linker_finish(struct linker *linker, struct linked *linked);
