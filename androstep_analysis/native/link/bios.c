// Requests, and the bios they are cut into. A request is finished when it is completed and no bio of it can become a
// second request's.
#include "link/linker.h"
#include "link/origins.h"

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
        .first = no_submission,
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

void request_release(struct linker *linker, struct request *request)
{
    request->holds--;
    put_out_if_finished(linker, request);
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
        request_release(linker, bio->first);
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
            request_release(linker, bio->first);
        }
        bio->requests++;
        take_from(request, bio, meaning_of(linker, bio->queued.event.rwbs).flags);
    }
    bio->waiting -= part.end - part.start;
    if (!bio->waiting)
        settle_bio(linker, bio);
    return !linker->is_out_of_memory;
}

static bool first_start(void *context, struct span part)
{
    *(int64_t *)context = part.start;
    return false;
}

// The bios that a request may take from one sector on, up to where another choice begins.
struct choice {
    struct spans *spans; // NULL: none waits
    int64_t end;
};

static struct choice choose(struct spans *waiting, int64_t at, int64_t end, const struct bio *before, int32_t tid)
{
    struct choice choice = {NULL, end};
    int best = -1;

    for (size_t layer = 0; layer < MAX_WAITING; layer++) {
        const struct span *span = spans_at(&waiting[layer], at);
        const struct bio *bio = span ? (const struct bio *)(uintptr_t)span->value : NULL;
        int rank = !bio ? -1 : bio == before ? 2 : tid != NO_INT32 && bio->queued.tid == tid;
        int64_t change = span ? span->end : end;

        if (!span)
            spans_see(&waiting[layer], at, end, first_start, &change);
        if (change < choice.end)
            choice.end = change;
        if (rank > best) {
            best = rank;
            choice.spans = &waiting[layer];
        }
    }
    return choice;
}

static bool is_single(const struct spans *waiting)
{
    for (size_t layer = 1; layer < MAX_WAITING; layer++)
        if (waiting[layer].count)
            return false;
    return true;
}

// Cuts the sectors of the request from `start` on into bios that wait for them, and takes these.
static void take_bios(struct linker *linker, struct request *request, int64_t start, int32_t tid)
{
    int64_t end = request->sector + request->nr_sectors;
    struct spans *waiting = request->device->bios[request->op];
    struct taking taking = {linker, request, start};
    bool is_taken = true;

    if (is_single(waiting)) {
        is_taken = spans_take(&waiting[0], start, end, take, &taking);
    } else {
        for (int64_t at = start; at < end && is_taken;) {
            const struct bio *before = taking.at == at && request->last_piece ? request->last_piece->bio : NULL;
            struct choice choice = choose(waiting, at, end, before, tid);

            if (choice.spans)
                is_taken = spans_take(choice.spans, at, choice.end, take, &taking);
            at = choice.end;
        }
    }
    if (!is_taken) {
        linker->is_out_of_memory = true;
        return;
    }
    if (taking.at < end)
        add_piece(linker, request, taking.at, end, NULL);
}

void request_take_bios(struct linker *linker, struct request *request, int32_t tid)
{
    take_bios(linker, request, request->sector, tid);
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
    struct spans *waiting = request->device->bios[request->op];
    bool has_waited = bio->waiting > 0, is_free = true;

    for (size_t layer = 0; layer < MAX_WAITING && is_free; layer++)
        is_free = spans_see(&waiting[layer], start, end, is_taken, NULL);
    if (is_free) {
        if (!spans_put(&waiting[0], (struct span){start, end, (int64_t)(uintptr_t)bio})) {
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
    request->first = no_submission;
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
static void lengthen(struct linker *linker, struct request *request, int64_t old_end, int32_t tid)
{
    take_bios(linker, request, old_end, tid);
    count_bios(linker, request, INT64_MAX);
}

void request_resize(struct linker *linker, struct request *request, int64_t nr_sectors, int32_t tid)
{
    int64_t old_end = request->sector + request->nr_sectors;

    request->nr_sectors = nr_sectors;
    if (request->sector + nr_sectors < old_end)
        shorten(linker, request, request->sector + nr_sectors);
    else if (request->sector + nr_sectors > old_end)
        lengthen(linker, request, old_end, tid);
}

const struct bio *bio_at(const struct device *device, uint8_t op, int64_t sector)
{
    for (size_t layer = 0; layer < MAX_WAITING; layer++) {
        const struct span *span = spans_at(&device->bios[op][layer], sector);

        if (span)
            return (const struct bio *)(uintptr_t)span->value;
    }
    return NULL;
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

struct waiting {
    struct linker *linker;
    struct spans *layer;
    struct spans *end;
};

static bool wait_behind(void *context, struct span part);

static bool wait_in(struct linker *linker, struct spans *layer, struct spans *end, struct span span)
{
    struct waiting next = {linker, layer + 1, end};

    return spans_take(layer, span.start, span.end, wait_behind, &next) && spans_put(layer, span);
}

// The sectors of an earlier bio, for which a later one waits now, too.
static bool wait_behind(void *context, struct span part)
{
    const struct waiting *waiting = context;

    return waiting->layer == waiting->end ? overwrite(waiting->linker, part)
                                          : wait_in(waiting->linker, waiting->layer, waiting->end, part);
}

// Whether the bio is what is left of `whole` after a split: before Linux 4.14 it is queued a second time
// (generic_make_request traced every bio that it was given).
static bool is_remainder(const struct bio *bio, const struct bio *whole)
{
    return whole && bio->queued.tid != NO_INT32 && whole->queued.tid == bio->queued.tid &&
           whole->sector < bio->sector && whole->sector + whole->nr_sectors == bio->sector + bio->nr_sectors;
}

// The remainder waits in place of the sectors that `whole` still waits for.
static bool replace(struct linker *linker, struct spans *waiting, const struct bio *whole, struct span span)
{
    struct choice choice;

    for (int64_t at = span.start; at < span.end; at = choice.end) {
        const struct span *found;

        choice = choose(waiting, at, span.end, whole, NO_INT32);
        found = choice.spans ? spans_at(choice.spans, at) : NULL;
        if (found && (const struct bio *)(uintptr_t)found->value == whole &&
            !spans_take(choice.spans, at, choice.end, overwrite, linker))
            return false;
    }
    return true;
}

void bio_queue(struct linker *linker, const struct step *step)
{
    struct spans *waiting = step->device->bios[step->meaning.op];
    const struct bio *before = bio_at(step->device, step->meaning.op, step->sector);
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
    if ((is_remainder(bio, before) && !replace(linker, waiting, before, span)) ||
        !wait_in(linker, waiting, waiting + MAX_WAITING, span))
        linker->is_out_of_memory = true;
}

void bios_settle(struct linker *linker)
{
    for (struct device *device = linker->devices; device; device = device->next)
        for (size_t op = 0; op < NR_OPERATIONS; op++)
            for (size_t layer = 0; layer < MAX_WAITING; layer++)
                if (!spans_take(&device->bios[op][layer], INT64_MIN, INT64_MAX, overwrite, linker))
                    linker->is_out_of_memory = true;
}
