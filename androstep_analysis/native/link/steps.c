// What each step of a request's life does: the queueing of its bios, its insert, issues, requeues and completions.
#include "link/linker.h"
#include "link/origins.h"

// How often a request may be issued again with another length: each time all its bios are counted anew.
enum { MAX_RESIZES = 64 };

// How many requests that are open at one sector are looked at. More are there only where completions were lost.
enum { MAX_OPEN = 1024 };

static uint64_t space_of(const struct step *step, uint8_t kind)
{
    bool has_sectors = kind >= KIND_SECTORS;

    return (uint64_t)step->device->dev << 8 | (has_sectors ? step->meaning.op << 4 : 0) | kind;
}

static int64_t place_of(const struct step *step)
{
    return step->kind == KIND_FLUSH ? 0 : step->sector;
}

// The requests that are open at the step's sector, the last one opened first.
static struct request *open_at(const struct linker *linker, const struct step *step)
{
    return (struct request *)(uintptr_t)map_value(&linker->open, space_of(step, step->kind), (uint64_t)place_of(step));
}

static void push(struct linker *linker, const struct step *step, struct request *request)
{
    uint64_t *first = map_add(&linker->open, space_of(step, step->kind), (uint64_t)place_of(step));

    if (!first) {
        linker->is_out_of_memory = true;
        return;
    }
    request->next = (struct request *)(uintptr_t)*first;
    *first = (uintptr_t)request;
}

// No longer open. What is left at its sector was not the last that was opened or closed there.
static void remove_open(struct linker *linker, const struct step *step, struct request *request)
{
    uint64_t space = space_of(step, step->kind), *first;
    int64_t place = step->kind == KIND_SECTORS ? request->sector : place_of(step);
    struct request *above;

    first = map_find(&linker->open, space, (uint64_t)place);
    if (!first)
        return;
    above = (struct request *)(uintptr_t)*first;
    if (above == request) {
        if (request->next) {
            *first = (uintptr_t)request->next;
            request->next->is_latest = false;
        } else {
            map_remove(&linker->open, space, (uint64_t)place);
        }
        return;
    }
    above->is_latest = false;
    while (above->next != request)
        above = above->next;
    above->next = request->next;
}

// --- what was completed in part --------------------------------------------------------------------------------------

static struct request *rests_at(const struct linker *linker, const struct step *step)
{
    return (struct request *)(uintptr_t)map_value(&linker->open, space_of(step, KIND_REST), (uint64_t)step->sector);
}

static int64_t rest_sector(const struct request *request)
{
    return request->sector + request->done;
}

static void add_rest(struct linker *linker, const struct step *step, struct request *request)
{
    uint64_t *first = map_add(&linker->open, space_of(step, KIND_REST), (uint64_t)rest_sector(request));

    if (!first) {
        linker->is_out_of_memory = true;
        return;
    }
    request->next_rest = (struct request *)(uintptr_t)*first;
    *first = (uintptr_t)request;
}

static void remove_rest(struct linker *linker, const struct step *step, struct request *request)
{
    uint64_t space = space_of(step, KIND_REST), key = (uint64_t)rest_sector(request);
    uint64_t *first = map_find(&linker->open, space, key);
    struct request *before = first ? (struct request *)(uintptr_t)*first : NULL;

    if (before == request && request->next_rest) {
        *first = (uintptr_t)request->next_rest;
    } else if (before == request) {
        map_remove(&linker->open, space, key);
    } else {
        while (before && before->next_rest != request)
            before = before->next_rest;
        if (before)
            before->next_rest = request->next_rest;
    }
}

// The request that is completed but for the sectors of the step; NULL for none. A driver that moved a part of a request
// requeues the rest, and is given it again (blk_update_request and blk_mq_requeue_request, as of scsi_lib.c and
// loop.c).
static struct request *rest_of(const struct linker *linker, const struct step *step, bool is_returned)
{
    struct request *request = step->kind == KIND_SECTORS ? rests_at(linker, step) : NULL;

    for (int depth = 0; request && depth < MAX_OPEN; request = request->next_rest, depth++)
        if (request->nr_sectors - request->done == step->nr_sectors && request->is_returned == is_returned)
            return request;
    return NULL;
}

