// Block events to requests, one pass in order of time (link/requests.py says what belongs together and why).
//
// In memory are the requests that are not finished, and the bios of which sectors wait for a request. A request is
// finished when it is completed and no bio of it can become a second request's, which would make both `split`. So what
// grows is what a trace never finishes: requests without completion, and distinct sectors that were queued and never
// issued.
#include "requests.h"

#include "array.h"
#include "map.h"
#include "pool.h"
#include "spans.h"

#include <stdlib.h>

// What a request is paired by beside device and place. The rest of a request completed in parts is waited for by
// operation as well: KIND_REST + operation.
enum { KIND_SECTORS, KIND_FLUSH, KIND_EMPTY, KIND_REST };

// Devices stacked on each other that are followed; phones stack three (partition, dm-default-key, dm-linear).
enum { MAX_LAYERS = 8 };

// Remaps that are remembered: far more than are between a bio's remap and the last event that asks for it.
enum { MAX_REMAPS = 1 << 20 };

// How often a request may be issued again with another length: each time all its bios are counted anew.
enum { MAX_RESIZES = 64 };

#define NO_EVENT UINT64_MAX

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

struct submission {
    struct event event;
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    struct origin origin;
};

struct device {
    struct device *next;
    uint32_t dev;
    uint32_t flags;
    struct spans bios[NR_OPERATIONS];    // of struct bio: the sectors that wait for a request, by the bio last queued
    struct spans inserts[NR_OPERATIONS]; // of times
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
    uint64_t kept;         // number of the last count that met it
};

struct piece {
    struct piece *next;
    struct bio *bio; // NULL: none was seen
    int64_t sector;
    int64_t nr_sectors;
};

struct request {
    uint64_t number;
    struct request *next; // below in its stack, or in the queue of what goes out
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
    size_t holds; // bios of which it is the only request and which another may still take
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
    uint64_t events;
    uint64_t requests;
    uint64_t counts;
    struct device *devices;
    struct device *last_device; // the one asked for last
    struct map device_of;       // device by number
    struct map open;            // stack of requests by space_of and place: the last one opened is closed first
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
    struct pool piece_pool;
    struct request *out; // what is finished, in that order
    struct request *last_out;
    uint64_t put_out;
};

struct linker *linker_new(void)
{
    struct linker *linker = calloc(1, sizeof(*linker));

    if (!linker)
        return NULL;
    linker->request_pool.size = sizeof(struct request);
    linker->bio_pool.size = sizeof(struct bio);
    linker->piece_pool.size = sizeof(struct piece);
    return linker;
}

void linker_free(struct linker *linker)
{
    if (!linker)
        return;
    while (linker->devices) {
        struct device *device = linker->devices;

        linker->devices = device->next;
        for (size_t op = 0; op < NR_OPERATIONS; op++) {
            spans_free(&device->bios[op]);
            spans_free(&device->inserts[op]);
        }
        free(device);
    }
    map_free(&linker->device_of);
    map_free(&linker->open);
    map_free(&linker->remap_of);
    pool_free(&linker->request_pool);
    pool_free(&linker->bio_pool);
    pool_free(&linker->piece_pool);
    free(linker->remaps);
    free(linker->partitions);
    free(linker->meanings);
    free(linker);
}

// ------------------------------------------------------------------------------------------------ devices and origins

bool linker_device(struct linker *linker, uint32_t dev, uint32_t flags)
{
    struct device *device = calloc(1, sizeof(*device));
    uint64_t *place = device ? map_add(&linker->device_of, dev, 0) : NULL;

    if (!place) {
        free(device);
        return false;
    }
    *place = (uintptr_t)device;
    device->dev = dev;
    device->flags = flags;
    device->next = linker->devices;
    linker->devices = device;
    return true;
}

static struct device *device_of(struct linker *linker, uint32_t dev)
{
    struct device *device = linker->last_device;

    if (device && device->dev == dev)
        return device;
    device = (struct device *)(uintptr_t)map_value(&linker->device_of, dev, 0);
    if (device)
        linker->last_device = device;
    return device;
}

bool linker_partition(struct linker *linker, uint32_t dev, uint32_t parent, int64_t start, int64_t nr_sectors)
{
    if (linker->nr_partitions == linker->partition_room) {
        struct partition *partitions =
            array_grow(linker->partitions, &linker->partition_room, sizeof(*linker->partitions));

        if (!partitions)
            return false;
        linker->partitions = partitions;
    }
    linker->partitions[linker->nr_partitions++] = (struct partition){dev, parent, start, nr_sectors};
    return true;
}

