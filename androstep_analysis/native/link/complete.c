// A completion: of a request, or of a part of one.
#include "link/linker.h"

// How well a request fits a completion at its first sector.
enum fit { NO_FIT, FITS_IN_PART, FITS_REQUEUED, FITS_STARTED, FITS };

static enum fit fit_of(const struct request *request, const struct event *event)
{
    if (event->kind == KIND_FLUSH)
        return request->awaits_reissue ? FITS_REQUEUED : FITS;
    if (event->kind == KIND_EMPTY)
        return FITS;
    if (request->nr_sectors == event->nr_sectors)
        return request->done ? FITS_STARTED : request->awaits_reissue ? FITS_REQUEUED : FITS;
    return request->nr_sectors > event->nr_sectors && !request->done && !is_append(event) ? FITS_IN_PART : NO_FIT;
}

// Return whether issue and completion have the same letters, which no kernel changes between the two. For flushes (rule
// flush_by_cpu): whether both are on one CPU.
static bool is_alike(const struct request *request, const struct event *event)
{
    if (request->issue.index == NO_EVENT)
        return false;
    if (event->kind == KIND_FLUSH)
        return request->issue.cpu == event->stamp.cpu;
    return request->issue.rwbs == event->stamp.rwbs;
}

// Rule pairing. Return the request whose first sector is that of the completion and that fits best, or NULL.
static struct request *best_in_flight(const struct linker *linker, const struct event *event, enum fit *best_fit)
{
    struct request *best = NULL;
    int best_rank = 1, depth = 0;

    for (struct request *request = in_flight_at(linker, event); request && depth < MAX_IN_FLIGHT;
         request = request->next, depth++) {
        int rank = 2 * (int)fit_of(request, event) + is_alike(request, event);

        if (are_other_rows(request->row, event->stamp.row))
            continue;
        if (rank > best_rank) {
            best_rank = rank;
            best = request;
        }
    }
    *best_fit = (enum fit)(best_rank / 2);
    return best;
}

// Rule partial_completion. Return the request whose remainder begins at the sector: the one that the completion
// finishes, if the driver has it, else the last one; or NULL.
static struct request *best_remainder(const struct linker *linker, const struct event *event)
{
    struct request *best = NULL;
    int best_rank = 0, depth = 0;

    if (event->kind != KIND_SECTORS)
        return NULL;
    for (struct request *request = remainders_at(linker, event); request && depth < MAX_IN_FLIGHT;
         request = request->next_at_sector, depth++) {
        int64_t left = request->nr_sectors - request->done;
        int rank = left == event->nr_sectors ? 3 - request->awaits_reissue : left > event->nr_sectors;

        if (rank > best_rank) {
            best_rank = rank;
            best = request;
        }
    }
    return best;
}

// Rule identical_requests. The completion may be of any request that fits it as well as the best one.
static void mark_identical(const struct linker *linker, const struct event *event, struct request *best, enum fit fit)
{
    int rank = 2 * (int)fit + is_alike(best, event), depth = 0;

    for (struct request *request = in_flight_at(linker, event); request && depth < MAX_IN_FLIGHT;
         request = request->next, depth++)
        if (request != best && request->nr_sectors == best->nr_sectors &&
            !are_other_rows(request->row, event->stamp.row) &&
            2 * (int)fit_of(request, event) + is_alike(request, event) == rank)
            request->is_interchangeable = best->is_interchangeable = true;
}

static bool finishes(const struct request *remainder, const struct event *event)
{
    return remainder && remainder->nr_sectors - remainder->done == event->nr_sectors;
}

// Return whether the remainder was issued again, and later than the other request.
static bool is_issued_later(const struct request *remainder, const struct request *other)
{
    uint64_t issue = remainder->issue.index;

    return issue > remainder->completions->stamp.index && issue > other->issue.index;
}

// --- completing ------------------------------------------------------------------------------------------------------

static void finish(struct linker *linker, struct request *request, const struct event *event)
{
    request->complete = event->stamp;
    request->error = event->error;
    past_forget(linker, &request->completions);
    if (request->kind == KIND_SECTORS)
        inserts_forget(linker, request);
    if (request->issues)
        reissued_add(linker, event, request); // rule two_completions: another completion may follow
    request_close(linker, request);
}

// Rule lone_completion.
static void complete_unissued(struct linker *linker, const struct event *event)
{
    struct request *request = request_new(linker, event->device, event->meaning.op);

    if (!request)
        return;
    request->kind = event->kind;
    request->row = event->stamp.row;
    request->complete = event->stamp;
    request->error = event->error;
    request->origin = origin_of(linker, event->device->dev, event->sector);
    if (event->nr_sectors) {
        request->sector = event->sector;
        request->nr_sectors = event->nr_sectors;
        request_take_bios(linker, request, NO_INT32);
    }
    request_take_submitter(linker, request, event);
    request_close(linker, request);
}

