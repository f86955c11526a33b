// What the files of the linker share. The rules have names, and androstep_analysis/link/requests/__init__.py lists them
// with the evidence for each. A comment "Rule name" stands where a rule is applied.
//
//   linker.c     the pass over the events
//   bios.c       bios that wait for a request
//   segments.c   the sectors of a request and their bios
//   insert.c, issue.c, requeue.c, complete.c   one event each
//   in_flight.c  requests by sector
//   remaps.c     devices above: remaps and partitions
//   upper.c      bios queued on the devices above
//   output.c     finished requests as rows, in the order of issue
#pragma once

#include "core/map.h"
#include "core/pool.h"
#include "core/spans.h"
#include "link/requests.h"

// How requests in flight are indexed, with device and sector, and where sectors move also operation.
enum {
    KIND_FLUSH,
    KIND_EMPTY,     // moves no sectors and is no flush
    KIND_SECTORS,   // by first sector
    KIND_REMAINDER, // partly completed, by the first sector that is not complete
    KIND_REISSUED,  // completed after several issues that no event explains, by first sector
    KIND_APPEND,    // rule zone_append, by length
};

// Rule waiting_limit.
enum { MAX_WAITING = 8 };

// How many requests in flight at one sector are examined. There are more only if completions were lost.
enum { MAX_IN_FLIGHT = 1024 };

// A finished request is output this many events after the one that determines its position (request_position). Requests
// that finish earlier are thereby sorted.
enum { OUTPUT_DELAY = 1 << 10 };

#define NO_EVENT UINT64_MAX

// What is retained of an event.
struct stamp {
    uint64_t index; // in order of time
    int64_t ts_ns;
    int64_t row; // of a list of requests, which all events of the request have; NO_INT64 for other formats
    int32_t cpu;
    uint32_t rwbs;
    uint32_t path;
    uint8_t block_type;
};

// The topmost device of a sector.
struct origin {
    uint32_t dev;
    int64_t offset; // sector on the device below where that device begins
};

// Who queued a bio, and when; `submit_ns` is the time on the topmost device.
struct submission {
    struct stamp stamp;
    int64_t submit_ns;
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    struct origin origin;
};

static const struct submission no_submission = {
    .stamp.index = NO_EVENT, .stamp.row = NO_INT64, .tid = NO_INT32, .pid = NO_INT32, .comm = NO_STRING};

struct device {
    struct device *next;
    uint32_t dev;
    uint32_t flags;
    struct spans waiting[NR_OPERATIONS][MAX_WAITING]; // struct bio; the first layer has the latest bios
    struct spans inserts[NR_OPERATIONS];              // times
    struct spans upper[NR_OPERATIONS];                // struct upper_bio, if the device is stacked
};

// A bio that was queued on a stacked device and not yet on the device below.
struct upper_bio {
    struct submission queued;
    int64_t waiting;   // sectors
    bool is_ambiguous; // bios of several threads waited at its sectors
};

struct bio {
    struct submission queued;
    struct device *device;
    int64_t sector;
    int64_t nr_sectors;
    int64_t waiting;       // sectors that no request and no later bio has taken
    size_t segments;       // of requests that are not output yet
    size_t requests;       // that took sectors of it; exact up to 2
    struct request *first; // while it is the only one
    uint64_t last_request; // id of the one that took sectors last
    uint64_t counted;      // the last count of bios that included it
};

struct segment {
    struct segment *next;
    struct bio *bio; // NULL: no bio was recorded
    int64_t sector;
    int64_t nr_sectors;
};

// A completion of a part of a request, or an earlier issue of it.
struct past_event {
    struct past_event *next;
    struct stamp stamp;
    int64_t sector;
    int64_t nr_sectors;
    int32_t error;
};

