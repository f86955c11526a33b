// Who queued a bio on a device above: device-mapper and others hand bios on from threads of their own, later.
#include "link/linker.h"
#include "link/origins.h"

static void release(struct linker *linker, struct above *above, int64_t nr_sectors)
{
    above->waiting -= nr_sectors;
    if (!above->waiting)
        pool_give_back(&linker->above_pool, above);
}

struct queueing {
    struct linker *linker;
    struct above *above;
};

// Of two that wait at one place nothing tells which is handed on first.
static bool dispute(void *context, struct span part)
{
    struct queueing *queueing = context;
    struct above *before = (struct above *)(uintptr_t)part.value;

    queueing->above->is_disputed |= before->is_disputed || before->queued.tid != queueing->above->queued.tid;
    release(queueing->linker, before, part.end - part.start);
    return true;
}

void above_queue(struct linker *linker, const struct step *step)
{
    struct spans *spans = &step->device->above[step->meaning.op];
    struct span span = {.start = step->sector, .end = step->sector + step->nr_sectors};
    struct queueing queueing = {.linker = linker};

    if (!step->nr_sectors)
        return;
    queueing.above = pool_take(&linker->above_pool);
    if (!queueing.above) {
        linker->is_out_of_memory = true;
        return;
    }
    *queueing.above = (struct above){.queued = submission_of(linker, step), .waiting = step->nr_sectors};
    span.value = (int64_t)(uintptr_t)queueing.above;
    if (!spans_take(spans, span.start, span.end, dispute, &queueing) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}

static bool hand_on(void *context, struct span part)
{
    release(context, (struct above *)(uintptr_t)part.value, part.end - part.start);
    return true;
}

void above_take(struct linker *linker, const struct step *step, struct submission *submission)
{
    struct origin origin = origin_in_partition(linker, submission->origin, step->sector);
    struct device *device = (struct device *)(uintptr_t)map_value(&linker->device_of, origin.dev, 0);
    int64_t place = difference(step->sector, origin.offset);
    struct spans *spans = device ? &device->above[step->meaning.op] : NULL;
    const struct span *span = spans ? spans_at(spans, place) : NULL;
    const struct above *above;

    if (!span)
        return;
    above = (const struct above *)(uintptr_t)span->value;
    submission->submit_ns = above->queued.submit_ns;
    submission->tid = above->is_disputed ? NO_INT32 : above->queued.tid;
    submission->pid = above->is_disputed ? NO_INT32 : above->queued.pid;
    submission->comm = above->is_disputed ? NO_STRING : above->queued.comm;
    if (!spans_take(spans, place, sum(place, step->nr_sectors), hand_on, linker))
        linker->is_out_of_memory = true;
}
