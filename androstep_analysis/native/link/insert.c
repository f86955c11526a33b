// Find when the sectors of a request were inserted into the queue (rule first_insert).
#include "link/linker.h"

struct inserts {
    int64_t since;
    int64_t first;
    int64_t last;
};

static bool examine(void *context, struct span part)
{
    struct inserts *inserts = context;

    if (part.value >= inserts->since && (inserts->first == NO_INT64 || part.value < inserts->first))
        inserts->first = part.value;
    if (part.value > inserts->last)
        inserts->last = part.value;
    return true;
}

static struct inserts inserts_of(const struct request *request)
{
    bool has_bio = request->first.stamp.index != NO_EVENT;
    struct inserts inserts = {has_bio ? request->first.stamp.ts_ns : INT64_MIN, NO_INT64, INT64_MIN};

    spans_see(&request->device->inserts[request->op], request->sector, request->sector + request->nr_sectors, examine,
              &inserts);
    return inserts;
}

int64_t request_insert_ns(const struct request *request)
{
    return inserts_of(request).first;
}

static bool discard(void *context, struct span part)
{
    (void)context;
    (void)part;
    return true;
}

void inserts_forget(struct linker *linker, const struct request *request)
{
    struct spans *inserts = &request->device->inserts[request->op];
    int64_t end = request->sector + request->nr_sectors;

    if (inserts->count && inserts_of(request).last <= request->issue.ts_ns &&
        !spans_take(inserts, request->sector, end, discard, NULL))
        linker->is_out_of_memory = true;
}

void on_insert(struct linker *linker, const struct event *event)
{
    struct spans *spans = &event->device->inserts[event->meaning.op];
    struct span span = {event->sector, event->sector + event->nr_sectors, event->stamp.ts_ns};

    if (!event->nr_sectors || !(event->device->flags & DEVICE_HAS_ISSUES))
        return;
    if (!spans_take(spans, span.start, span.end, discard, NULL) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}
