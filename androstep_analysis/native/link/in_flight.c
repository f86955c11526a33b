// Requests in flight, by their sector.
#include "link/linker.h"

static uint64_t index_space(const struct event *event, uint8_t kind)
{
    bool has_sectors = kind >= KIND_SECTORS;

    return (uint64_t)event->device->dev << 8 | (has_sectors ? event->meaning.op << 4 : 0) | kind;
}

static struct request *first_at(const struct linker *linker, const struct event *event, uint8_t kind, int64_t sector)
{
    return (struct request *)(uintptr_t)map_value(&linker->in_flight, index_space(event, kind), (uint64_t)sector);
}

// Insert the request before those with its key. Returns the next one of these.
static struct request *index_add(struct linker *linker, const struct event *event, uint8_t kind, int64_t sector,
                                 struct request *request)
{
    uint64_t *first = map_add(&linker->in_flight, index_space(event, kind), (uint64_t)sector);
    struct request *next;

    if (!first) {
        linker->is_out_of_memory = true;
        return NULL;
    }
    next = (struct request *)(uintptr_t)*first;
    *first = (uintptr_t)request;
    return next;
}

static int64_t key_of(const struct event *event)
{
    return event->kind == KIND_FLUSH ? 0 : event->sector;
}

struct request *in_flight_at(const struct linker *linker, const struct event *event)
{
    return first_at(linker, event, event->kind, key_of(event));
}

static void append_add(struct linker *linker, const struct event *event, struct request *request)
{
    request->next_append = index_add(linker, event, KIND_APPEND, request->nr_sectors, request);
    if (request->next_append)
        request->next_append->last_append = request;
}

static void append_remove(struct linker *linker, const struct event *event, struct request *request)
{
    uint64_t space = index_space(event, KIND_APPEND), key = (uint64_t)request->nr_sectors;
    uint64_t *first = map_find(&linker->in_flight, space, key);

    if (request->next_append)
        request->next_append->last_append = request->last_append;
    if (request->last_append)
        request->last_append->next_append = request->next_append;
    else if (request->next_append && first)
        *first = (uintptr_t)request->next_append;
    else
        map_remove(&linker->in_flight, space, key);
}

struct request *append_of(const struct linker *linker, const struct event *event)
{
    struct request *first = first_at(linker, event, KIND_APPEND, event->nr_sectors), *best = NULL;
    int depth = 0;

    for (struct request *request = first; request && depth < MAX_IN_FLIGHT; request = request->next_append, depth++)
        if (!request->awaits_reissue && request->sector <= event->sector && (!best || request->sector >= best->sector))
            best = request;
    depth = 0;
    for (struct request *request = first; best && request && depth < MAX_IN_FLIGHT;
         request = request->next_append, depth++)
        if (request != best && !request->awaits_reissue && request->sector == best->sector)
            request->is_interchangeable = best->is_interchangeable = true; // rule identical_requests
    return best;
}

void in_flight_add(struct linker *linker, const struct event *event, struct request *request)
{
    request->next = index_add(linker, event, event->kind, key_of(event), request);
    if (is_append(event))
        append_add(linker, event, request);
}

void in_flight_remove(struct linker *linker, const struct event *event, struct request *request)
{
    uint64_t space = index_space(event, event->kind);
    uint64_t key = (uint64_t)(event->kind == KIND_SECTORS ? request->sector : key_of(event));
    uint64_t *first = map_find(&linker->in_flight, space, key);
    struct request *other;

    if (is_append(event))
        append_remove(linker, event, request);
    if (!first)
        return;
    other = (struct request *)(uintptr_t)*first;
    if (other != request) {
        other->is_latest = false;
        while (other->next != request)
            other = other->next;
        other->next = request->next;
    } else if (request->next) {
        *first = (uintptr_t)request->next;
        request->next->is_latest = false;
    } else {
        map_remove(&linker->in_flight, space, key);
    }
}

struct request *in_flight_like(const struct linker *linker, const struct event *event, bool awaits_reissue)
{
    struct request *first = in_flight_at(linker, event), *best = first;
    int best_rank = 0, depth = 0;

    for (struct request *request = first; request && depth < MAX_IN_FLIGHT; request = request->next, depth++) {
        // Rule flush_by_cpu: prefer the flush that was issued on the CPU of the event.
        bool is_same_cpu = request->issue.index != NO_EVENT && request->issue.cpu == event->stamp.cpu;
        bool is_alike = event->kind == KIND_FLUSH ? is_same_cpu : request->nr_sectors == event->nr_sectors;
        int rank = request->awaits_reissue == awaits_reissue ? 1 + is_alike : 0;

        if (rank > best_rank) {
            best_rank = rank;
            best = request;
        }
    }
    return best;
}

// --- remainders of partly completed requests -------------------------------------------------------------------------

