// Bios that wait for a request. Several may wait for one sector: the latest is in the first layer of the device.
#include "link/linker.h"

// Rule lone_bio.
void bio_strand(struct linker *linker, struct bio *bio)
{
    struct meaning meaning = meaning_of(linker, bio->queued.stamp.rwbs);
    struct request *request = request_new(linker, bio->device, meaning.op);

    if (!request)
        return;
    request->sector = bio->sector;
    request->nr_sectors = bio->nr_sectors;
    request_add_bio(linker, request, bio);
    if (segment_add(linker, request, bio->sector, bio->sector + bio->nr_sectors, bio))
        request_close(linker, request);
}

void bio_reduce_waiting(struct linker *linker, struct bio *bio, int64_t nr_sectors)
{
    bio->waiting -= nr_sectors;
    if (bio->waiting)
        return;
    if (!bio->requests)
        bio_strand(linker, bio);
    if (bio->requests == 1)
        request_release(linker, bio->first);
    else if (bio->requests && !bio->segments)
        pool_give_back(&linker->bio_pool, bio);
}

static bool stop_waiting(void *context, struct span part)
{
    struct linker *linker = context;

    bio_reduce_waiting(linker, (struct bio *)(uintptr_t)part.value, part.end - part.start);
    return !linker->is_out_of_memory;
}

static bool get_start(void *context, struct span part)
{
    *(int64_t *)context = part.start;
    return false;
}

// Rule bio_choice: the bio that the request has the previous sector of, then one of the issuing thread, then the
// latest. Rule same_row: none of another row.
static int choice_rank(const struct bio *bio, const struct bio *before, int32_t tid, int64_t row)
{
    if (are_other_rows(bio->queued.stamp.row, row))
        return -1;
    if (bio == before)
        return 2;
    return tid != NO_INT32 && bio->queued.tid == tid;
}

struct spans *bio_choose(struct spans *layers, int64_t at, const struct bio *before, int32_t tid, int64_t row,
                         int64_t *end)
{
    struct spans *chosen = NULL;
    int64_t limit = *end;
    int best = -1;

    for (size_t layer = 0; layer < MAX_WAITING; layer++) {
        const struct span *span = spans_at(&layers[layer], at);
        int64_t change = span ? span->end : limit;

        if (!span)
            spans_see(&layers[layer], at, limit, get_start, &change);
        if (change < *end)
            *end = change;
        if (!span)
            continue;
        int rank = choice_rank((const struct bio *)(uintptr_t)span->value, before, tid, row);
        if (rank > best) {
            best = rank;
            chosen = &layers[layer];
        }
    }
    return chosen;
}

const struct bio *bio_at(const struct device *device, uint8_t op, int64_t sector)
{
    for (size_t layer = 0; layer < MAX_WAITING; layer++) {
        const struct span *span = spans_at(&device->waiting[op][layer], sector);

        if (span)
            return (const struct bio *)(uintptr_t)span->value;
    }
    return NULL;
}

struct insertion {
    struct linker *linker;
    struct spans *layer;
    struct spans *end;
};

static bool move_down(void *context, struct span part);

static bool insert(struct linker *linker, struct spans *layer, struct spans *end, struct span span)
{
    struct insertion below = {linker, layer + 1, end};

    return spans_take(layer, span.start, span.end, move_down, &below) && spans_put(layer, span);
}

// Move sectors of an earlier bio to the next layer. Rule waiting_limit: below the last layer it no longer waits.
static bool move_down(void *context, struct span part)
{
    const struct insertion *below = context;

    return below->layer == below->end ? stop_waiting(below->linker, part)
                                      : insert(below->linker, below->layer, below->end, part);
}

// Rule split_remainder. Return whether the bio is the end of `whole`, queued by the same thread.
static bool is_remainder(const struct bio *bio, const struct bio *whole)
{
    int64_t end = bio->sector + bio->nr_sectors;

    if (!whole || bio->queued.tid == NO_INT32 || whole->queued.tid != bio->queued.tid ||
        are_other_rows(bio->queued.stamp.row, whole->queued.stamp.row))
        return false;
    return whole->sector < bio->sector && whole->sector + whole->nr_sectors == end;
}

// Rule split_remainder. Remove the sectors of `whole` that the remainder will wait for.
static bool remove_end(struct linker *linker, struct spans *layers, const struct bio *whole, struct span span)
{
    for (int64_t at = span.start, end; at < span.end; at = end) {
        struct spans *layer;
        const struct span *found;

        end = span.end;
        layer = bio_choose(layers, at, whole, NO_INT32, NO_INT64, &end);
        found = layer ? spans_at(layer, at) : NULL;
        if (found && (const struct bio *)(uintptr_t)found->value == whole &&
            !spans_take(layer, at, end, stop_waiting, linker))
            return false;
    }
    return true;
}

void bio_queue(struct linker *linker, const struct event *event)
{
    struct spans *layers = event->device->waiting[event->meaning.op];
    const struct bio *before = bio_at(event->device, event->meaning.op, event->sector);
    struct bio *bio = pool_take(&linker->bio_pool);
    struct span span = {event->sector, event->sector + event->nr_sectors, (int64_t)(uintptr_t)bio};

    if (!bio) {
        linker->is_out_of_memory = true;
        return;
    }
    *bio = (struct bio){
        .queued = submission_of(linker, event),
        .device = event->device,
        .sector = event->sector,
        .nr_sectors = event->nr_sectors,
    };
    upper_take(linker, event, &bio->queued);
    if (!(event->device->flags & (DEVICE_HAS_ISSUES | DEVICE_HAS_COMPLETIONS))) {
        bio_strand(linker, bio); // the device has no requests
        return;
    }
    bio->waiting = event->nr_sectors;
    if ((is_remainder(bio, before) && !remove_end(linker, layers, before, span)) ||
        !insert(linker, layers, layers + MAX_WAITING, span))
        linker->is_out_of_memory = true;
}

void bios_close(struct linker *linker)
{
    for (struct device *device = linker->devices; device; device = device->next)
        for (size_t op = 0; op < NR_OPERATIONS; op++)
            for (size_t layer = 0; layer < MAX_WAITING; layer++)
                if (!spans_take(&device->waiting[op][layer], INT64_MIN, INT64_MAX, stop_waiting, linker))
                    linker->is_out_of_memory = true;
}