struct request {
    uint64_t id;
    struct request *next;           // in flight at the same sector, issued before; or next in the output
    struct request *next_at_sector; // of KIND_REMAINDER or KIND_REISSUED
    struct request *next_append;    // of KIND_APPEND, issued before
    struct request *last_append;    // of KIND_APPEND, issued after
    struct past_event *completions; // of its parts, while it is incomplete
    struct past_event *issues;      // earlier ones that may be of another request
    struct device *device;
    struct stamp issue;    // the last one
    struct stamp complete; // the last one
    struct submission first;
    struct segment *segments;
    struct segment *last_segment;
    int64_t row; // as in struct stamp
    int64_t sector;
    int64_t nr_sectors;
    int64_t done;  // completed sectors
    int64_t moved; // sectors from the issue to the location that the completion states (rule zone_append)
    int64_t insert_ns;
    struct origin origin; // if no bio was recorded
    size_t nr_bios;
    size_t holds; // reasons to delay the output: bios whose only request it is and that wait, and KIND_REISSUED
    int32_t error;
    uint8_t op;
    uint8_t kind;
    uint8_t bio_flags;
    uint8_t resizes;
    bool is_latest;      // no request was opened or closed at its sector since its last issue
    bool awaits_reissue; // requeued since its last issue
    bool was_requeued;
    bool is_interchangeable; // rule identical_requests
    bool is_split;
    bool is_closed;
};

struct remap {
    uint32_t dev;
    uint32_t old_dev;
    int64_t sector;
    int64_t old_sector;
};

struct partition {
    uint32_t dev;
    uint32_t parent;
    int64_t start_sector;
    int64_t nr_sectors;
};

struct linker {
    bool is_out_of_memory;
    struct strings *strings;
    uint64_t events;
    uint64_t requests;
    uint64_t counts;
    struct device *devices;
    struct device *last_device; // last result of the lookup
    struct map device_of;       // by number
    struct map in_flight;       // struct request, by index_space and sector, the last one issued first
    struct map remap_of;        // index in `remaps` plus one, by device and sector
    struct remap *remaps;       // a ring
    size_t nr_remaps, remap_capacity, next_remap;
    struct partition *partitions;
    size_t nr_partitions, partition_capacity;
    struct meaning *meanings; // by rwbs
    size_t nr_meanings, meaning_capacity;
    struct pool request_pool, bio_pool, upper_pool, segment_pool, past_pool;
    struct request *finished[OUTPUT_DELAY]; // by request_position: finished, waiting for earlier ones
    struct request *output, *last_output;
};

// One event.
struct event {
    struct stamp stamp;
    struct device *device;
    struct meaning meaning;
    int64_t sector;
    int64_t nr_sectors; // 0 if the range is invalid
    uint32_t comm;      // of the submitter, if the event is its own
    int32_t tid;
    int32_t pid;
    int32_t error;
    uint8_t kind;
    bool lacks_length;  // rule unsized_completion
    bool ends_sequence; // rule flush_sequence
};

// Rule zone_append. Commands to zones other than appends move no sectors.
static inline bool is_append(const struct event *event)
{
    return event->meaning.op == OP_ZONE && event->kind == KIND_SECTORS;
}

// Rule same_row. Return whether events of two rows are of different requests.
static inline bool are_other_rows(int64_t row, int64_t other)
{
    return row != NO_INT64 && other != NO_INT64 && row != other;
}

static inline struct meaning meaning_of(const struct linker *linker, uint32_t rwbs)
{
    return rwbs < linker->nr_meanings ? linker->meanings[rwbs] : (struct meaning){OP_OTHER, 0};
}

