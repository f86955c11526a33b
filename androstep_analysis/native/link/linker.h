// The linker of requests: what its parts share.
//
// origins.c knows where places lie on the topmost device, bios.c of which bios a request is made,
// above.c who queued it on a device above, inserts.c when its sectors were inserted, steps.c what each step of its life
// does, rows.c makes rows, and requests.c takes the events.
#pragma once

#include "core/map.h"
#include "core/pool.h"
#include "core/spans.h"
#include "link/requests.h"

// What a request is paired by, with its device and sector: requests that move sectors also by their operation. The rest
// of a request that completes in parts is looked up where it begins: KIND_REST. A completed request that was issued
// more than once, with no event that says why, is looked up at its first sector: KIND_TWIN.
enum { KIND_FLUSH, KIND_EMPTY, KIND_SECTORS, KIND_REST, KIND_TWIN };

// Bios that may wait for a request at one sector, as where processes read the same blocks at the same time. Of more
// than these, the events of the oldest were lost.
enum { MAX_WAITING = 8 };

#define NO_EVENT UINT64_MAX

// A request goes out so many events after the one that tells its place, so that all are in order that are finished by
// then.
enum { MAX_WAIT = 1 << 10 };

struct event {
    uint64_t number; // in order of time
    int64_t ts_ns;
    int32_t cpu;
    uint32_t rwbs;
    uint32_t path;
    uint8_t block_type;
};

// Where a place lies on the topmost device.
struct origin {
    uint32_t dev;
    int64_t offset; // how far that device's sector 0 lies into the device below
};

// Who queued a bio, and when: on the device above, where it was handed on from there.
struct submission {
    struct event event;
    int64_t submit_ns;
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    struct origin origin;
};

static const struct submission no_submission = {
    .event.number = NO_EVENT, .tid = NO_INT32, .pid = NO_INT32, .comm = NO_STRING};

struct device {
    struct device *next;
    uint32_t dev;
    uint32_t flags;
    struct spans bios[NR_OPERATIONS][MAX_WAITING]; // of struct bio: sectors that wait for a request, latest bio first
    struct spans inserts[NR_OPERATIONS];           // of times
    struct spans above[NR_OPERATIONS];             // of struct above, of a stacked device
};

// A bio that was queued on a stacked device, and has not been queued on the one below.
struct above {
    struct submission queued;
    int64_t waiting;  // its sectors
    bool is_disputed; // another thread's waited at its place
};

struct bio {
    struct submission queued;
    struct device *device;
    int64_t sector;
    int64_t nr_sectors;
    int64_t waiting;       // its sectors that no request and no later bio took
    size_t pieces;         // of requests that are not put out yet
    size_t requests;       // that took sectors of it; exact up to 2
    struct request *first; // while it is the only one
    uint64_t last_request; // number of the one that took sectors last
    uint64_t counted;      // number of the last count that met it
};

struct piece {
    struct piece *next;
    struct bio *bio; // NULL: none was seen
    int64_t sector;
    int64_t nr_sectors;
};

// A completion of a part of a request, or an issue of it.
struct part {
    struct part *next;
    struct event event;
    int64_t sector;
    int64_t nr_sectors;
    int32_t error;
};

struct request {
    uint64_t number;
    struct request *next;      // the one opened before it at its sector, or in the queue of what goes out
    struct request *next_rest; // another whose rest begins at the same sector
    struct part *parts;        // its completions, while it is not complete
    struct part *issues;       // its earlier issues that may be those of another request
    struct device *device;
    struct event issue;    // the last one
    struct event complete; // the last one
    struct submission first;
    struct piece *pieces;
    struct piece *last_piece;
    int64_t place;
    int64_t sector;
    int64_t nr_sectors;
    int64_t done;
    int64_t insert_ns;
    struct origin origin; // where no bio tells it
    size_t nr_bios;
    size_t holds; // bios of which it is the only request and which another may still take; and its twins
    int32_t error;
    uint8_t op;
    uint8_t kind;
    uint8_t bio_flags;
    uint8_t resizes;  // how often its length changed
    bool is_latest;   // nothing was opened or closed at its place since its last issue
    bool is_returned; // requeued since then
    bool is_requeued;
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
    struct device *last_device; // the one asked for last
    struct map device_of;       // device by number
    struct map open;            // requests by space_of and sector, the last one opened first
    struct map remap_of;        // number in `remaps` and one, by device and sector
    struct remap *remaps;       // a ring
    size_t nr_remaps;
    size_t remap_room;
    size_t next_remap;
    struct partition *partitions;
    size_t nr_partitions;
    size_t partition_room;
    struct meaning *meanings;
    size_t nr_meanings;
    size_t meaning_room;
    struct pool request_pool;
    struct pool bio_pool;
    struct pool above_pool;
    struct pool piece_pool;
    struct pool part_pool;
    struct request *finished[MAX_WAIT]; // by request_order: those that wait for earlier ones
    struct request *out;                // what goes out next
    struct request *last_out;
};

