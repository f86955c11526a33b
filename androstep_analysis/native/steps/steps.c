// Computes the latencies between stages of every bio as btt does: from block events ordered by time to one row for each
// interval.
#include "core/array.h"
#include "core/map.h"
#include "core/pool.h"
#include "core/spans.h"
#include "core/table.h"

#include <stdlib.h>
#include <string.h>

// The order is that of STEPS in measures/bio_steps.py.
enum step_name { Q2Q, Q2Q_ALL, Q2A, Q2G, S2G, G2I, Q2M, I2D, M2D, D2C, Q2C, SEEK_Q, SEEK_D, ACTIVE, BLOCKS };

static const int64_t NEVER = INT64_MIN;

struct row {
    int64_t value;
    int64_t from_ns, ts_ns; // a missing event in this range may change the value; NEVER: or before it
    uint32_t dev;
    int32_t tid;
    uint8_t step;
};

// A bio in progress, with the times of its stages.
struct bio {
    int64_t sector, end;
    int64_t queued, slept, got, inserted, merged, issued;
    int32_t tid;
};

struct place {
    int64_t start, end, ts_ns;
};

struct device {
    struct spans bios; // at their first sectors, all different; bios may overlap
    int64_t active;    // queued and not yet issued or merged
    struct place queued_at, issued_at;
    uint32_t dev;
    bool is_seen; // a bio was queued or remapped; earlier events are ignored
};

struct steps {
    struct map numbers; // index of the device plus 1
    struct device *devices;
    size_t nr_devices, room_devices;
    struct pool bio_pool;
    struct bio **kept; // bios that a completion must keep
    size_t nr_kept, room_kept;
    struct row *rows;
    size_t nr_rows, room_rows;
    int64_t last_queued; // on any device
};

struct events {
    size_t count;
    const int64_t *ts_ns, *sector, *nr_sectors, *old_sector;
    const uint32_t *dev, *old_dev;
    const int32_t *tid;
    const uint8_t *action;
};

API struct steps *bio_steps_new(void);
API void bio_steps_free(struct steps *steps);
API int64_t bio_steps_add(struct steps *steps, const struct events *events);
API const void *bio_steps_rows(const struct steps *steps);

struct steps *bio_steps_new(void)
{
    struct steps *steps = calloc(1, sizeof(*steps));

    if (steps) {
        steps->last_queued = NEVER;
        steps->bio_pool.size = sizeof(struct bio);
    }
    return steps;
}

void bio_steps_free(struct steps *steps)
{
    if (!steps)
        return;
    for (size_t i = 0; i < steps->nr_devices; i++)
        spans_free(&steps->devices[i].bios);
    pool_free(&steps->bio_pool);
    free(steps->kept);
    free(steps->devices);
    free(steps->rows);
    map_free(&steps->numbers);
    free(steps);
}

const void *bio_steps_rows(const struct steps *steps)
{
    return steps->rows;
}

static struct device *device(struct steps *steps, uint32_t dev)
{
    uint64_t *number;

    if (!array_reserve(&steps->devices, steps->nr_devices, &steps->room_devices, sizeof(*steps->devices)))
        return NULL;
    number = map_add(&steps->numbers, 0, dev);
    if (!number)
        return NULL;
    if (!*number) {
        struct device *added = &steps->devices[steps->nr_devices++];

        memset(added, 0, sizeof(*added));
        added->dev = dev;
        added->queued_at.ts_ns = added->issued_at.ts_ns = NEVER;
        *number = steps->nr_devices;
    }
    return &steps->devices[*number - 1];
}

static bool put(struct steps *steps, enum step_name step, const struct device *of, const struct bio *bio,
                int64_t from_ns, int64_t ts_ns, int64_t value)
{
    if (!array_reserve(&steps->rows, steps->nr_rows, &steps->room_rows, sizeof(*steps->rows)))
        return false;
    steps->rows[steps->nr_rows++] = (struct row){
        .value = value, .from_ns = from_ns, .ts_ns = ts_ns, .dev = of->dev, .tid = bio->tid, .step = (uint8_t)step};
    return true;
}

