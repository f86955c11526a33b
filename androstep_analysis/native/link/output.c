// Output finished requests and their bios as rows of tables requests and bios.
#include "link/linker.h"

static bool is_issued(const struct request *request)
{
    return request->issue.index != NO_EVENT;
}

static bool has_bio(const struct request *request)
{
    return request->first.stamp.index != NO_EVENT;
}

// Return the index of the event that determines the position of a request in the output (see struct linked).
static uint64_t request_position(const struct request *request)
{
    if (is_issued(request))
        return request->issue.index;
    // If the first bio is split, another request may have it, too.
    return has_bio(request) && !request->is_split ? request->first.stamp.index : request->complete.index;
}

struct request *request_new(struct linker *linker, struct device *device, uint8_t op)
{
    struct request *request = pool_take(&linker->request_pool);

    if (!request) {
        linker->is_out_of_memory = true;
        return NULL;
    }
    *request = (struct request){
        .id = linker->requests++,
        .device = device,
        .op = op,
        .issue.index = NO_EVENT,
        .complete.index = NO_EVENT,
        .first = no_submission,
        .row = NO_INT64,
        .sector = NO_INT64,
        .insert_ns = NO_INT64,
        .error = NO_INT32,
        .origin.dev = device->dev,
    };
    return request;
}

static void output_append(struct linker *linker, struct request *requests)
{
    if (linker->output)
        linker->last_output->next = requests;
    else
        linker->output = requests;
    while (requests->next)
        requests = requests->next;
    linker->last_output = requests;
}

void output_due(struct linker *linker, uint64_t index)
{
    struct request **slot = &linker->finished[index % OUTPUT_DELAY];

    if (*slot)
        output_append(linker, *slot);
    *slot = NULL;
}

static void finish(struct linker *linker, struct request *request)
{
    uint64_t position;
    struct request **slot;

    if (!request->is_closed || request->holds)
        return;
    position = request_position(request);
    slot = &linker->finished[position % OUTPUT_DELAY];
    request->next = NULL;
    if (position == NO_EVENT || linker->events - position >= OUTPUT_DELAY) {
        output_append(linker, request);
        return;
    }
    while (*slot)
        slot = &(*slot)->next;
    *slot = request;
}

void request_release(struct linker *linker, struct request *request)
{
    request->holds--;
    finish(linker, request);
}

void request_close(struct linker *linker, struct request *request)
{
    request->is_closed = true;
    finish(linker, request);
}

// --- rows ------------------------------------------------------------------------------------------------------------

// Return the event whose statements about a request count: the issue, else the completion, else the first bio.
static const struct stamp *stating(const struct request *request)
{
    if (is_issued(request))
        return &request->issue;
    return request->complete.index != NO_EVENT ? &request->complete : &request->first.stamp;
}

static void put_segment(struct table *table, const struct request *request, const struct segment *segment)
{
    size_t row = table_row(table);
    const struct stamp *stated = stating(request);
    const struct submission *submission = has_bio(request) ? &no_submission : &request->first;

    put_int64(table, BIO_REQUEST_ID, row, (int64_t)request_position(request));
    put_int64(table, BIO_SECTOR, row, segment->sector + request->moved);
    put_int64(table, BIO_NR_SECTORS, row, segment->nr_sectors);
    put_code(table, BIO_STATED_TYPE, row, stated->block_type);
    put_uint32(table, BIO_STATED_PATH, row, stated->path);
    if (segment->bio) {
        submission = &segment->bio->queued;
        put_int64(table, BIO_QUEUE_NS, row, submission->stamp.ts_ns);
        put_int64(table, BIO_SUBMIT_NS, row, submission->submit_ns);
    }
    put_int32(table, BIO_SUBMIT_TID, row, submission->tid);
    put_int32(table, BIO_SUBMIT_PID, row, submission->pid);
    put_uint32(table, BIO_SUBMIT_COMM, row, submission->comm);
}

static uint8_t matched_of(const struct request *request)
{
    if (request->complete.index == NO_EVENT)
        return MATCHED_NO_COMPLETE;
    if (!is_issued(request))
        return MATCHED_NO_ISSUE;
    if (request->is_interchangeable)
        return MATCHED_INTERCHANGEABLE;
    if (request->was_requeued)
        return MATCHED_REQUEUED;
    return request->is_split ? MATCHED_SPLIT : MATCHED_FULL;
}

static void put_request(const struct linker *linker, struct table *table, const struct request *request)
{
    size_t row = table_row(table);
    const struct submission *first = &request->first;
    const struct stamp *unissued = has_bio(request) ? &first->stamp : &request->complete;
    const struct stamp *shown = is_issued(request) ? &request->issue : unissued;
    struct meaning meaning = meaning_of(linker, shown->rwbs);
    uint8_t flags = meaning.flags | request->bio_flags;
    struct origin origin = has_bio(request) ? first->origin : request->origin;
    bool has_sectors = request->nr_sectors > 0;
    int64_t sector = request->sector + request->moved;

    origin = origin_in_partition(linker, origin, request->sector);
    put_int64(table, REQUEST_ID, row, (int64_t)request_position(request));
    put_uint32(table, REQUEST_DEV, row, request->device->dev);
    put_uint32(table, REQUEST_PART_DEV, row, origin.dev);
    if (has_sectors) {
        put_int64(table, REQUEST_SECTOR, row, sector);
        put_int64(table, REQUEST_PART_SECTOR, row, difference(sector, origin.offset));
    }
    put_int64(table, REQUEST_NR_SECTORS, row, request->nr_sectors);
    put_code(table, REQUEST_OP, row, has_sectors ? meaning.op : OP_FLUSH);
    for (size_t flag = 0; flag <= REQUEST_READAHEAD - REQUEST_SYNC; flag++)
        put_code(table, REQUEST_SYNC + flag, row, flags >> flag & 1);
    put_uint32(table, REQUEST_RWBS, row, shown->rwbs);
    if (has_bio(request))
        put_int64(table, REQUEST_QUEUE_NS, row, first->stamp.ts_ns);
    put_int64(table, REQUEST_INSERT_NS, row, request->insert_ns);
    if (is_issued(request))
        put_int64(table, REQUEST_ISSUE_NS, row, request->issue.ts_ns);
    if (request->complete.index != NO_EVENT) {
        put_int64(table, REQUEST_COMPLETE_NS, row, request->complete.ts_ns);
        put_int32(table, REQUEST_ERROR, row, request->error);
    }
    put_int32(table, REQUEST_NR_BIOS, row, (int32_t)request->nr_bios);
    put_int32(table, REQUEST_SUBMIT_TID, row, first->tid);
    put_int32(table, REQUEST_SUBMIT_PID, row, first->pid);
    put_uint32(table, REQUEST_SUBMIT_COMM, row, first->comm);
    put_int32(table, REQUEST_CPU, row, shown->cpu);
    put_code(table, REQUEST_MATCHED, row, matched_of(request));
}

bool output_rows(struct linker *linker, struct linked *linked)
{
    while (linker->output) {
        struct request *request = linker->output;

        while (request->segments && !table_is_full(linked->bios)) {
            struct segment *segment = request->segments;

            put_segment(linked->bios, request, segment);
            request->segments = segment->next;
            segment_free(linker, segment);
        }
        if (request->segments || table_is_full(linked->requests))
            return false;
        put_request(linker, linked->requests, request);
        linker->output = request->next;
        pool_give_back(&linker->request_pool, request);
    }
    return true;
}