// Add and subtract with saturation.
static inline int64_t sum(int64_t left, int64_t right)
{
    int64_t result;

    if (!__builtin_add_overflow(left, right, &result))
        return result;
    return left < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t difference(int64_t left, int64_t right)
{
    int64_t result;

    if (!__builtin_sub_overflow(left, right, &result))
        return result;
    return left < 0 ? INT64_MIN : INT64_MAX;
}

// --- bios.c ----------------------------------------------------------------------------------------------------------

void bio_queue(struct linker *linker, const struct event *event);

// Return the last bio queued for the sector that still waits there, or NULL.
const struct bio *bio_at(const struct device *device, uint8_t op, int64_t sector);

// Choose the bio that a request takes from sector `at` on (rules bio_choice and same_row). Returns its layer, or NULL,
// and sets the end of the range to which the choice applies.
struct spans *bio_choose(struct spans *layers, int64_t at, const struct bio *before, int32_t tid, int64_t row,
                         int64_t *end);

// Make a request without issue of a bio that no request took.
void bio_strand(struct linker *linker, struct bio *bio);

// So many sectors of the bio no longer wait. If no other sectors wait, no further request can take any of it.
void bio_reduce_waiting(struct linker *linker, struct bio *bio, int64_t nr_sectors);

// After the last event.
void bios_close(struct linker *linker);

// --- segments.c ------------------------------------------------------------------------------------------------------

// Append a segment to the request. A bio of NULL is one that was not recorded.
bool segment_add(struct linker *linker, struct request *request, int64_t start, int64_t end, struct bio *bio);
void segment_free(struct linker *linker, struct segment *segment);

// Count the bio as one of the request.
void request_add_bio(const struct linker *linker, struct request *request, const struct bio *bio);

// Take the bios that wait for the sectors of the request.
void request_take_bios(struct linker *linker, struct request *request, int32_t tid);

// Change the length of a request: take bios of added sectors, return those of removed sectors.
void request_resize(struct linker *linker, struct request *request, int64_t nr_sectors, int32_t tid);

// --- insert.c, issue.c, requeue.c, complete.c ------------------------------------------------------------------------

void on_insert(struct linker *linker, const struct event *event);
void on_issue(struct linker *linker, const struct event *event);
void on_requeue(struct linker *linker, const struct event *event);
void on_complete(struct linker *linker, struct event *event);

// Return the time of the first insert that led to the request, or NO_INT64.
int64_t request_insert_ns(const struct request *request);

// Forget the inserts that led to the request.
void inserts_forget(struct linker *linker, const struct request *request);

// Set the submitter of a request without bio, where events name it.
void request_take_submitter(struct linker *linker, struct request *request, const struct event *event);

// --- in_flight.c -----------------------------------------------------------------------------------------------------

// Return the requests in flight at the event's sector, the last one issued first.
struct request *in_flight_at(const struct linker *linker, const struct event *event);
void in_flight_add(struct linker *linker, const struct event *event, struct request *request);
void in_flight_remove(struct linker *linker, const struct event *event, struct request *request);

// The same for requests of KIND_REMAINDER.
struct request *remainders_at(const struct linker *linker, const struct event *event);
void remainder_add(struct linker *linker, const struct event *event, struct request *request);
void remainder_remove(struct linker *linker, const struct event *event, struct request *request);

// Return the request whose remainder has exactly the sectors of the event, or NULL.
struct request *remainder_of(const struct linker *linker, const struct event *event, bool awaits_reissue);

// Rule zone_append. Return the append that the completion of an append is about if none begins at its sector, or NULL.
struct request *append_of(const struct linker *linker, const struct event *event);

// Return the request in flight that an issue or a requeue is about, if it is about one: of those that await a reissue,
// or of those with the driver.
struct request *in_flight_like(const struct linker *linker, const struct event *event, bool awaits_reissue);

// The same for requests of KIND_REISSUED. `reissued_take` makes a request of its own of one of the issues.
void reissued_add(struct linker *linker, const struct event *event, struct request *request);
void reissued_forget(struct linker *linker, const struct event *event);
struct request *reissued_take(struct linker *linker, const struct event *event);

void past_add(struct linker *linker, struct past_event **events, struct past_event event);
void past_forget(struct linker *linker, struct past_event **events);

// After the last event.
void in_flight_close(struct linker *linker);

// --- remaps.c --------------------------------------------------------------------------------------------------------

void remap_add(struct linker *linker, struct remap remap);

// Return the topmost device of a sector, according to the last remaps.
struct origin origin_of(const struct linker *linker, uint32_t dev, int64_t sector);

// Return the partition that contains the sector, or the device itself.
struct origin origin_in_partition(const struct linker *linker, struct origin origin, int64_t sector);
struct submission submission_of(const struct linker *linker, const struct event *event);

// --- upper.c ---------------------------------------------------------------------------------------------------------

void upper_queue(struct linker *linker, const struct event *event);

// Set the submitter of a bio to that of the same bio on the device above.
void upper_take(struct linker *linker, const struct event *event, struct submission *submission);

// --- output.c --------------------------------------------------------------------------------------------------------

struct request *request_new(struct linker *linker, struct device *device, uint8_t op);

// Remove one of the holds. Output the request if that was the last.
void request_release(struct linker *linker, struct request *request);

// No further event concerns the request itself.
void request_close(struct linker *linker, struct request *request);

// Output the finished requests whose delay ends at event `index`.
void output_due(struct linker *linker, uint64_t index);

// Write rows until nothing is left (true) or a table is full (false).
bool output_rows(struct linker *linker, struct linked *linked);
