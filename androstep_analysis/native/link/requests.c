// Block events to requests, one pass in order of time (link/requests/__init__.py says what belongs together and why).
//
// In memory are the requests that are not finished, and the bios of which sectors wait for a request. A request is
// finished when it is completed and no bio of it can become a second request's, which would make both `split`. So what
// grows is what a trace never finishes: requests without completion, and distinct sectors that were queued and never
// issued, or queued on a device above and never handed on.
#include "link/linker.h"
#include "link/origins.h"

#include "core/array.h"

#include <stdlib.h>

struct linker *linker_new(struct strings *strings)
{
    struct linker *linker = calloc(1, sizeof(*linker));

    if (!linker)
        return NULL;
    linker->strings = strings;
    linker->request_pool.size = sizeof(struct request);
    linker->bio_pool.size = sizeof(struct bio);
    linker->above_pool.size = sizeof(struct above);
    linker->piece_pool.size = sizeof(struct piece);
    linker->part_pool.size = sizeof(struct part);
    return linker;
}

void linker_free(struct linker *linker)
{
    if (!linker)
        return;
    while (linker->devices) {
        struct device *device = linker->devices;

        linker->devices = device->next;
        for (size_t op = 0; op < NR_OPERATIONS; op++) {
            for (size_t layer = 0; layer < MAX_WAITING; layer++)
                spans_free(&device->bios[op][layer]);
            spans_free(&device->inserts[op]);
            spans_free(&device->above[op]);
        }
        free(device);
    }
    map_free(&linker->device_of);
    map_free(&linker->open);
    map_free(&linker->remap_of);
    pool_free(&linker->request_pool);
    pool_free(&linker->bio_pool);
    pool_free(&linker->above_pool);
    pool_free(&linker->piece_pool);
    pool_free(&linker->part_pool);
    free(linker->remaps);
    free(linker->partitions);
    free(linker->meanings);
    free(linker);
}

bool linker_device(struct linker *linker, uint32_t dev, uint32_t flags)
{
    struct device *device = calloc(1, sizeof(*device));
    uint64_t *place = device ? map_add(&linker->device_of, dev, 0) : NULL;

    if (!place) {
        free(device);
        return false;
    }
    *place = (uintptr_t)device;
    device->dev = dev;
    device->flags = flags;
    device->next = linker->devices;
    linker->devices = device;
    return true;
}

bool linker_meaning(struct linker *linker, const uint8_t *rwbs, size_t length, uint8_t op, uint8_t flags)
{
    uint32_t number = strings_add(linker->strings, rwbs, length);

    if (op >= NR_OPERATIONS || number != linker->nr_meanings)
        return false;
    if (linker->nr_meanings == linker->meaning_room) {
        struct meaning *meanings = array_grow(linker->meanings, &linker->meaning_room, sizeof(*meanings));

        if (!meanings)
            return false;
        linker->meanings = meanings;
    }
    linker->meanings[linker->nr_meanings++] = (struct meaning){op, flags};
    return true;
}

static struct device *device_of(struct linker *linker, uint32_t dev)
{
    struct device *device = linker->last_device;

    if (device && device->dev == dev)
        return device;
    device = (struct device *)(uintptr_t)map_value(&linker->device_of, dev, 0);
    if (device)
        linker->last_device = device;
    return device;
}

static uint32_t number_of(struct linker *linker, const struct texts *texts, size_t row)
{
    size_t at = texts->offset + row;
    const struct text_view *view = &texts->views[at];
    size_t length = (size_t)view->length;
    uint32_t number;

    if (texts->present && !(texts->present[at / 8] >> at % 8 & 1))
        return NO_STRING;
    number =
        strings_add(linker->strings,
                    length <= sizeof(view->bytes) ? view->bytes : texts->buffers[view->buffer] + view->offset, length);
    if (number == NO_STRING)
        linker->is_out_of_memory = true;
    return number;
}

