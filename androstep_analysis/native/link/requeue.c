// A requeue: the driver returns a request, or the remainder of one, to the queue.
#include "link/linker.h"

// Rule remainder_requeue. If a partial completion fits several requests at one sector, the requeue shows which one it
// was of: the request whose remainder would have the sectors of the event gets the completion. Returns it, or NULL.
static struct request *reassign_completion(struct linker *linker, const struct event *event)
{
    struct request *other = event->kind == KIND_SECTORS ? remainders_at(linker, event) : NULL, *request;
    struct event begin = *event;
    int depth = 0;

    if (!other || other->awaits_reissue || other->completions->next)
        return NULL;
    begin.sector = other->sector;
    request = in_flight_at(linker, &begin);
    for (; request && depth <= MAX_IN_FLIGHT; request = request->next, depth++)
        if (!request->done && request->nr_sectors - other->done == event->nr_sectors)
            break;
    if (!request || depth > MAX_IN_FLIGHT)
        return NULL;
    remainder_remove(linker, event, other);
    request->completions = other->completions;
    request->done = other->done;
    other->completions = NULL;
    other->done = 0;
    remainder_add(linker, event, request);
    return request;
}

void on_requeue(struct linker *linker, const struct event *event)
{
    struct request *request = in_flight_like(linker, event, false);
    struct request *remainder = remainder_of(linker, event, false);

    if (!remainder)
        remainder = reassign_completion(linker, event);
    if (remainder) {
        remainder->awaits_reissue = true;
    } else if (request && event->kind != KIND_EMPTY) {
        request->was_requeued |= request->is_latest;
        request->awaits_reissue = true;
    }
}
