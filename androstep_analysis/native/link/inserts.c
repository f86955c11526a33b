// When the sectors of a request were inserted.
#include "link/linker.h"

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

int64_t request_insert_ns(const struct request *request)
{
    return inserts_of(request).first;
}

static bool pass(void *context, struct span part)
{
    (void)context;
    (void)part;
    return true;
}

void inserts_forget(struct linker *linker, const struct request *request)
{
    struct spans *inserts = &request->device->inserts[request->op];

    if (inserts->count && inserts_of(request).last <= request->issue.ts_ns &&
        !spans_take(inserts, request->sector, request->sector + request->nr_sectors, pass, NULL))
        linker->is_out_of_memory = true;
}

void step_insert(struct linker *linker, const struct step *step)
{
    struct spans *spans = &step->device->inserts[step->meaning.op];
    struct span span = {step->sector, step->sector + step->nr_sectors, step->event.ts_ns};

    if (!step->nr_sectors || !(step->device->flags & DEVICE_HAS_ISSUES))
        return;
    if (!spans_take(spans, span.start, span.end, pass, NULL) || !spans_put(spans, span))
        linker->is_out_of_memory = true;
}