// Add an interval of the bio from a known time; like btt, at least a nanosecond. Events lost since the bio was queued
// may have ended it.
static bool step(struct steps *steps, enum step_name which, const struct device *of, const struct bio *bio,
                 int64_t from, int64_t to)
{
    return from == NEVER ||
           put(steps, which, of, bio, from < bio->queued ? from : bio->queued, to, from < to ? to - from : 1);
}

static struct bio *bio_of(const struct span *span)
{
    return (struct bio *)(uintptr_t)span->value;
}

static bool keep(struct device *of, struct bio *bio)
{
    return spans_put(&of->bios, (struct span){bio->sector, bio->sector + 1, (int64_t)(uintptr_t)bio});
}

// Return the bio that contains the sector: the last one that starts at or before it, or NULL.
static struct bio *holding(struct device *of, int64_t sector)
{
    const struct span *span = spans_before(&of->bios, sector + 1);
    struct bio *bio = span ? bio_of(span) : NULL;

    return bio && (bio->sector == sector || sector < bio->end) ? bio : NULL;
}

// Add the distance from the last position to this start, negative if it is before it, and 0 if they touch.
static bool seek(struct steps *steps, enum step_name which, const struct device *of, struct place *last,
                 const struct bio *next)
{
    struct place to = {next->sector, next->end, next->queued};
    int64_t from_ns = last->ts_ns;
    int64_t distance;

    if ((last->start <= to.start && to.start <= last->end) || (last->start <= to.end && to.end <= last->end))
        distance = 0;
    else
        distance = to.start - (to.start > last->end ? last->end : last->start);
    *last = to;
    return put(steps, which, of, next, from_ns, to.ts_ns, distance);
}

static bool queue(struct steps *steps, struct device *of, const struct bio *bio)
{
    const struct span *same = spans_at(&of->bios, bio->sector);
    // A bio that was split is never completed as a whole; it is replaced, as in btt.
    struct bio *kept = same ? bio_of(same) : pool_take(&steps->bio_pool);
    int64_t last = of->queued_at.ts_ns, last_all = steps->last_queued;

    if (!kept)
        return false;
    *kept = *bio;
    if (!same && !keep(of, kept))
        return false;
    steps->last_queued = bio->queued;
    return seek(steps, SEEK_Q, of, &of->queued_at, bio) && step(steps, Q2Q, of, bio, last, bio->queued) &&
           step(steps, Q2Q_ALL, of, bio, last_all, bio->queued) &&
           put(steps, ACTIVE, of, bio, bio->queued, bio->queued, of->active++);
}

static void leave(struct device *of)
{
    if (of->active)
        of->active--;
}

// A request that is issued or completed, with the bios that are completely within it.
struct passing {
    struct steps *steps;
    struct device *of;
    const struct bio *request;
};

static bool issue_one(void *context, struct span span)
{
    struct passing *passing = context;
    struct bio *bio = bio_of(&span);

    if (bio->end > passing->request->end)
        return true;
    bio->issued = passing->request->queued;
    return bio->inserted != NEVER ? step(passing->steps, I2D, passing->of, bio, bio->inserted, bio->issued)
                                  : step(passing->steps, M2D, passing->of, bio, bio->merged, bio->issued);
}

static bool issue(struct steps *steps, struct device *of, const struct bio *request)
{
    struct passing passing = {steps, of, request};

    leave(of);
    return seek(steps, SEEK_D, of, &of->issued_at, request) &&
           spans_see(&of->bios, request->sector, request->end, issue_one, &passing);
}

