// Requests, and the bios they are cut into. A request is finished when it is completed and no bio of it can become a
// second request's.
#include "link/linker.h"

// --- lives of requests -----------------------------------------------------------------------------------------------

struct request *request_new(struct linker *linker, struct device *device, uint8_t op)
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

static void put_out(struct linker *linker, struct request *request)
{
    if (linker->out)
        linker->last_out->next = request;
    else
        linker->out = request;
    while (request->next)
        request = request->next;
    linker->last_out = request;
}

void requests_put_out(struct linker *linker, uint64_t number)
{
    struct request **slot = &linker->finished[number % MAX_WAIT];

    if (*slot)
        put_out(linker, *slot);
    *slot = NULL;
}

static void put_out_if_finished(struct linker *linker, struct request *request)
{
    uint64_t order;
    struct request **slot;

    if (!request->is_closed || request->holds)
        return;
    order = request_order(request);
    slot = &linker->finished[order % MAX_WAIT];
    request->next = NULL;
    if (order == NO_EVENT || linker->events - order >= MAX_WAIT) {
        put_out(linker, request);
        return;
    }
    while (*slot)
        slot = &(*slot)->next;
    *slot = request;
}

void request_close(struct linker *linker, struct request *request)
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

void piece_release(struct linker *linker, struct piece *piece)
{
    struct bio *bio = piece->bio;

    if (bio && !--bio->pieces && !bio->waiting)
        pool_give_back(&linker->bio_pool, bio);
    pool_give_back(&linker->piece_pool, piece);
}

// --- bios ------------------------------------------------------------------------------------------------------------

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
    struct request *request = request_new(linker, bio->device, meaning.op);

    if (!request)
        return;
    request->sector = bio->sector;
    request->nr_sectors = bio->nr_sectors;
    take_from(request, bio, meaning.flags);
    if (add_piece(linker, request, bio->sector, bio->sector + bio->nr_sectors, bio))
        request_close(linker, request);
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

void request_take_bios(struct linker *linker, struct request *request)
{
    take_bios(linker, request, request->sector);
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
    if (bio->counted == linker->counts || bio->requests != 1)
        return;
    if (bio->waiting)
        request->holds--;
    bio->requests = 0;
    bio->first = NULL;
    if (!bio->waiting)
        strand(linker, bio);
}

// Tells the request anew which bios it has, by its pieces up to `end`; those bios are `counted`.
static struct piece *count_bios(struct linker *linker, struct request *request, int64_t end)
{
    struct piece *last = NULL;

    linker->counts++;
    request->nr_bios = 0;
    request->bio_flags = 0;
    request->first.event.number = NO_EVENT;
    for (struct piece *piece = request->pieces; piece && piece->sector < end; piece = piece->next) {
        last = piece;
        if (!piece->bio || piece->bio->counted == linker->counts)
            continue;
        piece->bio->counted = linker->counts;
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
        piece_release(linker, piece);
    }
}

// The request is longer now than up to `old_end`.
static void lengthen(struct linker *linker, struct request *request, int64_t old_end)
{
    take_bios(linker, request, old_end);
    count_bios(linker, request, INT64_MAX);
}

void request_resize(struct linker *linker, struct request *request, int64_t nr_sectors)
{
    int64_t old_end = request->sector + request->nr_sectors;

    request->nr_sectors = nr_sectors;
    if (request->sector + nr_sectors < old_end)
        shorten(linker, request, request->sector + nr_sectors);
    else if (request->sector + nr_sectors > old_end)
        lengthen(linker, request, old_end);
}

const struct bio *bio_at(const struct device *device, uint8_t op, int64_t sector)
{
    const struct span *span = spans_at(&device->bios[op], sector);

    return span ? (const struct bio *)(uintptr_t)span->value : NULL;
}

uint8_t waiting_operation(const struct step *step, uint8_t none)
{
    uint8_t latest = none;
    uint64_t last = 0;

    for (uint8_t op = 0; op < NR_OPERATIONS; op++) {
        const struct bio *bio = bio_at(step->device, op, step->sector);
        uint64_t number = bio ? bio->queued.event.number + 1 : 0;

        if (number > last) {
            last = number;
            latest = op;
        }
    }
    return latest;
}

void bio_queue(struct linker *linker, const struct step *step)
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
    above_take(linker, step, &bio->queued);
    if (!(step->device->flags & (DEVICE_HAS_ISSUES | DEVICE_HAS_COMPLETIONS))) {
        strand(linker, bio); // no request will ever come for it
        return;
    }
    bio->waiting = step->nr_sectors;
    if (!spans_take(spans, span.start, span.end, overwrite, linker) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}

void bios_settle(struct linker *linker)
{
    for (struct device *device = linker->devices; device; device = device->next)
        for (size_t op = 0; op < NR_OPERATIONS; op++)
            if (!spans_take(&device->bios[op], INT64_MIN, INT64_MAX, overwrite, linker))
                linker->is_out_of_memory = true;
}