static void add_part(struct linker *linker, struct part **parts, struct part part)
{
    struct part *added = pool_take(&linker->part_pool);

    if (!added) {
        linker->is_out_of_memory = true;
        return;
    }
    part.next = *parts;
    *added = part;
    *parts = added;
}

static void forget_parts(struct linker *linker, struct part **parts)
{
    while (*parts) {
        struct part *part = *parts;

        *parts = part->next;
        pool_give_back(&linker->part_pool, part);
    }
}

// --- twins: where no event says whether an issue is of the request that was issued there before ----------------------

// All issues are of the request.
static void settle_issues(struct linker *linker, struct request *request)
{
    request->is_requeued |= request->issues != NULL;
    forget_parts(linker, &request->issues);
}

// A further completion would show that the request was more than one.
static void keep_twin(struct linker *linker, const struct step *step, struct request *request)
{
    uint64_t *first = map_add(&linker->open, space_of(step, KIND_TWIN), (uint64_t)request->sector);

    if (!first) {
        linker->is_out_of_memory = true;
        return;
    }
    request->next_rest = (struct request *)(uintptr_t)*first;
    request->holds++;
    *first = (uintptr_t)request;
}

static void settle_twins(struct linker *linker, struct request *request)
{
    while (request) {
        struct request *next = request->next_rest;

        settle_issues(linker, request);
        request_release(linker, request);
        request = next;
    }
}

// Something is issued at the sector: no completion of what was issued before comes any more.
static void forget_twins(struct linker *linker, const struct step *step)
{
    uint64_t space = space_of(step, KIND_TWIN);
    uint64_t first = map_value(&linker->open, space, (uint64_t)step->sector);

    if (!first)
        return;
    map_remove(&linker->open, space, (uint64_t)step->sector);
    settle_twins(linker, (struct request *)(uintptr_t)first);
}

// The request that was issued there as well, of which the completion is; NULL for none.
static struct request *take_twin(struct linker *linker, const struct step *step)
{
    uint64_t first = map_value(&linker->open, space_of(step, KIND_TWIN), (uint64_t)step->sector);
    struct request *twin = (struct request *)(uintptr_t)first, *request;
    struct part *issue;
    int depth = 0;

    while (twin && (twin->nr_sectors != step->nr_sectors || !twin->issues) && depth++ < MAX_OPEN)
        twin = twin->next_rest;
    if (!twin || depth > MAX_OPEN)
        return NULL;
    request = request_new(linker, step->device, step->meaning.op);
    if (!request)
        return NULL;
    request->kind = KIND_SECTORS;
    issue = twin->issues;
    twin->issues = issue->next;
    request->issue = issue->event;
    pool_give_back(&linker->part_pool, issue);
    request->origin = twin->origin;
    request->sector = twin->sector;
    request->nr_sectors = twin->nr_sectors;
    request_take_bios(linker, request, NO_INT32);
    return request;
}

// --- queueing, issue and requeue -------------------------------------------------------------------------------------

// The request that an issue or a requeue may be of. One that was requeued is the first to be issued again, and only one
// that is with the driver is requeued. Where each CPU has a hardware queue, it is one of that CPU.
static struct request *open_for(const struct linker *linker, const struct step *step, bool is_returned)
{
    struct request *open = open_at(linker, step), *best = open;
    int best_rank = 0, depth = 0;

    for (struct request *request = open; request && depth < MAX_OPEN; request = request->next, depth++) {
        bool is_alike = step->kind == KIND_FLUSH
                            ? request->issue.number != NO_EVENT && request->issue.cpu == step->event.cpu
                            : request->nr_sectors == step->nr_sectors;
        int rank = request->is_returned == is_returned ? 1 + is_alike : 0;

        if (rank > best_rank) {
            best_rank = rank;
            best = request;
        }
    }
    return best;
}