// Rule refuted_parts.
static void refute_parts(struct linker *linker, struct request *request, const struct event *event)
{
    struct past_event *parts = request->completions;

    remainder_remove(linker, event, request);
    request->completions = NULL;
    request->done = 0;
    for (struct past_event *part = parts; part; part = part->next) {
        struct event completion = *event;

        completion.stamp = part->stamp;
        completion.sector = part->sector;
        completion.nr_sectors = part->nr_sectors;
        completion.error = part->error;
        complete_unissued(linker, &completion);
    }
    past_forget(linker, &parts);
}

// Rule partial_completion.
static void complete_part(struct linker *linker, struct request *request, const struct event *event)
{
    if (request->done)
        remainder_remove(linker, event, request);
    request->done += event->nr_sectors;
    if (request->done < request->nr_sectors) {
        past_add(linker, &request->completions,
                 (struct past_event){NULL, event->stamp, event->sector, event->nr_sectors, event->error});
        remainder_add(linker, event, request);
        return;
    }
    in_flight_remove(linker, event, request);
    finish(linker, request, event);
}

static void complete_whole(struct linker *linker, struct request *request, const struct event *event)
{
    if (request->done)
        refute_parts(linker, request, event);
    in_flight_remove(linker, event, request);
    finish(linker, request, event);
}

// Rule zone_append.
static void complete_append(struct linker *linker, const struct event *event)
{
    struct request *request = append_of(linker, event);

    if (!request) {
        complete_unissued(linker, event);
        return;
    }
    request->moved = event->sector - request->sector;
    complete_whole(linker, request, event);
}

// --- completions without length or operation -------------------------------------------------------------------------

// Rule unsized_completion.
static void take_length(const struct linker *linker, struct event *event)
{
    struct event sectors = *event;
    const struct request *request;

    sectors.kind = KIND_SECTORS;
    request = in_flight_at(linker, &sectors);
    if (!request)
        return;
    event->nr_sectors = request->nr_sectors;
    event->kind = KIND_SECTORS;
    event->ends_sequence = false;
}

// Return the operation of the last bio queued for the event's sector that waits there.
static uint8_t waiting_operation(const struct event *event)
{
    uint8_t latest = event->meaning.op;
    uint64_t last = 0;

    for (uint8_t op = 0; op < NR_OPERATIONS; op++) {
        const struct bio *bio = bio_at(event->device, op, event->sector);
        uint64_t order = bio ? bio->queued.stamp.index + 1 : 0;

        if (order > last) {
            last = order;
            latest = op;
        }
    }
    return latest;
}

// Rule unnamed_operation.
static void take_operation(const struct linker *linker, struct event *event)
{
    struct event candidate = *event;
    enum fit best = NO_FIT, fit;
    uint64_t last = 0;

    event->meaning.op = waiting_operation(event);
    for (uint8_t op = 0; op < NR_OPERATIONS; op++) {
        const struct request *request;

        candidate.meaning.op = op;
        request = best_in_flight(linker, &candidate, &fit);
        if (request && (fit > best || (fit == best && request->issue.index > last))) {
            best = fit;
            last = request->issue.index;
            event->meaning.op = op;
        }
    }
}

void on_complete(struct linker *linker, struct event *event)
{
    struct request *request, *remainder, *reissued = NULL;
    enum fit fit;

    if (event->lacks_length && event->sector != NO_INT64)
        take_length(linker, event);
    if (event->kind == KIND_SECTORS && event->stamp.rwbs == NO_STRING)
        take_operation(linker, event);
    if (event->kind == KIND_EMPTY && !event->ends_sequence)
        return; // rule no_data
    request = best_in_flight(linker, event, &fit);
    remainder = event->stamp.row == NO_INT64 ? best_remainder(linker, event) : NULL;
    if (fit == FITS && !(finishes(remainder, event) && is_issued_later(remainder, request)))
        remainder = NULL;
    if (event->kind == KIND_SECTORS && !remainder && fit < FITS_REQUEUED && event->stamp.row == NO_INT64)
        reissued = reissued_take(linker, event); // rule two_completions
    if (reissued)
        finish(linker, reissued, event);
    else if (remainder && (fit < FITS_REQUEUED || finishes(remainder, event)))
        complete_part(linker, remainder, event);
    else if (!request && is_append(event) && event->stamp.row == NO_INT64)
        complete_append(linker, event);
    else if (!request)
        complete_unissued(linker, event);
    else {
        mark_identical(linker, event, request, fit);
        if (fit == FITS_IN_PART)
            complete_part(linker, request, event);
        else
            complete_whole(linker, request, event);
    }
}
