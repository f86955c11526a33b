// The segments of a request: its sectors, split where its bios meet.
#include "link/linker.h"

bool segment_add(struct linker *linker, struct request *request, int64_t start, int64_t end, struct bio *bio)
{
    struct segment *last = request->last_segment, *segment;

    if (last && last->bio == bio) {
        last->nr_sectors += end - start;
        return true;
    }
    segment = pool_take(&linker->segment_pool);
    if (!segment) {
        linker->is_out_of_memory = true;
        return false;
    }
    *segment = (struct segment){NULL, bio, start, end - start};
    if (last)
        last->next = segment;
    else
        request->segments = segment;
    request->last_segment = segment;
    if (bio)
        bio->segments++;
    return true;
}

void segment_free(struct linker *linker, struct segment *segment)
{
    struct bio *bio = segment->bio;

    if (bio && !--bio->segments && !bio->waiting)
        pool_give_back(&linker->bio_pool, bio);
    pool_give_back(&linker->segment_pool, segment);
}

void request_add_bio(const struct linker *linker, struct request *request, const struct bio *bio)
{
    request->nr_bios++;
    request->bio_flags |= meaning_of(linker, bio->queued.stamp.rwbs).flags;
    if (bio->queued.stamp.index < request->first.stamp.index)
        request->first = bio->queued;
}

// --- taking bios -----------------------------------------------------------------------------------------------------

struct taking {
    struct linker *linker;
    struct request *request;
    int64_t at; // end of the last segment
};

// The request is one that takes sectors of the bio. A bio with several requests is split.
static void add_request(struct linker *linker, struct bio *bio, struct request *request)
{
    if (bio->requests && bio->last_request == request->id)
        return;
    bio->last_request = request->id;
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
    request_add_bio(linker, request, bio);
}

static bool take(void *context, struct span part)
{
    struct taking *taking = context;
    struct linker *linker = taking->linker;
    struct bio *bio = (struct bio *)(uintptr_t)part.value;

    if (part.start > taking->at && !segment_add(linker, taking->request, taking->at, part.start, NULL))
        return false;
    if (!segment_add(linker, taking->request, part.start, part.end, bio))
        return false;
    taking->at = part.end;
    add_request(linker, bio, taking->request);
    bio_reduce_waiting(linker, bio, part.end - part.start);
    return !linker->is_out_of_memory;
}

static bool is_single(const struct spans *layers)
{
    for (size_t layer = 1; layer < MAX_WAITING; layer++)
        if (layers[layer].count)
            return false;
    return true;
}

static bool take_chosen(struct taking *taking, struct spans *layers, int64_t limit, int32_t tid)
{
    for (int64_t at = taking->at, end; at < limit; at = end) {
        const struct segment *last = taking->request->last_segment;
        struct spans *layer;

        end = limit;
        layer = bio_choose(layers, at, taking->at == at && last ? last->bio : NULL, tid, taking->request->row, &end);
        if (layer && !spans_take(layer, at, end, take, taking))
            return false;
    }
    return true;
}

// Take the bios that wait for the sectors of the request from `start` on.
static void take_bios(struct linker *linker, struct request *request, int64_t start, int32_t tid)
{
    int64_t end = request->sector + request->nr_sectors;
    struct spans *layers = request->device->waiting[request->op];
    struct taking taking = {linker, request, start};
    bool is_done = is_single(layers) && request->row == NO_INT64 ? spans_take(&layers[0], start, end, take, &taking)
                                                                 : take_chosen(&taking, layers, end, tid);

    if (!is_done)
        linker->is_out_of_memory = true;
    else if (taking.at < end)
        segment_add(linker, request, taking.at, end, NULL);
}

void request_take_bios(struct linker *linker, struct request *request, int32_t tid)
{
    take_bios(linker, request, request->sector, tid);
}

// --- changing the length ---------------------------------------------------------------------------------------------

static bool stop(void *context, struct span part)
{
    (void)context;
    (void)part;
    return false;
}

static bool is_free(const struct spans *layers, int64_t start, int64_t end)
{
    for (size_t layer = 0; layer < MAX_WAITING; layer++)
        if (!spans_see(&layers[layer], start, end, stop, NULL))
            return false;
    return true;
}

// Return sectors to a bio: they wait for a request again unless a later bio waits there.
static void return_sectors(struct linker *linker, struct request *request, struct bio *bio, int64_t start, int64_t end)
{
    struct spans *layers = request->device->waiting[request->op];
    bool has_waited = bio->waiting > 0;

    if (is_free(layers, start, end)) {
        if (!spans_put(&layers[0], (struct span){start, end, (int64_t)(uintptr_t)bio})) {
            linker->is_out_of_memory = true;
            return;
        }
        bio->waiting += end - start;
        if (!has_waited && bio->requests == 1)
            request->holds++;
    }
    if (bio->counted == linker->counts || bio->requests != 1)
        return;
    // The request has no sectors of the bio any more.
    if (bio->waiting)
        request->holds--;
    bio->requests = 0;
    bio->first = NULL;
    if (!bio->waiting)
        bio_strand(linker, bio);
}

// Determine the bios of a request again, from its segments up to `end`. Returns the last of these segments.
static struct segment *count_bios(struct linker *linker, struct request *request, int64_t end)
{
    struct segment *last = NULL;

    linker->counts++;
    request->nr_bios = 0;
    request->bio_flags = 0;
    request->first = no_submission;
    for (struct segment *segment = request->segments; segment && segment->sector < end; segment = segment->next) {
        last = segment;
        if (!segment->bio || segment->bio->counted == linker->counts)
            continue;
        segment->bio->counted = linker->counts;
        request_add_bio(linker, request, segment->bio);
    }
    return last;
}

static void shorten(struct linker *linker, struct request *request, int64_t end)
{
    struct segment *last = count_bios(linker, request, end), *segment, *next;
    int64_t last_end;

    request->last_segment = last;
    if (!last)
        return; // not reached: a request has at least one sector
    segment = last->next;
    last->next = NULL;
    last_end = last->sector + last->nr_sectors;
    if (last_end > end) {
        last->nr_sectors = end - last->sector;
        if (last->bio)
            return_sectors(linker, request, last->bio, end, last_end);
    }
    for (; segment; segment = next) {
        next = segment->next;
        if (segment->bio)
            return_sectors(linker, request, segment->bio, segment->sector, segment->sector + segment->nr_sectors);
        segment_free(linker, segment);
    }
}

void request_resize(struct linker *linker, struct request *request, int64_t nr_sectors, int32_t tid)
{
    int64_t old_end = request->sector + request->nr_sectors, end = request->sector + nr_sectors;

    request->nr_sectors = nr_sectors;
    if (end < old_end) {
        shorten(linker, request, end);
    } else if (end > old_end) {
        take_bios(linker, request, old_end, tid);
        count_bios(linker, request, INT64_MAX);
    }
}