void step_queue(struct linker *linker, const struct step *step)
{
    struct request *request;

    if (step->nr_sectors)
        bio_queue(linker, step);
    if (!step->is_end_of_sequence)
        return;
    request = request_new(linker, step->device, step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->first = submission_of(linker, step);
    request->is_latest = true;
    if (step->device->flags & DEVICE_HAS_COMPLETIONS)
        push(linker, step, request);
    else
        request_close(linker, request);
}

// Whether the issue is of the request that was issued there before and not completed: see link/requests/__init__.py.
static bool is_issued_again(const struct request *open, const struct step *step)
{
    const struct bio *bio = bio_at(step->device, step->meaning.op, step->sector);
    bool is_resized = open->nr_sectors != step->nr_sectors;

    if (step->kind == KIND_FLUSH)
        return open->is_returned;
    if (open->done || (is_resized && open->resizes == MAX_RESIZES))
        return false;
    if (open->is_returned)
        return !bio || bio->queued.event.number < open->issue.number;
    return open->is_latest && !is_resized && !bio && step->device->flags & (DEVICE_HAS_BIOS | DEVICE_HAS_COMPLETIONS);
}

static void issue_again(struct linker *linker, struct request *request, const struct step *step)
{
    if (request->is_returned || step->kind != KIND_SECTORS)
        request->is_requeued = true;
    else
        add_part(linker, &request->issues, (struct part){.event = request->issue});
    request->issue = step->event;
    request->is_latest = true;
    request->is_returned = false;
    if (step->kind != KIND_SECTORS)
        return;
    if (request->nr_sectors != step->nr_sectors)
        request->resizes++;
    request_resize(linker, request, step->nr_sectors, step->tid);
    request->insert_ns = request_insert_ns(request);
}

// The request of which the rest is issued again; NULL for none. Where no requeue was recorded, the issue may be of a
// bio that waits from there on.
static struct request *rest_issued_again(const struct linker *linker, const struct step *step)
{
    bool has_requeues = step->device->flags & DEVICE_HAS_REQUEUES;
    const struct bio *bio = bio_at(step->device, step->meaning.op, step->sector);

    if (!has_requeues && bio && bio->sector == step->sector)
        return NULL;
    return rest_of(linker, step, has_requeues);
}

// Where no bio shows who asked for the request, a row of a list of requests does.
static void take_submitter(struct linker *linker, struct request *request, const struct step *step)
{
    if (request->first.event.number != NO_EVENT || !(step->device->flags & DEVICE_ROWS_NAME_SUBMITTERS))
        return;
    request->first = submission_of(linker, step);
    request->first.event.number = NO_EVENT;
}

void step_issue(struct linker *linker, const struct step *step)
{
    struct request *request = open_for(linker, step, true), *rest;

    if (step->is_empty)
        return;
    if (step->kind == KIND_SECTORS)
        forget_twins(linker, step);
    rest = rest_issued_again(linker, step);
    if (rest) {
        rest->issue = step->event;
        rest->is_requeued = true;
        rest->is_returned = false;
        return;
    }
    if (request && is_issued_again(request, step)) {
        issue_again(linker, request, step);
        return;
    }
    request = request_new(linker, step->device, step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->issue = step->event;
    request->is_latest = true;
    if (step->kind == KIND_SECTORS) {
        request->sector = step->sector;
        request->nr_sectors = step->nr_sectors;
        request_take_bios(linker, request, step->tid);
        request->insert_ns = request_insert_ns(request);
    }
    take_submitter(linker, request, step);
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->device->flags & (DEVICE_HAS_COMPLETIONS | DEVICE_HAS_REQUEUES))
        push(linker, step, request);
    else
        request_close(linker, request);
}

// Of requests that begin at one sector, a completion in part does not show which it is of, but the requeue of the rest
// does. The request that is left with the sectors of the step gets the part then; NULL where there is none.
static struct request *take_part_of_another(struct linker *linker, const struct step *step)
{
    struct request *other = step->kind == KIND_SECTORS ? rests_at(linker, step) : NULL, *request;
    struct step begin = *step;
    int depth = 0;

    if (!other || other->is_returned || other->parts->next)
        return NULL;
    begin.sector = other->sector;
    request = open_at(linker, &begin);
    while (request && (request->done || request->nr_sectors - other->done != step->nr_sectors) && depth++ < MAX_OPEN)
        request = request->next;
    if (!request || depth > MAX_OPEN)
        return NULL;
    remove_rest(linker, step, other);
    request->parts = other->parts;
    request->done = other->done;
    other->parts = NULL;
    other->done = 0;
    add_rest(linker, step, request);
    return request;
}

void step_requeue(struct linker *linker, const struct step *step)
{
    struct request *open = open_for(linker, step, false), *rest = rest_of(linker, step, false);

    if (!rest)
        rest = take_part_of_another(linker, step);
    if (rest) {
        rest->is_returned = true;
        return;
    }
    if (!open || step->is_empty)
        return;
    open->is_requeued = open->is_requeued || open->is_latest;
    open->is_returned = true;
}

// --- completion ------------------------------------------------------------------------------------------------------

// All of the request is completed, by this event at last.
static void close_completed(struct linker *linker, struct request *request, const struct step *step)
{
    request->complete = step->event;
    request->error = step->error;
    forget_parts(linker, &request->parts);
    if (request->kind == KIND_SECTORS)
        inserts_forget(linker, request);
    if (request->issues)
        keep_twin(linker, step, request);
    request_close(linker, request);
}

// A completion whose issue was not seen.
static void complete_alone(struct linker *linker, const struct step *step)
{
    struct request *request = request_new(linker, step->device, step->meaning.op);

    if (!request)
        return;
    request->kind = step->kind;
    request->complete = step->event;
    request->error = step->error;
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->nr_sectors) {
        request->sector = step->sector;
        request->nr_sectors = step->nr_sectors;
        request_take_bios(linker, request, NO_INT32);
    }
    take_submitter(linker, request, step);
    request_close(linker, request);
}

