// Find who queued a bio on a device above. Device-mapper and others pass bios on later, from threads of their own.
#include "link/linker.h"

static void stop_waiting(struct linker *linker, struct upper_bio *bio, int64_t nr_sectors)
{
    bio->waiting -= nr_sectors;
    if (!bio->waiting)
        pool_give_back(&linker->upper_pool, bio);
}

struct queueing {
    struct linker *linker;
    struct upper_bio *bio;
};

// Replace the sectors of an earlier bio. No event shows which of the two is passed on first.
static bool replace(void *context, struct span part)
{
    struct queueing *queueing = context;
    struct upper_bio *earlier = (struct upper_bio *)(uintptr_t)part.value;

    queueing->bio->is_ambiguous |= earlier->is_ambiguous || earlier->queued.tid != queueing->bio->queued.tid;
    stop_waiting(queueing->linker, earlier, part.end - part.start);
    return true;
}

void upper_queue(struct linker *linker, const struct event *event)
{
    struct spans *spans = &event->device->upper[event->meaning.op];
    struct span span = {.start = event->sector, .end = event->sector + event->nr_sectors};
    struct queueing queueing = {.linker = linker};

    if (!event->nr_sectors)
        return;
    queueing.bio = pool_take(&linker->upper_pool);
    if (!queueing.bio) {
        linker->is_out_of_memory = true;
        return;
    }
    *queueing.bio = (struct upper_bio){.queued = submission_of(linker, event), .waiting = event->nr_sectors};
    span.value = (int64_t)(uintptr_t)queueing.bio;
    if (!spans_take(spans, span.start, span.end, replace, &queueing) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}

static bool pass_on(void *context, struct span part)
{
    stop_waiting(context, (struct upper_bio *)(uintptr_t)part.value, part.end - part.start);
    return true;
}

void upper_take(struct linker *linker, const struct event *event, struct submission *submission)
{
    struct origin origin = origin_in_partition(linker, submission->origin, event->sector);
    struct device *device = (struct device *)(uintptr_t)map_value(&linker->device_of, origin.dev, 0);
    int64_t sector = difference(event->sector, origin.offset);
    struct spans *spans = device ? &device->upper[event->meaning.op] : NULL;
    const struct span *span = spans ? spans_at(spans, sector) : NULL;
    const struct upper_bio *bio;

    if (!span)
        return;
    bio = (const struct upper_bio *)(uintptr_t)span->value;
    submission->submit_ns = bio->queued.submit_ns;
    submission->tid = bio->is_ambiguous ? NO_INT32 : bio->queued.tid;
    submission->pid = bio->is_ambiguous ? NO_INT32 : bio->queued.pid;
    submission->comm = bio->is_ambiguous ? NO_STRING : bio->queued.comm;
    if (!spans_take(spans, sector, sum(sector, event->nr_sectors), pass_on, linker))
        linker->is_out_of_memory = true;
}