// The number of the event that tells the place of a request that is finished: see requests.h.
static inline uint64_t request_order(const struct request *request)
{
    bool has_bio = request->first.event.number != NO_EVENT;

    if (request->issue.number != NO_EVENT)
        return request->issue.number;
    // Another request may have the same first bio.
    return has_bio && !request->is_split ? request->first.event.number : request->complete.number;
}

// One event, with what the steps ask of it.
struct step {
    struct event event;
    struct device *device;
    struct meaning meaning;
    int64_t sector;
    int64_t nr_sectors;
    uint32_t comm; // of whoever asked for it, where the event is of that
    int32_t tid;
    int32_t pid;
    int32_t error;
    uint8_t kind;
    bool is_empty;           // moves no sectors, and is no flush
    bool is_end_of_sequence; // an empty write: the flush of a kernel that shows no flush requests
};

static inline struct meaning meaning_of(const struct linker *linker, uint32_t rwbs)
{
    return rwbs < linker->nr_meanings ? linker->meanings[rwbs] : (struct meaning){OP_OTHER, 0};
}

// As far as 64 bits go.
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

// --- requests and their bios (bios.c) -----------------------------------------------------------------------

// NULL where memory is short.
struct request *request_new(struct linker *linker, struct device *device, uint8_t op);

// Nothing keeps the request any longer that did so by `holds`.
void request_release(struct linker *linker, struct request *request);

// Nothing more comes for the request itself.
void request_close(struct linker *linker, struct request *request);

// Before event `number`, and from the last one on: those go out that waited for all of so long before.
void requests_put_out(struct linker *linker, uint64_t number);

// Takes the bios that wait for the sectors of the request. Of several that wait for a sector it takes the one that it
// has the sector before of, else one that thread `tid` queued, else the latest.
void request_take_bios(struct linker *linker, struct request *request, int32_t tid);

// The request is of so many sectors now: it takes the bios of those it grew by, and gives up those it shrank by.
void request_resize(struct linker *linker, struct request *request, int64_t nr_sectors, int32_t tid);

// A bio is queued on a stacked device.
void above_queue(struct linker *linker, const struct step *step);

// Puts into the submission of a bio who queued it on the device above, where that is told.
void above_take(struct linker *linker, const struct step *step, struct submission *submission);

// A bio, which waits for a request from now on.
void bio_queue(struct linker *linker, const struct step *step);

// The bio last queued for the sector, if it waits there; NULL for none.
const struct bio *bio_at(const struct device *device, uint8_t op, int64_t sector);

// The operation of the bio last queued for the step's first sector, of those that wait; `none` where there is none.
uint8_t waiting_operation(const struct step *step, uint8_t none);

// After the last event: no request comes any more for the bios that wait.
void bios_settle(struct linker *linker);

// The piece was put out.
void piece_release(struct linker *linker, struct piece *piece);

// --- inserts (inserts.c) ------------------------------------------------------------------------------------

void step_insert(struct linker *linker, const struct step *step);

// When the first of the inserts was that led to the request; NO_INT64 for none.
int64_t request_insert_ns(const struct request *request);

// The inserts that led to a request lead to no other.
void inserts_forget(struct linker *linker, const struct request *request);

// --- steps of a life (steps.c) ------------------------------------------------------------------------------

void step_queue(struct linker *linker, const struct step *step);
void step_issue(struct linker *linker, const struct step *step);
void step_requeue(struct linker *linker, const struct step *step);
void step_complete(struct linker *linker, const struct step *step);

// Fill in the operation of a completion that does not record it: that of what it completes.
void step_take_operation(const struct linker *linker, struct step *step);

// A completion that does not tell how much it completes: all of what was issued there last by this operation.
void step_take_length(const struct linker *linker, struct step *step);

// After the last event: nothing comes any more for the requests that are open.
void requests_close(struct linker *linker);

// --- rows (rows.c) ------------------------------------------------------------------------------------------

// Puts out what is finished, as far as there is room; false where there is not enough.
bool rows_put(struct linker *linker, struct linked *linked);
