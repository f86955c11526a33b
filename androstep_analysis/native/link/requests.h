// Block events to requests: what goes in and what comes out (androstep_analysis/link/requests/linker.py mirrors it).
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
enum matched { MATCHED_FULL, MATCHED_NO_ISSUE, MATCHED_NO_COMPLETE, MATCHED_REQUEUED, MATCHED_SPLIT };

// What the whole trace tells of a device.
enum {
    DEVICE_IS_STACKED = 1,  // its bios are shown again on a device below: only its remaps count
    DEVICE_HAS_FLUSHES = 2, // flush requests are issued to it
    DEVICE_HAS_BIOS = 4,    // bios with sectors are queued to it
    DEVICE_HAS_ISSUES = 8,
    DEVICE_HAS_COMPLETIONS = 16,
    DEVICE_HAS_REQUEUES = 32,
    DEVICE_ROWS_NAME_SUBMITTERS = 64, // its requests are rows of a list, which name who asked for them
};

// A string of Arrow's string view: up to 12 bytes stand in it, of longer ones where they are.
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

// A column of strings. Its first row is `offset` in `views`, and in the bits of `present`, which is NULL where all rows
// have a string.
struct texts {
    const struct text_view *views;
    const uint8_t *const *buffers;
    const uint8_t *present;
    size_t offset;
};

// Columns of table block_events, a row for each event in order of time; see core/table.h for what holds no value, but
// `dev` is 0 there.
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

// One distinct rwbs string: its operation, and its flags by bit, in the order of the columns from REQUEST_SYNC on.
struct meaning {
    uint8_t op;
    uint8_t flags;
};

// What comes out, in the order of request_id but for what is finished late: the number of the event that tells a
// request's place in the order. That is its last issue, else the queueing of its first bio if that is no other
// request's, else its completion.
struct linked {
    struct table *requests;
    struct table *bios;
};

struct linker;

// A linker, to be freed with linker_free before `strings`, of which are those of both tables; NULL where memory is
// short.
API struct linker *linker_new(struct strings *strings);
API void linker_free(struct linker *linker);

// Before the first event. Each returns false where memory is short.
// What the whole trace says of a device: DEVICE_... flags. Events of other devices are left out.
API bool linker_device(struct linker *linker, uint32_t dev, uint32_t flags);

// A device that begins at sector `start` of another one, for traces that do not remap.
API bool linker_partition(struct linker *linker, uint32_t dev, uint32_t parent, int64_t start, int64_t nr_sectors);

// What an rwbs string means. No other strings may be there yet.
API bool linker_meaning(struct linker *linker, const uint8_t *rwbs, size_t length, uint8_t op, uint8_t flags);

// Links events from row `from` on until there are no more or the tables are full, and tells how far it came; -1 where
// memory is short. Nothing of `events` is kept.
API int64_t linker_link(struct linker *linker, const struct block_events *events, size_t from, struct linked *linked);

// After the last event: puts out what never came to an end, until the tables are full. 1: there is more; 0: that was
// all; -1: memory is short.
API int64_t linker_finish(struct linker *linker, struct linked *linked);