static int64_t sum(int64_t left, int64_t right)
{
    int64_t result;

    if (!__builtin_add_overflow(left, right, &result))
        return result;
    return left < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t difference(int64_t left, int64_t right)
{
    int64_t result;

    if (!__builtin_sub_overflow(left, right, &result))
        return result;
    return left < 0 ? INT64_MIN : INT64_MAX;
}

static void remember_remap(struct linker *linker, struct remap remap)
{
    size_t number = linker->next_remap;
    uint64_t *place;

    if (number == linker->remap_room) {
        struct remap *remaps = array_grow(linker->remaps, &linker->remap_room, sizeof(*remaps));

        if (!remaps) {
            linker->is_out_of_memory = true;
            return;
        }
        linker->remaps = remaps;
    }
    if (number < linker->nr_remaps) {
        const struct remap *oldest = &linker->remaps[number];

        if (map_value(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector) == number + 1)
            map_remove(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector);
    }
    linker->remaps[number] = remap;
    place = map_add(&linker->remap_of, remap.dev, (uint64_t)remap.sector);
    if (!place) {
        linker->is_out_of_memory = true;
        return;
    }
    *place = number + 1;
    if (number == linker->nr_remaps)
        linker->nr_remaps++;
    linker->next_remap = (number + 1) % MAX_REMAPS;
}

// Where the place came from, by the last remaps to it.
static struct origin origin_of(const struct linker *linker, uint32_t dev, int64_t sector)
{
    struct origin origin = {dev, 0};
    int64_t place = sector;

    if (!linker->remap_of.count || sector == NO_INT64)
        return origin;
    for (int layer = 0; layer < MAX_LAYERS; layer++) {
        uint64_t number = map_value(&linker->remap_of, origin.dev, (uint64_t)place);
        const struct remap *remap;

        if (!number)
            break;
        remap = &linker->remaps[number - 1];
        origin.dev = remap->old_dev;
        place = remap->old_sector;
    }
    origin.offset = difference(sector, place);
    return origin;
}

// The partition of a request's sectors, where one holds them.
static struct origin in_partition(const struct linker *linker, struct origin origin, int64_t sector)
{
    for (size_t number = 0; number < linker->nr_partitions; number++) {
        const struct partition *partition = &linker->partitions[number];
        int64_t place = difference(sector, origin.offset);

        if (origin.dev == partition->parent && place >= partition->start_sector &&
            place < sum(partition->start_sector, partition->nr_sectors))
            origin = (struct origin){partition->dev, sum(origin.offset, partition->start_sector)};
    }
    return origin;
}

// ------------------------------------------------------------------------------------------------------------ meanings

bool linker_meaning(struct linker *linker, uint8_t op, uint8_t flags)
{
    if (op >= NR_OPERATIONS)
        return false;
    if (linker->nr_meanings == linker->meaning_room) {
        struct meaning *meanings = array_grow(linker->meanings, &linker->meaning_room, sizeof(*meanings));

        if (!meanings)
            return false;
        linker->meanings = meanings;
    }
    linker->meanings[linker->nr_meanings++] = (struct meaning){op, flags};
    return true;
}

static struct meaning meaning_of(const struct linker *linker, uint32_t rwbs)
{
    return rwbs < linker->nr_meanings ? linker->meanings[rwbs] : (struct meaning){OP_OTHER, 0};
}

// -------------------------------------------------------------------------------------------------- lives of requests

static struct request *new_request(struct linker *linker, struct device *device, uint8_t op)
{
    struct request *request = pool_take(&linker->request_pool);

    if (!request) {
        linker->is_out_of_memory = true;
        return NULL;
    }
    *request = (struct request){
        .number = linker->requests++,
        .device = device,
        .op = op,
        .issue.number = NO_EVENT,
        .complete.number = NO_EVENT,
        .first.event.number = NO_EVENT,
        .sector = NO_INT64,
        .insert_ns = NO_INT64,
        .error = NO_INT32,
        .origin.dev = device->dev,
    };
    return request;
}

static void put_out_if_finished(struct linker *linker, struct request *request)
{
    if (!request->is_closed || request->holds)
        return;
    request->next = NULL;
    if (linker->out)
        linker->last_out->next = request;
    else
        linker->out = request;
    linker->last_out = request;
}

// Nothing more comes for the request itself.
static void close_request(struct linker *linker, struct request *request)
{
    request->is_closed = true;
    put_out_if_finished(linker, request);
}

static bool add_piece(struct linker *linker, struct request *request, int64_t start, int64_t end, struct bio *bio)
{
    struct piece *last = request->last_piece, *piece;

    if (last && last->bio == bio) {
        last->nr_sectors += end - start;
        return true;
    }
    piece = pool_take(&linker->piece_pool);
    if (!piece) {
        linker->is_out_of_memory = true;
        return false;
    }
    *piece = (struct piece){NULL, bio, start, end - start};
    if (last)
        last->next = piece;
    else
        request->pieces = piece;
    request->last_piece = piece;
    if (bio)
        bio->pieces++;
    return true;
}

static void release_piece(struct linker *linker, struct piece *piece)
{
    struct bio *bio = piece->bio;

    if (bio && !--bio->pieces && !bio->waiting)
        pool_give_back(&linker->bio_pool, bio);
    pool_give_back(&linker->piece_pool, piece);
}

// ---------------------------------------------------------------------------------------------------------------- bios

static void take_from(struct request *request, const struct bio *bio, uint8_t flags)
{
    request->nr_bios++;
    request->bio_flags |= flags;
    if (request->first.event.number == NO_EVENT || bio->queued.event.number < request->first.event.number)
        request->first = bio->queued;
}

// A bio that no request took becomes a request that was never completed.
static void strand(struct linker *linker, struct bio *bio)
{
    struct meaning meaning = meaning_of(linker, bio->queued.event.rwbs);
    struct request *request = new_request(linker, bio->device, meaning.op);

    if (!request)
        return;
    request->sector = bio->sector;
    request->nr_sectors = bio->nr_sectors;
    take_from(request, bio, meaning.flags);
    if (add_piece(linker, request, bio->sector, bio->sector + bio->nr_sectors, bio))
        close_request(linker, request);
}

// No further request can take sectors of the bio.
static void settle_bio(struct linker *linker, struct bio *bio)
{
    if (!bio->requests)
        strand(linker, bio);
    if (bio->requests == 1) {
        bio->first->holds--;
        put_out_if_finished(linker, bio->first);
    } else if (bio->requests && !bio->pieces) {
        pool_give_back(&linker->bio_pool, bio);
    }
}

static bool overwrite(void *context, struct span part)
{
    struct linker *linker = context;
    struct bio *bio = (struct bio *)(uintptr_t)part.value;

    bio->waiting -= part.end - part.start;
    if (!bio->waiting)
        settle_bio(linker, bio);
    return !linker->is_out_of_memory;
}

struct taking {
    struct linker *linker;
    struct request *request;
    int64_t at; // up to where the request is cut
};

static bool take(void *context, struct span part)
{
    struct taking *taking = context;
    struct linker *linker = taking->linker;
    struct request *request = taking->request;
    struct bio *bio = (struct bio *)(uintptr_t)part.value;

    if (part.start > taking->at && !add_piece(linker, request, taking->at, part.start, NULL))
        return false;
    if (!add_piece(linker, request, part.start, part.end, bio))
        return false;
    taking->at = part.end;
    if (!bio->requests || bio->last_request != request->number) {
        bio->last_request = request->number;
        if (!bio->requests) {
            bio->first = request;
            request->holds++;
        } else {
            request->is_split = true;
        }
        if (bio->requests == 1) {
            bio->first->is_split = true;
            bio->first->holds--;
            put_out_if_finished(linker, bio->first);
        }
        bio->requests++;
        take_from(request, bio, meaning_of(linker, bio->queued.event.rwbs).flags);
    }
    bio->waiting -= part.end - part.start;
    if (!bio->waiting)
        settle_bio(linker, bio);
    return !linker->is_out_of_memory;
}

// Cuts the sectors of the request from `start` on into the bios last queued for them, and takes these.
static void take_bios(struct linker *linker, struct request *request, int64_t start)
{
    int64_t end = request->sector + request->nr_sectors;
    struct taking taking = {linker, request, start};

    if (!spans_take(&request->device->bios[request->op], start, end, take, &taking)) {
        linker->is_out_of_memory = true;
        return;
    }
    if (taking.at < end)
        add_piece(linker, request, taking.at, end, NULL);
}

static bool is_taken(void *context, struct span part)
{
    (void)context;
    (void)part;
    return false;
}

// The bio waits again for a request for the sectors that this one gives up; its last piece of them is gone already.
static void give_up(struct linker *linker, struct request *request, struct bio *bio, int64_t start, int64_t end)
{
    struct spans *spans = &request->device->bios[request->op];
    bool has_waited = bio->waiting > 0;

    if (spans_see(spans, start, end, is_taken, NULL)) {
        if (!spans_put(spans, (struct span){start, end, (int64_t)(uintptr_t)bio})) {
            linker->is_out_of_memory = true;
            return;
        }
        bio->waiting += end - start;
        if (!has_waited && bio->requests == 1)
            request->holds++;
    }
    if (bio->kept == linker->counts || bio->requests != 1)
        return;
    if (bio->waiting)
        request->holds--;
    bio->requests = 0;
    bio->first = NULL;
    if (!bio->waiting)
        strand(linker, bio);
}

// Tells the request anew which bios it has, by its pieces up to `end`; those bios are `kept`.
static struct piece *count_bios(struct linker *linker, struct request *request, int64_t end)
{
    struct piece *last = NULL;

    linker->counts++;
    request->nr_bios = 0;
    request->bio_flags = 0;
    request->first.event.number = NO_EVENT;
    for (struct piece *piece = request->pieces; piece && piece->sector < end; piece = piece->next) {
        last = piece;
        if (!piece->bio || piece->bio->kept == linker->counts)
            continue;
        piece->bio->kept = linker->counts;
        take_from(request, piece->bio, meaning_of(linker, piece->bio->queued.event.rwbs).flags);
    }
    return last;
}

// The request is shorter now: its pieces end at `end`.
static void shorten(struct linker *linker, struct request *request, int64_t end)
{
    struct piece *last = count_bios(linker, request, end), *piece, *next;

    request->last_piece = last;
    if (!last)
        return; // a request has at least one sector
    piece = last->next;
    last->next = NULL;
    if (last->sector + last->nr_sectors > end) {
        int64_t old_end = last->sector + last->nr_sectors;

        last->nr_sectors = end - last->sector;
        if (last->bio)
            give_up(linker, request, last->bio, end, old_end);
    }
    for (; piece; piece = next) {
        next = piece->next;
        if (piece->bio)
            give_up(linker, request, piece->bio, piece->sector, piece->sector + piece->nr_sectors);
        release_piece(linker, piece);
    }
}

// The request is longer now than up to `old_end`.
static void lengthen(struct linker *linker, struct request *request, int64_t old_end)
{
    take_bios(linker, request, old_end);
    count_bios(linker, request, INT64_MAX);
}

// ------------------------------------------------------------------------------------------------------------- inserts

struct inserting {
    int64_t since;
    int64_t first;
    int64_t last;
};

static bool see_insert(void *context, struct span part)
{
    struct inserting *inserting = context;

    if (part.value >= inserting->since && (inserting->first == NO_INT64 || part.value < inserting->first))
        inserting->first = part.value;
    if (part.value > inserting->last)
        inserting->last = part.value;
    return true;
}

static struct inserting inserts_of(const struct request *request)
{
    bool has_bio = request->first.event.number != NO_EVENT;
    struct inserting inserting = {has_bio ? request->first.event.ts_ns : INT64_MIN, NO_INT64, INT64_MIN};

    spans_see(&request->device->inserts[request->op], request->sector, request->sector + request->nr_sectors,
              see_insert, &inserting);
    return inserting;
}

static bool pass(void *context, struct span part)
{
    (void)context;
    (void)part;
    return true;
}

// The inserts that led to a request lead to no other.
static void forget_inserts(struct linker *linker, const struct request *request)
{
    struct spans *inserts = &request->device->inserts[request->op];

    if (inserts->count && inserts_of(request).last <= request->issue.ts_ns &&
        !spans_take(inserts, request->sector, request->sector + request->nr_sectors, pass, NULL))
        linker->is_out_of_memory = true;
}

// -------------------------------------------------------------------------------------------------------------- events

// One event, with what the steps below ask of it.
struct step {
    struct event event;
    struct device *device;
    struct meaning meaning;
    int64_t sector;
    int64_t nr_sectors;
    int32_t tid;
    int32_t pid;
    uint32_t comm;
    int32_t error;
    uint8_t kind;
    bool is_empty;           // moves no sectors, and is no flush
    bool is_end_of_sequence; // an empty write: the flush of a kernel that shows no flush requests
};

static uint64_t space_of(const struct step *step, uint8_t kind)
{
    return (uint64_t)step->device->dev << 8 | kind;
}

static int64_t place_of(const struct step *step)
{
    return step->kind == KIND_FLUSH ? 0 : step->sector;
}

// The request that was opened there last and is not closed; NULL where there is none.
static struct request *open_at(const struct linker *linker, uint64_t space, int64_t place)
{
    return (struct request *)(uintptr_t)map_value(&linker->open, space, (uint64_t)place);
}

static void push(struct linker *linker, uint64_t space, int64_t place, struct request *request)
{
    uint64_t *stack = map_add(&linker->open, space, (uint64_t)place);

    if (!stack) {
        linker->is_out_of_memory = true;
        return;
    }
    request->next = (struct request *)(uintptr_t)*stack;
    *stack = (uintptr_t)request;
}

static struct request *pop(struct linker *linker, uint64_t space, int64_t place)
{
    uint64_t *stack = map_find(&linker->open, space, (uint64_t)place);
    struct request *request;

    if (!stack)
        return NULL;
    request = (struct request *)(uintptr_t)*stack;
    if (request->next) {
        *stack = (uintptr_t)request->next;
        request->next->is_latest = false;
        request->next->is_returned = false;
    } else {
        map_remove(&linker->open, space, (uint64_t)place);
    }
    return request;
}

static struct submission submission_of(const struct linker *linker, const struct step *step)
{
    return (struct submission){
        .event = step->event,
        .tid = step->tid,
        .pid = step->pid,
        .comm = step->comm,
        .origin = origin_of(linker, step->device->dev, step->sector),
    };
}

static void queue_bio(struct linker *linker, const struct step *step)
{
    struct spans *spans = &step->device->bios[step->meaning.op];
    struct bio *bio = pool_take(&linker->bio_pool);
    struct span span = {step->sector, step->sector + step->nr_sectors, (int64_t)(uintptr_t)bio};

    if (!bio) {
        linker->is_out_of_memory = true;
        return;
    }
    *bio = (struct bio){
        .queued = submission_of(linker, step),
        .device = step->device,
        .sector = step->sector,
        .nr_sectors = step->nr_sectors,
    };
    if (!(step->device->flags & (DEVICE_HAS_ISSUES | DEVICE_HAS_COMPLETIONS))) {
        strand(linker, bio); // no request will ever come for it
        return;
    }
    bio->waiting = step->nr_sectors;
    if (!spans_take(spans, span.start, span.end, overwrite, linker) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}

static void queue(struct linker *linker, const struct step *step)
{
    struct request *request;

    if (step->nr_sectors)
        queue_bio(linker, step);
    if (!step->is_end_of_sequence)
        return;
    request = new_request(linker, step->device, step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->first = submission_of(linker, step);
    request->is_latest = true;
    if (step->device->flags & DEVICE_HAS_COMPLETIONS)
        push(linker, space_of(step, step->kind), place_of(step), request);
    else
        close_request(linker, request);
}

static void insert(struct linker *linker, const struct step *step)
{
    struct spans *spans = &step->device->inserts[step->meaning.op];
    struct span span = {step->sector, step->sector + step->nr_sectors, step->event.ts_ns};

    if (!step->nr_sectors || !(step->device->flags & DEVICE_HAS_ISSUES))
        return;
    if (!spans_take(spans, span.start, span.end, pass, NULL) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}

// Whether the issue is of the request that was issued there before and not completed: see link/requests.py.
static bool is_issued_again(const struct request *open, const struct step *step)
{
    if (step->kind == KIND_FLUSH)
        return open->is_returned;
    if (!open->is_latest || open->op != step->meaning.op)
        return false;
    if (open->resizes == MAX_RESIZES && open->nr_sectors != step->nr_sectors)
        return false;
    if (step->device->flags & DEVICE_HAS_BIOS) {
        const struct span *span = spans_at(&step->device->bios[open->op], step->sector);

        return !span || ((const struct bio *)(uintptr_t)span->value)->queued.event.number < open->issue.number;
    }
    if (!(step->device->flags & DEVICE_HAS_COMPLETIONS))
        return open->is_returned;
    return open->is_returned || open->nr_sectors == step->nr_sectors;
}

static void issue_again(struct linker *linker, struct request *request, const struct step *step)
{
    int64_t old_end = request->sector + request->nr_sectors;

    request->issue = step->event;
    request->is_requeued = true;
    request->is_latest = true;
    request->is_returned = false;
    if (step->kind != KIND_SECTORS)
        return;
    if (request->nr_sectors != step->nr_sectors)
        request->resizes++;
    request->nr_sectors = step->nr_sectors;
    if (request->sector + request->nr_sectors < old_end)
        shorten(linker, request, request->sector + request->nr_sectors);
    else if (request->sector + request->nr_sectors > old_end)
        lengthen(linker, request, old_end);
    request->insert_ns = inserts_of(request).first;
}

static void issue(struct linker *linker, const struct step *step)
{
    uint64_t space = space_of(step, step->kind);
    struct request *request = open_at(linker, space, place_of(step));

    if (step->is_empty)
        return;
    if (request && is_issued_again(request, step)) {
        issue_again(linker, request, step);
        return;
    }
    request = new_request(linker, step->device, step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->issue = step->event;
    request->is_latest = true;
    if (step->kind == KIND_SECTORS) {
        request->sector = step->sector;
        request->nr_sectors = step->nr_sectors;
        take_bios(linker, request, request->sector);
        request->insert_ns = inserts_of(request).first;
    }
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->device->flags & (DEVICE_HAS_COMPLETIONS | DEVICE_HAS_REQUEUES))
        push(linker, space, place_of(step), request);
    else
        close_request(linker, request);
}

static void requeue(const struct linker *linker, const struct step *step)
{
    struct request *open = open_at(linker, space_of(step, step->kind), place_of(step));

    if (!open || step->is_empty)
        return;
    open->is_requeued = open->is_requeued || open->is_latest;
    open->is_returned = true;
}

// So much of the request is completed.
static void completed(struct linker *linker, struct request *request, const struct step *step)
{
    request->complete = step->event;
    request->error = step->error;
    request->done = sum(request->done, step->nr_sectors);
    if (request->kind == KIND_SECTORS && request->done < request->nr_sectors) {
        push(linker, space_of(step, (uint8_t)(KIND_REST + request->op)), request->sector + request->done, request);
        return;
    }
    if (request->kind == KIND_SECTORS)
        forget_inserts(linker, request);
    close_request(linker, request);
}

// The operation of the bio last queued for the step's first sector, of those that wait; `none` where there is none.
static uint8_t waiting_operation(const struct step *step, uint8_t none)
{
    uint8_t found = none;
    uint64_t last = 0;

    for (uint8_t op = 0; op < NR_OPERATIONS; op++) {
        const struct span *span = spans_at(&step->device->bios[op], step->sector);
        uint64_t number = span ? ((const struct bio *)(uintptr_t)span->value)->queued.event.number + 1 : 0;

        if (number > last) {
            last = number;
            found = op;
        }
    }
    return found;
}

// A completion that closes nothing: a further part of a request, or a request whose issue was not seen.
static void complete_alone(struct linker *linker, const struct step *step)
{
    struct request *request = NULL;

    if (step->nr_sectors)
        request = pop(linker, space_of(step, (uint8_t)(KIND_REST + step->meaning.op)), step->sector);
    if (request && step->nr_sectors <= request->nr_sectors - request->done) {
        completed(linker, request, step);
        return;
    }
    if (request) { // what comes there is not its rest
        request->complete.number = NO_EVENT;
        close_request(linker, request);
    }
    request = new_request(linker, step->device,
                          step->nr_sectors && step->event.rwbs == NO_STRING ? waiting_operation(step, step->meaning.op)
                                                                            : step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->complete = step->event;
    request->error = step->error;
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->nr_sectors) {
        request->sector = step->sector;
        request->nr_sectors = step->nr_sectors;
        take_bios(linker, request, request->sector);
    }
    close_request(linker, request);
}

// A completion that does not tell how much it completes: all of what was issued there last by this operation.
static void take_length(const struct linker *linker, struct step *step)
{
    const struct request *open = open_at(linker, space_of(step, KIND_SECTORS), step->sector);

    if (!open || open->op != step->meaning.op)
        return;
    step->nr_sectors = open->nr_sectors;
    step->kind = KIND_SECTORS;
    step->is_empty = step->is_end_of_sequence = false;
}

static void complete(struct linker *linker, const struct step *step)
{
    struct request *request;

    if (step->is_empty && !step->is_end_of_sequence)
        return;
    request = pop(linker, space_of(step, step->kind), place_of(step));
    if (request)
        completed(linker, request, step);
    else
        complete_alone(linker, step);
}

// What of the event has a place; false where it takes no part.
static bool step_of(struct linker *linker, const struct block_events *events, size_t row, struct step *step)
{
    step->device = device_of(linker, events->dev[row]);
    if (!step->device || step->device->flags & DEVICE_IS_STACKED)
        return false;
    step->event = (struct event){
        .number = linker->events,
        .ts_ns = events->ts_ns[row],
        .cpu = events->cpu[row],
        .rwbs = events->rwbs[row],
        .path = events->path ? events->path[row] : NO_STRING,
        .block_type = events->block_type ? events->block_type[row] : NO_CODE,
    };
    step->meaning = meaning_of(linker, step->event.rwbs);
    step->sector = events->sector[row];
    step->nr_sectors = events->nr_sectors[row];
    if (step->nr_sectors <= 0 || step->sector == NO_INT64 || step->sector > INT64_MAX - step->nr_sectors)
        step->nr_sectors = 0;
    step->tid = events->tid[row];
    step->pid = events->pid[row];
    step->comm = events->comm[row];
    step->error = events->error[row];
    step->is_empty = !step->nr_sectors && step->meaning.op != OP_FLUSH;
    step->is_end_of_sequence =
        step->is_empty && step->meaning.op == OP_WRITE && !(step->device->flags & DEVICE_HAS_FLUSHES);
    step->kind = step->nr_sectors ? KIND_SECTORS : step->is_empty ? KIND_EMPTY : KIND_FLUSH;
    return true;
}

static void take_event(struct linker *linker, const struct block_events *events, size_t row)
{
    struct step step;

    switch (events->action[row]) {
    case ACTION_REMAP:
        if (events->old_dev[row] != NO_UINT32 && events->sector[row] != NO_INT64) {
            int64_t old_sector = events->old_sector[row];

            remember_remap(linker, (struct remap){events->dev[row], events->old_dev[row], events->sector[row],
                                                  old_sector == NO_INT64 ? events->sector[row] : old_sector});
        }
        break;
    case ACTION_QUEUE:
        if (step_of(linker, events, row, &step))
            queue(linker, &step);
        break;
    case ACTION_INSERT:
        if (step_of(linker, events, row, &step))
            insert(linker, &step);
        break;
    case ACTION_ISSUE:
        if (step_of(linker, events, row, &step))
            issue(linker, &step);
        break;
    case ACTION_REQUEUE:
        if (step_of(linker, events, row, &step))
            requeue(linker, &step);
        break;
    case ACTION_COMPLETE:
        if (!step_of(linker, events, row, &step))
            break;
        if (events->nr_sectors[row] == NO_INT64 && step.sector != NO_INT64)
            take_length(linker, &step);
        complete(linker, &step);
        break;
    default:
        break;
    }
    linker->events++;
}

// ----------------------------------------------------------------------------------------------------------- tables

static void put_piece(const struct linker *linker, struct bios *bios, const struct piece *piece)
{
    size_t row = bios->rows++;

    bios->request[row] = (int64_t)linker->put_out;
    bios->sector[row] = piece->sector;
    bios->nr_sectors[row] = piece->nr_sectors;
    bios->queue_ns[row] = piece->bio ? piece->bio->queued.event.ts_ns : NO_INT64;
    bios->submit_tid[row] = piece->bio ? piece->bio->queued.tid : NO_INT32;
    bios->submit_pid[row] = piece->bio ? piece->bio->queued.pid : NO_INT32;
    bios->submit_comm[row] = piece->bio ? piece->bio->queued.comm : NO_STRING;
}

static uint8_t matched_of(const struct request *request)
{
    if (request->complete.number == NO_EVENT)
        return MATCHED_NO_COMPLETE;
    if (request->issue.number == NO_EVENT)
        return MATCHED_NO_ISSUE;
    if (request->is_requeued)
        return MATCHED_REQUEUED;
    return request->is_split ? MATCHED_SPLIT : MATCHED_FULL;
}

static void put_request(const struct linker *linker, struct linked *linked, const struct request *request)
{
    struct table *table = linked->requests;
    size_t row = table_row(table);
    bool is_issued = request->issue.number != NO_EVENT, is_completed = request->complete.number != NO_EVENT;
    bool has_bio = request->first.event.number != NO_EVENT;
    bool is_shared = !is_issued && request->is_split; // another request may have the same first bio
    const struct event *first = &request->first.event;
    const struct event *shown = is_issued ? &request->issue : has_bio ? first : &request->complete;
    const struct event *stated = is_issued ? &request->issue : is_completed ? &request->complete : first;
    struct meaning meaning = meaning_of(linker, shown->rwbs);
    struct origin origin = in_partition(linker, has_bio ? request->first.origin : request->origin, request->sector);
    bool is_flush = !request->nr_sectors;
    uint8_t flags = meaning.flags | request->bio_flags;

    put_int64(table, REQUEST_ID, row, (int64_t)(is_shared ? &request->complete : shown)->number);
    put_uint32(table, REQUEST_DEV, row, request->device->dev);
    put_uint32(table, REQUEST_PART_DEV, row, origin.dev);
    if (!is_flush) {
        put_int64(table, REQUEST_SECTOR, row, request->sector);
        put_int64(table, REQUEST_PART_SECTOR, row, difference(request->sector, origin.offset));
    }
    put_int64(table, REQUEST_NR_SECTORS, row, request->nr_sectors);
    put_code(table, REQUEST_OP, row, is_flush ? OP_FLUSH : meaning.op);
    for (size_t flag = 0; flag <= REQUEST_READAHEAD - REQUEST_SYNC; flag++)
        put_code(table, REQUEST_SYNC + flag, row, flags >> flag & 1);
    put_uint32(table, REQUEST_RWBS, row, shown->rwbs);
    put_int64(table, REQUEST_INSERT_NS, row, request->insert_ns);
    if (is_issued)
        put_int64(table, REQUEST_ISSUE_NS, row, request->issue.ts_ns);
    if (is_completed) {
        put_int64(table, REQUEST_COMPLETE_NS, row, request->complete.ts_ns);
        put_int32(table, REQUEST_ERROR, row, request->error);
    }
    put_int32(table, REQUEST_NR_BIOS, row, (int32_t)request->nr_bios);
    if (has_bio) {
        put_int64(table, REQUEST_QUEUE_NS, row, first->ts_ns);
        put_int32(table, REQUEST_SUBMIT_TID, row, request->first.tid);
        put_int32(table, REQUEST_SUBMIT_PID, row, request->first.pid);
        put_uint32(table, REQUEST_SUBMIT_COMM, row, request->first.comm);
    }
    put_int32(table, REQUEST_CPU, row, shown->cpu);
    put_code(table, REQUEST_MATCHED, row, matched_of(request));
    linked->block_type[row] = stated->block_type;
    linked->path[row] = stated->path;
}

// Puts out what is finished, as far as there is room; false where there is not enough.
static bool put_out(struct linker *linker, struct linked *linked)
{
    while (linker->out) {
        struct request *request = linker->out;

        while (request->pieces && linked->bios.rows < linked->bios.capacity) {
            struct piece *piece = request->pieces;

            put_piece(linker, &linked->bios, piece);
            request->pieces = piece->next;
            release_piece(linker, piece);
        }
        if (request->pieces || table_is_full(linked->requests))
            return false;
        put_request(linker, linked, request);
        linker->put_out++;
        linker->out = request->next;
        pool_give_back(&linker->request_pool, request);
    }
    return true;
}

int64_t linker_link(struct linker *linker, const struct block_events *events, size_t from, struct linked *linked)
{
    size_t row = from;

    while (row < events->rows && put_out(linker, linked)) {
        take_event(linker, events, row++);
        if (linker->is_out_of_memory)
            return -1;
    }
    return (int64_t)row;
}

static bool close_all(struct linker *linker)
{
    for (size_t slot = 0; slot < linker->open.room; slot++) {
        struct request *request = (struct request *)(uintptr_t)linker->open.slots[slot].value;

        while (request) {
            struct request *below = request->next;

            if (request->kind == KIND_SECTORS)
                request->complete.number = NO_EVENT; // a part of it was never completed
            close_request(linker, request);
            request = below;
        }
    }
    map_free(&linker->open);
    for (struct device *device = linker->devices; device; device = device->next)
        for (size_t op = 0; op < NR_OPERATIONS; op++)
            if (!spans_take(&device->bios[op], INT64_MIN, INT64_MAX, overwrite, linker))
                linker->is_out_of_memory = true;
    return !linker->is_out_of_memory;
}

int64_t linker_finish(struct linker *linker, struct linked *linked)
{
    if (!close_all(linker))
        return -1;
    return put_out(linker, linked) ? 0 : 1;
}