// The request is completed as a whole, so that what looked like completions of its parts were those of other requests.
static void release_parts(struct linker *linker, struct request *request, const struct step *step)
{
    struct part *part = request->parts;

    remove_rest(linker, step, request);
    request->parts = NULL;
    request->done = 0;
    while (part) {
        struct part *next = part->next;
        struct step of_part = *step;

        of_part.event = part->event;
        of_part.sector = part->sector;
        of_part.nr_sectors = part->nr_sectors;
        of_part.error = part->error;
        complete_alone(linker, &of_part);
        pool_give_back(&linker->part_pool, part);
        part = next;
    }
}

// How well a request fits a completion at its first sector, in this order; 0: not at all.
enum { FITS_IN_PART = 1, FITS_RETURNED, FITS_STARTED, FITS };

static int fit(const struct request *request, const struct step *step)
{
    if (step->kind != KIND_SECTORS)
        return step->kind == KIND_FLUSH && request->is_returned ? FITS_RETURNED : FITS;
    if (request->nr_sectors == step->nr_sectors)
        return request->done ? FITS_STARTED : request->is_returned ? FITS_RETURNED : FITS;
    return request->nr_sectors > step->nr_sectors && !request->done ? FITS_IN_PART : 0;
}

// Whether the letters of a completion are those of the request's issue, which no kernel changes between the two; of
// flushes, whether both are on one CPU.
static bool is_alike(const struct request *request, const struct step *step)
{
    if (request->issue.number == NO_EVENT)
        return false;
    return step->kind == KIND_FLUSH ? request->issue.cpu == step->event.cpu : request->issue.rwbs == step->event.rwbs;
}

// The request of which a completion at its first sector is; NULL where none fits. Of several that fit as well it is one
// that is alike, if there is any, and of these the last one issued.
static struct request *open_to_complete(const struct linker *linker, const struct step *step, int *best_fit)
{
    struct request *best = NULL;
    int best_rank = 0, depth = 0;

    for (struct request *request = open_at(linker, step); request && depth < MAX_OPEN; request = request->next) {
        int rank = 2 * fit(request, step) + is_alike(request, step);

        if (rank > best_rank && rank > 1) {
            best_rank = rank;
            best = request;
        }
        depth++;
    }
    *best_fit = best_rank / 2;
    return best;
}

// The request whose rest begins there: that of which nothing is left then, if the driver has it, else the last one;
// NULL for none.
static struct request *rest_to_complete(const struct linker *linker, const struct step *step)
{
    struct request *best = NULL;
    int best_rank = 0, depth = 0;

