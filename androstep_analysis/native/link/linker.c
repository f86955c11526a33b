// Link block events to requests in one pass ordered by time.
//
// In memory are the requests that are not finished and the bios that wait for a request. A request is finished if it is
// complete and no other request can take sectors of its bios, which would make both `split`. Thus memory grows only
// with what a trace never finishes: requests without completion, and distinct sectors that were queued and never issued
// or passed to the device below.
#include "link/linker.h"

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
    linker->upper_pool.size = sizeof(struct upper_bio);
    linker->segment_pool.size = sizeof(struct segment);
    linker->past_pool.size = sizeof(struct past_event);
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
                spans_free(&device->waiting[op][layer]);
            spans_free(&device->inserts[op]);
            spans_free(&device->upper[op]);
        }
        free(device);
    }
    map_free(&linker->device_of);
    map_free(&linker->in_flight);
    map_free(&linker->remap_of);
    pool_free(&linker->request_pool);
    pool_free(&linker->bio_pool);
    pool_free(&linker->upper_pool);
    pool_free(&linker->segment_pool);
    pool_free(&linker->past_pool);
    free(linker->remaps);
    free(linker->partitions);
    free(linker->meanings);
    free(linker);
}

bool linker_device(struct linker *linker, uint32_t dev, uint32_t flags)
{
    struct device *device = calloc(1, sizeof(*device));
    uint64_t *value = device ? map_add(&linker->device_of, dev, 0) : NULL;

    if (!value) {
        free(device);
        return false;
    }
    *value = (uintptr_t)device;
    device->dev = dev;
    device->flags = flags;
    device->next = linker->devices;
    linker->devices = device;
    return true;
}

bool linker_meaning(struct linker *linker, const uint8_t *rwbs, size_t length, uint8_t op, uint8_t flags)
{
    uint32_t index = strings_add(linker->strings, rwbs, length);

    if (op >= NR_OPERATIONS || index != linker->nr_meanings)
        return false;
    if (!array_reserve(&linker->meanings, linker->nr_meanings, &linker->meaning_capacity, sizeof(*linker->meanings)))
        return false;
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

static uint32_t string_at(struct linker *linker, const struct texts *texts, size_t row)
{
    size_t at = texts->offset + row;
    const struct text_view *view = &texts->views[at];
    size_t length = (size_t)view->length;
    const uint8_t *bytes;
    uint32_t index;

    if (texts->present && !(texts->present[at / 8] >> at % 8 & 1))
        return NO_STRING;
    bytes = length <= sizeof(view->bytes) ? view->bytes : texts->buffers[view->buffer] + view->offset;
    index = strings_add(linker->strings, bytes, length);
    if (index == NO_STRING)
        linker->is_out_of_memory = true;
    return index;
}

static uint8_t kind_of(const struct event *event)
{
    if (event->nr_sectors)
        return KIND_SECTORS;
    return event->meaning.op == OP_FLUSH ? KIND_FLUSH : KIND_EMPTY;
}

// Read the event of a row. Returns false if the linker ignores it.
static bool read_event(struct linker *linker, const struct block_events *events, size_t row, struct event *event)
{
    struct device *device = device_of(linker, events->dev[row]);
    bool is_queue = events->action[row] == ACTION_QUEUE;
    bool has_range;

    if (!device || (device->flags & DEVICE_IS_STACKED && !is_queue))
        return false;
    *event = (struct event){
        .stamp = {.index = linker->events,
                  .ts_ns = events->ts_ns[row],
                  .row = events->old_dev[row] == NO_UINT32 ? events->old_sector[row] : NO_INT64,
                  .cpu = events->cpu[row],
                  .rwbs = string_at(linker, &events->rwbs, row),
                  .path = string_at(linker, &events->path, row),
                  .block_type = events->block_type[row]},
        .device = device,
        .sector = events->sector[row],
        .nr_sectors = events->nr_sectors[row],
        .tid = events->tid[row],
        .pid = events->pid[row],
        .comm = NO_STRING,
        .error = events->error[row],
        .lacks_length = events->nr_sectors[row] == NO_INT64,
    };
    has_range = event->nr_sectors > 0 && event->sector != NO_INT64;
    if (!has_range || event->sector > INT64_MAX - event->nr_sectors)
        event->nr_sectors = 0;
    if (is_queue || device->flags & DEVICE_ROWS_NAME_SUBMITTERS)
        event->comm = string_at(linker, &events->comm, row);
    event->meaning = meaning_of(linker, event->stamp.rwbs);
    event->kind = kind_of(event);
    // Rule flush_sequence: kernels without flush requests in the trace show the empty write that ends the sequence.
    event->ends_sequence =
        event->kind == KIND_EMPTY && event->meaning.op == OP_WRITE && !(device->flags & DEVICE_HAS_FLUSHES);
    return true;
}

static void on_remap(struct linker *linker, const struct block_events *events, size_t row)
{
    int64_t sector = events->sector[row], old_sector = events->old_sector[row];

    if (events->old_dev[row] != NO_UINT32 && sector != NO_INT64)
        remap_add(linker, (struct remap){events->dev[row], events->old_dev[row], sector,
                                         old_sector == NO_INT64 ? sector : old_sector});
}

static void on_queue(struct linker *linker, const struct event *event)
{
    struct request *request;

    if (event->device->flags & DEVICE_IS_STACKED) {
        upper_queue(linker, event);
        return;
    }
    if (event->nr_sectors)
        bio_queue(linker, event);
    if (!event->ends_sequence)
        return;
    request = request_new(linker, event->device, event->meaning.op);
    if (!request)
        return;
    request->kind = event->kind;
    request->row = event->stamp.row;
    request->first = submission_of(linker, event);
    request->is_latest = true;
    if (event->device->flags & DEVICE_HAS_COMPLETIONS)
        in_flight_add(linker, event, request);
    else
        request_close(linker, request);
}

static void on_event(struct linker *linker, const struct block_events *events, size_t row)
{
    uint8_t action = events->action[row];
    struct event event;

    if (action == ACTION_REMAP) {
        on_remap(linker, events, row);
        return;
    }
    if (!read_event(linker, events, row, &event))
        return;
    switch (action) {
    case ACTION_QUEUE:
        on_queue(linker, &event);
        break;
    case ACTION_INSERT:
        on_insert(linker, &event);
        break;
    case ACTION_ISSUE:
        on_issue(linker, &event);
        break;
    case ACTION_REQUEUE:
        on_requeue(linker, &event);
        break;
    case ACTION_COMPLETE:
        on_complete(linker, &event);
        break;
    default:
        break;
    }
}

int64_t linker_link(struct linker *linker, const struct block_events *events, size_t from, struct linked *linked)
{
    size_t row = from;

    while (row < events->rows && (!linker->output || output_rows(linker, linked))) {
        output_due(linker, linker->events);
        on_event(linker, events, row++);
        linker->events++;
        if (linker->is_out_of_memory)
            return -1;
    }
    return (int64_t)row;
}

int64_t linker_finish(struct linker *linker, struct linked *linked)
{
    in_flight_close(linker);
    bios_close(linker);
    for (uint64_t next = 0; next < OUTPUT_DELAY; next++)
        output_due(linker, linker->events + next);
    if (linker->is_out_of_memory)
        return -1;
    return output_rows(linker, linked) ? 0 : 1;
}
