// What each step of a request's life does: the queueing of its bios, its insert, issues, requeues and completions.
#include "link/linker.h"

// How often a request may be issued again with another length: each time all its bios are counted anew.
enum { MAX_RESIZES = 64 };

static uint64_t space_of(const struct step *step, uint8_t kind)
{
    return (uint64_t)step->device->dev << 8 | kind;
}

static int64_t place_of(const struct step *step)
{
    return step->kind == KIND_FLUSH ? 0 : step->sector;
}

// The request that was opened there last and is not closed; NULL where there is none.
static struct request *open_at(const struct linker *linker, uint64_t space, int64_t place)
{
    return (struct request *)(uintptr_t)map_value(&linker->open, space, (uint64_t)place);
}

static void push(struct linker *linker, uint64_t space, int64_t place, struct request *request)
{
    uint64_t *stack = map_add(&linker->open, space, (uint64_t)place);

    if (!stack) {
        linker->is_out_of_memory = true;
        return;
    }
    request->next = (struct request *)(uintptr_t)*stack;
    *stack = (uintptr_t)request;
}

// A hardware queue has one flush at work, but a device may have a queue for every CPU. Of several flushes the one goes
// first that is with the driver, or was returned by it, and of those one that was issued on that CPU. What lies deeper
// than there are CPUs was lost.
static void raise_flush(uint64_t *stack, bool is_returned, int32_t cpu)
{
    enum { MAX_FLUSHES = 1024 };
    struct request *top = (struct request *)(uintptr_t)*stack, *above = NULL, *wanted = NULL, *wanted_above = NULL;
    bool is_of_cpu = false;
    int depth = 0;

    for (struct request *request = top; request && !is_of_cpu && depth < MAX_FLUSHES; request = request->next) {
        is_of_cpu =
            request->is_returned == is_returned && request->issue.number != NO_EVENT && request->issue.cpu == cpu;
        if (is_of_cpu || (!wanted && request->is_returned == is_returned)) {
            wanted = request;
            wanted_above = above;
        }
        above = request;
        depth++;
    }
    if (!wanted_above)
        return;
    wanted_above->next = wanted->next;
    wanted->next = top;
    *stack = (uintptr_t)wanted;
}

// The open request that an issue or a requeue is of, now the first there; NULL where there is none.
static struct request *open_for(const struct linker *linker, const struct step *step, bool is_returned)
{
    uint64_t space = space_of(step, step->kind);
    int64_t place = place_of(step);
    uint64_t *stack = step->kind == KIND_FLUSH ? map_find(&linker->open, space, (uint64_t)place) : NULL;

    if (stack)
        raise_flush(stack, is_returned, step->event.cpu);
    return open_at(linker, space, place);
}

static struct request *pop(struct linker *linker, uint64_t space, int64_t place, const struct step *step)
{
    uint64_t *stack = map_find(&linker->open, space, (uint64_t)place);
    struct request *request;

    if (!stack)
        return NULL;
    if (step->kind == KIND_FLUSH)
        raise_flush(stack, false, step->event.cpu);
    request = (struct request *)(uintptr_t)*stack;
    if (request->next) {
        *stack = (uintptr_t)request->next;
        if (step->kind != KIND_FLUSH) // where a flush returns to, none is in its way
            request->next->is_latest = request->next->is_returned = false;
    } else {
        map_remove(&linker->open, space, (uint64_t)place);
    }
    return request;
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
        push(linker, space_of(step, step->kind), place_of(step), request);
    else
        request_close(linker, request);
}

// Whether the issue is of the request that was issued there before and not completed: see link/requests/__init__.py.
static bool is_issued_again(const struct request *open, const struct step *step)
{
    if (step->kind == KIND_FLUSH)
        return open->is_returned;
    if (!open->is_latest || open->op != step->meaning.op)
        return false;
    if (open->resizes == MAX_RESIZES && open->nr_sectors != step->nr_sectors)
        return false;
    if (step->device->flags & DEVICE_HAS_BIOS) {
        const struct bio *bio = bio_at(step->device, open->op, step->sector);

        return !bio || bio->queued.event.number < open->issue.number;
    }
    if (!(step->device->flags & DEVICE_HAS_COMPLETIONS))
        return open->is_returned;
    return open->is_returned || open->nr_sectors == step->nr_sectors;
}