    for (struct request *request = rests_at(linker, step); request && depth < MAX_OPEN; request = request->next_rest) {
        int64_t left = request->nr_sectors - request->done;
        int rank = left == step->nr_sectors ? 3 - request->is_returned : left > step->nr_sectors;

        if (rank > best_rank) {
            best_rank = rank;
            best = request;
        }
        depth++;
    }
    return best;
}

// Whether the step completes what is left of a request that was issued again for that, later than another that fits.
static bool is_issued_later(const struct request *rest, const struct request *other, const struct step *step)
{
    return rest && rest->nr_sectors - rest->done == step->nr_sectors &&
           rest->issue.number > rest->parts->event.number && rest->issue.number > other->issue.number;
}

// The request is completed as far as the step goes on from what is done of it.
static void complete_part(struct linker *linker, struct request *request, const struct step *step)
{
    if (request->done)
        remove_rest(linker, step, request);
    request->done += step->nr_sectors;
    if (request->done < request->nr_sectors) {
        add_part(linker, &request->parts,
                 (struct part){NULL, step->event, step->sector, step->nr_sectors, step->error});
        add_rest(linker, step, request);
        return;
    }
    remove_open(linker, step, request);
    close_completed(linker, request, step);
}

void step_complete(struct linker *linker, const struct step *step)
{
    struct request *open, *rest = NULL, *twin = NULL;
    int best_fit;

    if (step->is_empty && !step->is_end_of_sequence)
        return;
    open = open_to_complete(linker, step, &best_fit);
    if (step->kind == KIND_SECTORS)
        rest = rest_to_complete(linker, step);
    if (best_fit == FITS && !is_issued_later(rest, open, step))
        rest = NULL;
    if (step->kind == KIND_SECTORS && !rest && best_fit < FITS_RETURNED)
        twin = take_twin(linker, step);
    if (twin) {
        close_completed(linker, twin, step);
    } else if (rest && (best_fit < FITS_RETURNED || rest->nr_sectors - rest->done == step->nr_sectors)) {
        complete_part(linker, rest, step);
    } else if (!open) {
        complete_alone(linker, step);
    } else if (best_fit == FITS_IN_PART) {
        complete_part(linker, open, step);
    } else {
        if (open->done)
            release_parts(linker, open, step);
        remove_open(linker, step, open);
        close_completed(linker, open, step);
    }
}

void step_take_operation(const struct linker *linker, struct step *step)
{
    struct step asked = *step;
    uint64_t last = 0;
    int best = 0;

    step->meaning.op = waiting_operation(step, step->meaning.op);
    for (uint8_t op = 0; op < NR_OPERATIONS; op++) {
        const struct request *open;
        int found;

        asked.meaning.op = op;
        open = open_to_complete(linker, &asked, &found);
        if (found > best || (found && found == best && open->issue.number > last)) {
            best = found;
            last = open->issue.number;
            step->meaning.op = op;
        }
    }
}

void step_take_length(const struct linker *linker, struct step *step)
{
    struct step of_sectors = *step;
    const struct request *open;

    of_sectors.kind = KIND_SECTORS;
    open = open_at(linker, &of_sectors);
    if (!open)
        return;
    step->nr_sectors = open->nr_sectors;
    step->kind = KIND_SECTORS;
    step->is_empty = step->is_end_of_sequence = false;
}

static void close_all(struct linker *linker, struct request *request)
{
    while (request) {
        struct request *next = request->next;

        forget_parts(linker, &request->parts);
        settle_issues(linker, request);
        request_close(linker, request);
        request = next;
    }
}

void requests_close(struct linker *linker)
{
    for (size_t slot = 0; slot < linker->open.room; slot++) {
        struct request *first = (struct request *)(uintptr_t)linker->open.slots[slot].value;

        switch (linker->open.slots[slot].space & 15) {
        case KIND_REST: // open at its first sector, too
            break;
        case KIND_TWIN:
            settle_twins(linker, first);
            break;
        default:
            close_all(linker, first);
        }
    }
    map_free(&linker->open);
}