struct request *remainders_at(const struct linker *linker, const struct event *event)
{
    return first_at(linker, event, KIND_REMAINDER, event->sector);
}

void remainder_add(struct linker *linker, const struct event *event, struct request *request)
{
    int64_t sector = request->sector + request->done;

    request->next_at_sector = index_add(linker, event, KIND_REMAINDER, sector, request);
}

void remainder_remove(struct linker *linker, const struct event *event, struct request *request)
{
    uint64_t space = index_space(event, KIND_REMAINDER), key = (uint64_t)(request->sector + request->done);
    uint64_t *first = map_find(&linker->in_flight, space, key);
    struct request *before = first ? (struct request *)(uintptr_t)*first : NULL;

    if (before == request && request->next_at_sector) {
        *first = (uintptr_t)request->next_at_sector;
    } else if (before == request) {
        map_remove(&linker->in_flight, space, key);
    } else {
        while (before && before->next_at_sector != request)
            before = before->next_at_sector;
        if (before)
            before->next_at_sector = request->next_at_sector;
    }
}

struct request *remainder_of(const struct linker *linker, const struct event *event, bool awaits_reissue)
{
    struct request *request = event->kind == KIND_SECTORS ? remainders_at(linker, event) : NULL;

    for (int depth = 0; request && depth < MAX_IN_FLIGHT; request = request->next_at_sector, depth++)
        if (request->nr_sectors - request->done == event->nr_sectors && request->awaits_reissue == awaits_reissue)
            return request;
    return NULL;
}

// --- earlier completions and issues ----------------------------------------------------------------------------------

void past_add(struct linker *linker, struct past_event **events, struct past_event event)
{
    struct past_event *added = pool_take(&linker->past_pool);

    if (!added) {
        linker->is_out_of_memory = true;
        return;
    }
    event.next = *events;
    *added = event;
    *events = added;
}

void past_forget(struct linker *linker, struct past_event **events)
{
    while (*events) {
        struct past_event *event = *events;

        *events = event->next;
        pool_give_back(&linker->past_pool, event);
    }
}

// --- rule two_completions --------------------------------------------------------------------------------------------

void reissued_add(struct linker *linker, const struct event *event, struct request *request)
{
    request->next_at_sector = index_add(linker, event, KIND_REISSUED, request->sector, request);
    request->holds++;
}

// All issues were of the request.
static void settle_issues(struct linker *linker, struct request *request)
{
    request->was_requeued |= request->issues != NULL;
    past_forget(linker, &request->issues);
}

static void settle_all(struct linker *linker, struct request *request)
{
    while (request) {
        struct request *next = request->next_at_sector;

        settle_issues(linker, request);
        request_release(linker, request);
        request = next;
    }
}

void reissued_forget(struct linker *linker, const struct event *event)
{
    struct request *first = first_at(linker, event, KIND_REISSUED, event->sector);

    if (!first)
        return;
    map_remove(&linker->in_flight, index_space(event, KIND_REISSUED), (uint64_t)event->sector);
    settle_all(linker, first);
}

struct request *reissued_take(struct linker *linker, const struct event *event)
{
    struct request *of = first_at(linker, event, KIND_REISSUED, event->sector), *request;
    struct past_event *issue;
    int depth = 0;

    for (; of && depth <= MAX_IN_FLIGHT; of = of->next_at_sector, depth++)
        if (of->nr_sectors == event->nr_sectors && of->issues)
            break;
    if (!of || depth > MAX_IN_FLIGHT)
        return NULL;
    request = request_new(linker, event->device, event->meaning.op);
    if (!request)
        return NULL;
    request->kind = KIND_SECTORS;
    request->is_interchangeable = of->is_interchangeable = true; // rule identical_requests
    issue = of->issues;
    of->issues = issue->next;
    request->issue = issue->stamp;
    pool_give_back(&linker->past_pool, issue);
    request->origin = of->origin;
    request->sector = of->sector;
    request->nr_sectors = of->nr_sectors;
    request_take_bios(linker, request, NO_INT32);
    return request;
}

// --- after the last event --------------------------------------------------------------------------------------------

static void close_all(struct linker *linker, struct request *request)
{
    while (request) {
        struct request *next = request->next;

        past_forget(linker, &request->completions);
        settle_issues(linker, request);
        request_close(linker, request);
        request = next;
    }
}

void in_flight_close(struct linker *linker)
{
    for (size_t slot = 0; slot < linker->in_flight.room; slot++) {
        struct request *first = (struct request *)(uintptr_t)linker->in_flight.slots[slot].value;
        uint8_t kind = linker->in_flight.slots[slot].space & 15;

        if (kind == KIND_REISSUED)
            settle_all(linker, first);
        else if (kind != KIND_REMAINDER && kind != KIND_APPEND) // these are also indexed by their first sector
            close_all(linker, first);
    }
    map_free(&linker->in_flight);
}