static void issue_again(struct linker *linker, struct request *request, const struct step *step)
{
    request->issue = step->event;
    request->is_requeued = true;
    request->is_latest = true;
    request->is_returned = false;
    if (step->kind != KIND_SECTORS)
        return;
    if (request->nr_sectors != step->nr_sectors)
        request->resizes++;
    request_resize(linker, request, step->nr_sectors);
    request->insert_ns = request_insert_ns(request);
}

void step_issue(struct linker *linker, const struct step *step)
{
    uint64_t space = space_of(step, step->kind);
    struct request *request = open_for(linker, step, true);

    if (step->is_empty)
        return;
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
        request_take_bios(linker, request);
        request->insert_ns = request_insert_ns(request);
    }
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->device->flags & (DEVICE_HAS_COMPLETIONS | DEVICE_HAS_REQUEUES))
        push(linker, space, place_of(step), request);
    else
        request_close(linker, request);
}

void step_requeue(const struct linker *linker, const struct step *step)
{
    struct request *open = open_for(linker, step, false);

    if (!open || step->is_empty)
        return;
    open->is_requeued = open->is_requeued || open->is_latest;
    open->is_returned = true;
}

// So much of the request is completed.
static void completed(struct linker *linker, struct request *request, const struct step *step)
{
    request->complete = step->event;
    request->error = step->error;
    request->done = sum(request->done, step->nr_sectors);
    if (request->kind == KIND_SECTORS && request->done < request->nr_sectors) {
        push(linker, space_of(step, (uint8_t)(KIND_REST + request->op)), request->sector + request->done, request);
        return;
    }
    if (request->kind == KIND_SECTORS)
        inserts_forget(linker, request);
    request_close(linker, request);
}

// A completion that closes nothing: a further part of a request, or a request whose issue was not seen.
static void complete_alone(struct linker *linker, const struct step *step)
{
    struct request *request = NULL;

    if (step->nr_sectors)
        request = pop(linker, space_of(step, (uint8_t)(KIND_REST + step->meaning.op)), step->sector, step);
    if (request && step->nr_sectors <= request->nr_sectors - request->done) {
        completed(linker, request, step);
        return;
    }
    if (request) { // what comes there is not its rest
        request->complete.number = NO_EVENT;
        request_close(linker, request);
    }
    request = request_new(linker, step->device,
                          step->nr_sectors && step->event.rwbs == NO_STRING ? waiting_operation(step, step->meaning.op)
                                                                            : step->meaning.op);
    if (!request)
        return;
    request->kind = step->kind;
    request->complete = step->event;
    request->error = step->error;
    request->origin = origin_of(linker, step->device->dev, step->sector);
    if (step->nr_sectors) {
        request->sector = step->sector;
        request->nr_sectors = step->nr_sectors;
        request_take_bios(linker, request);
    }
    request_close(linker, request);
}

void step_take_length(const struct linker *linker, struct step *step)
{
    const struct request *open = open_at(linker, space_of(step, KIND_SECTORS), step->sector);

    if (!open || open->op != step->meaning.op)
        return;
    step->nr_sectors = open->nr_sectors;
    step->kind = KIND_SECTORS;
    step->is_empty = step->is_end_of_sequence = false;
}

void step_complete(struct linker *linker, const struct step *step)
{
    struct request *request;

    if (step->is_empty && !step->is_end_of_sequence)
        return;
    request = pop(linker, space_of(step, step->kind), place_of(step), step);
    if (request)
        completed(linker, request, step);
    else
        complete_alone(linker, step);
}

void requests_close(struct linker *linker)
{
    for (size_t slot = 0; slot < linker->open.room; slot++) {
        struct request *request = (struct request *)(uintptr_t)linker->open.slots[slot].value;

        while (request) {
            struct request *below = request->next;

            if (request->kind == KIND_SECTORS)
                request->complete.number = NO_EVENT; // a part of it was never completed
            request_close(linker, request);
            request = below;
        }
    }
    map_free(&linker->open);
}
