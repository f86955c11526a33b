// An issue: a new request, or a request that was issued before.
#include "link/linker.h"

// Rule resize_limit.
enum { MAX_RESIZES = 64 };

// Rules requeued_issue, repeated_issue, flush_issue, resize_limit and zone_append.
static bool is_reissue(const struct request *request, const struct event *event)
{
    const struct bio *bio = bio_at(event->device, event->meaning.op, event->sector);
    bool is_resized = request->nr_sectors != event->nr_sectors;
    bool can_complete = event->device->flags & (DEVICE_HAS_BIOS | DEVICE_HAS_COMPLETIONS);

    if (event->kind == KIND_FLUSH)
        return request->awaits_reissue;
    if (request->done || (is_resized && request->resizes == MAX_RESIZES))
        return false;
    if (is_append(event))
        return request->awaits_reissue && !is_resized; // rule zone_append
    if (request->awaits_reissue)
        return !bio || bio->queued.stamp.index < request->issue.index;
    if (!request->is_latest || !can_complete)
        return false;
    return !is_resized && !bio;
}

static void reissue(struct linker *linker, struct request *request, const struct event *event)
{
    if (request->awaits_reissue || event->kind != KIND_SECTORS)
        request->was_requeued = true;
    else
        past_add(linker, &request->issues, (struct past_event){.stamp = request->issue});
    request->issue = event->stamp;
    request->is_latest = true;
    request->awaits_reissue = false;
    if (event->kind != KIND_SECTORS)
        return;
    if (request->nr_sectors != event->nr_sectors)
        request->resizes++;
    request_resize(linker, request, event->nr_sectors, event->tid);
    request->insert_ns = request_insert_ns(request);
}

// Rules remainder_issue and unrequeued_remainder. Return the request whose remainder is issued, or NULL.
static struct request *remainder_issued(const struct linker *linker, const struct event *event)
{
    bool has_requeues = event->device->flags & DEVICE_HAS_REQUEUES;
    const struct bio *bio = bio_at(event->device, event->meaning.op, event->sector);

    if (!has_requeues && bio && bio->sector == event->sector)
        return NULL;
    return remainder_of(linker, event, has_requeues);
}

void request_take_submitter(struct linker *linker, struct request *request, const struct event *event)
{
    if (request->first.stamp.index != NO_EVENT || !(event->device->flags & DEVICE_ROWS_NAME_SUBMITTERS))
        return;
    request->first = submission_of(linker, event);
    request->first.stamp.index = NO_EVENT;
}

static void issue_new(struct linker *linker, const struct event *event)
{
    struct request *request = request_new(linker, event->device, event->meaning.op);

    if (!request)
        return;
    request->kind = event->kind;
    request->row = event->stamp.row;
    request->issue = event->stamp;
    request->is_latest = true;
    if (event->kind == KIND_SECTORS) {
        request->sector = event->sector;
        request->nr_sectors = event->nr_sectors;
        request_take_bios(linker, request, event->tid);
        request->insert_ns = request_insert_ns(request);
    }
    request_take_submitter(linker, request, event);
    request->origin = origin_of(linker, event->device->dev, event->sector);
    if (event->device->flags & (DEVICE_HAS_COMPLETIONS | DEVICE_HAS_REQUEUES))
        in_flight_add(linker, event, request);
    else
        request_close(linker, request); // rule no_completions
}

void on_issue(struct linker *linker, const struct event *event)
{
    struct request *request = in_flight_like(linker, event, true), *remainder;

    if (event->kind == KIND_EMPTY)
        return; // rule no_data
    if (event->stamp.row != NO_INT64) {
        issue_new(linker, event); // rule same_row
        return;
    }
    if (event->kind == KIND_SECTORS)
        reissued_forget(linker, event); // no further completion belongs to them
    remainder = remainder_issued(linker, event);
    if (remainder) {
        remainder->issue = event->stamp;
        remainder->was_requeued = true;
        remainder->awaits_reissue = false;
    } else if (request && is_reissue(request, event)) {
        reissue(linker, request, event);
    } else {
        issue_new(linker, event);
    }
}