static bool complete_one(void *context, struct span span)
{
    struct passing *passing = context;
    struct steps *steps = passing->steps;
    struct bio *bio = bio_of(&span);
    int64_t now = passing->request->queued;
    bool is_put;

    if (bio->end > passing->request->end) {
        if (!array_reserve(&steps->kept, steps->nr_kept, &steps->room_kept, sizeof(*steps->kept)))
            return false;
        steps->kept[steps->nr_kept++] = bio;
        return true;
    }
    is_put =
        step(steps, Q2C, passing->of, bio, bio->queued, now) && step(steps, D2C, passing->of, bio, bio->issued, now);
    pool_give_back(&steps->bio_pool, bio);
    return is_put;
}

static bool complete(struct steps *steps, struct device *of, const struct bio *request)
{
    struct passing passing = {steps, of, request};

    steps->nr_kept = 0;
    if (!put(steps, BLOCKS, of, request, request->queued, request->queued, request->end - request->sector) ||
        !spans_take(&of->bios, request->sector, request->end, complete_one, &passing))
        return false;
    for (size_t i = 0; i < steps->nr_kept; i++) {
        if (!keep(of, steps->kept[i]))
            return false;
    }
    return true;
}

// Add a stage of the bio that contains the first sector, if there is one.
static bool of_one(struct steps *steps, struct device *of, enum action action, int64_t sector, int64_t now)
{
    struct bio *bio = holding(of, sector);

    if (!bio)
        return true;
    switch (action) {
    case ACTION_GETRQ:
        bio->got = now;
        return step(steps, Q2G, of, bio, bio->queued, now) && step(steps, S2G, of, bio, bio->slept, now);
    case ACTION_SLEEP:
        bio->slept = now;
        return true;
    case ACTION_INSERT:
        bio->inserted = now;
        return step(steps, G2I, of, bio, bio->got, now);
    default:
        bio->merged = now;
        return step(steps, Q2M, of, bio, bio->queued, now);
    }
}

static bool remap(struct steps *steps, uint32_t from, int64_t sector, int64_t now)
{
    const uint64_t *number = map_find(&steps->numbers, 0, from);
    struct device *above = number ? &steps->devices[*number - 1] : NULL;
    const struct bio *bio = above ? holding(above, sector) : NULL;

    return !bio || step(steps, Q2A, above, bio, bio->queued, now);
}

static bool add(struct steps *steps, const struct events *events, size_t i)
{
    struct bio bio = {.sector = events->sector[i],
                      .end = events->sector[i] + events->nr_sectors[i],
                      .queued = events->ts_ns[i],
                      .slept = NEVER,
                      .got = NEVER,
                      .inserted = NEVER,
                      .merged = NEVER,
                      .issued = NEVER,
                      .tid = events->tid[i]};
    enum action action = events->action[i];
    struct device *of = device(steps, events->dev[i]);
    bool is_added = true;

    if (!of)
        return false;
    of->is_seen |= action == ACTION_QUEUE || action == ACTION_REMAP;
    if (!of->is_seen)
        return true;
    switch (action) {
    case ACTION_QUEUE:
        return queue(steps, of, &bio);
    case ACTION_REMAP:
        return remap(steps, events->old_dev[i], events->old_sector[i], bio.queued);
    case ACTION_BACKMERGE:
    case ACTION_FRONTMERGE:
        is_added = of_one(steps, of, action, bio.sector, bio.queued);
        leave(of);
        return is_added;
    case ACTION_ISSUE:
        return issue(steps, of, &bio);
    case ACTION_REQUEUE:
        return put(steps, ACTIVE, of, &bio, bio.queued, bio.queued, of->active++);
    case ACTION_COMPLETE:
        return complete(steps, of, &bio);
    default:
        return of_one(steps, of, action, bio.sector, bio.queued);
    }
}

// Process events. Returns the number of rows in bio_steps_rows, which are valid until the next call, or -1 if memory
// runs out.
int64_t bio_steps_add(struct steps *steps, const struct events *events)
{
    steps->nr_rows = 0;
    for (size_t i = 0; i < events->count; i++) {
        if (!add(steps, events, i))
            return -1;
    }
    return (int64_t)steps->nr_rows;
}