// What of the event has a place; false where it takes no part.
static bool step_of(struct linker *linker, const struct block_events *events, size_t row, struct step *step)
{
    step->device = device_of(linker, events->dev[row]);
    if (!step->device || (step->device->flags & DEVICE_IS_STACKED && events->action[row] != ACTION_QUEUE))
        return false;
    step->event = (struct event){
        .number = linker->events,
        .ts_ns = events->ts_ns[row],
        .cpu = events->cpu[row],
        .rwbs = number_of(linker, &events->rwbs, row),
        .path = number_of(linker, &events->path, row),
        .block_type = events->block_type[row],
    };
    step->meaning = meaning_of(linker, step->event.rwbs);
    step->sector = events->sector[row];
    step->nr_sectors = events->nr_sectors[row];
    if (step->nr_sectors <= 0 || step->sector == NO_INT64 || step->sector > INT64_MAX - step->nr_sectors)
        step->nr_sectors = 0;
    step->tid = events->tid[row];
    step->pid = events->pid[row];
    step->comm = NO_STRING;
    if (events->action[row] == ACTION_QUEUE || step->device->flags & DEVICE_ROWS_NAME_SUBMITTERS)
        step->comm = number_of(linker, &events->comm, row);
    step->error = events->error[row];
    step->is_empty = !step->nr_sectors && step->meaning.op != OP_FLUSH;
    step->is_end_of_sequence =
        step->is_empty && step->meaning.op == OP_WRITE && !(step->device->flags & DEVICE_HAS_FLUSHES);
    step->kind = step->nr_sectors ? KIND_SECTORS : step->is_empty ? KIND_EMPTY : KIND_FLUSH;
    return true;
}

static void take_event(struct linker *linker, const struct block_events *events, size_t row)
{
    struct step step;

    requests_put_out(linker, linker->events);
    switch (events->action[row]) {
    case ACTION_REMAP:
        if (events->old_dev[row] != NO_UINT32 && events->sector[row] != NO_INT64) {
            int64_t old_sector = events->old_sector[row];

            remap_add(linker, (struct remap){events->dev[row], events->old_dev[row], events->sector[row],
                                             old_sector == NO_INT64 ? events->sector[row] : old_sector});
        }
        break;
    case ACTION_QUEUE:
        if (step_of(linker, events, row, &step)) {
            if (step.device->flags & DEVICE_IS_STACKED)
                above_queue(linker, &step);
            else
                step_queue(linker, &step);
        }
        break;
    case ACTION_INSERT:
        if (step_of(linker, events, row, &step))
            step_insert(linker, &step);
        break;
    case ACTION_ISSUE:
        if (step_of(linker, events, row, &step))
            step_issue(linker, &step);
        break;
    case ACTION_REQUEUE:
        if (step_of(linker, events, row, &step))
            step_requeue(linker, &step);
        break;
    case ACTION_COMPLETE:
        if (!step_of(linker, events, row, &step))
            break;
        if (events->nr_sectors[row] == NO_INT64 && step.sector != NO_INT64)
            step_take_length(linker, &step);
        if (step.kind == KIND_SECTORS && step.event.rwbs == NO_STRING)
            step_take_operation(linker, &step);
        step_complete(linker, &step);
        break;
    default:
        break;
    }
    linker->events++;
}

int64_t linker_link(struct linker *linker, const struct block_events *events, size_t from, struct linked *linked)
{
    size_t row = from;

    while (row < events->rows && (!linker->out || rows_put(linker, linked))) {
        take_event(linker, events, row++);
        if (linker->is_out_of_memory)
            return -1;
    }
    return (int64_t)row;
}

int64_t linker_finish(struct linker *linker, struct linked *linked)
{
    requests_close(linker);
    bios_settle(linker);
    for (uint64_t next = 0; next < MAX_WAIT; next++)
        requests_put_out(linker, linker->events + next);
    if (linker->is_out_of_memory)
        return -1;
    return rows_put(linker, linked) ? 0 : 1;
}
