// Rows of tables requests and bios.
#include "link/linker.h"
#include "link/origins.h"

// The event that says what the recording states of the request.
static const struct event *stated_of(const struct request *request)
{
    if (request->issue.number != NO_EVENT)
        return &request->issue;
    return request->complete.number != NO_EVENT ? &request->complete : &request->first.event;
}

static void put_piece(struct table *table, const struct request *request, const struct piece *piece)
{
    size_t row = table_row(table);
    const struct event *stated = stated_of(request);
    bool has_bio = request->first.event.number != NO_EVENT;
    const struct submission *submission = piece->bio ? &piece->bio->queued : has_bio ? &no_submission : &request->first;

    put_int64(table, BIO_REQUEST_ID, row, (int64_t)request_order(request));
    put_int64(table, BIO_SECTOR, row, piece->sector);
    put_int64(table, BIO_NR_SECTORS, row, piece->nr_sectors);
    put_code(table, BIO_STATED_TYPE, row, stated->block_type);
    put_uint32(table, BIO_STATED_PATH, row, stated->path);
    if (piece->bio) {
        put_int64(table, BIO_QUEUE_NS, row, submission->event.ts_ns);
        put_int64(table, BIO_SUBMIT_NS, row, submission->submit_ns);
    }
    put_int32(table, BIO_SUBMIT_TID, row, submission->tid);
    put_int32(table, BIO_SUBMIT_PID, row, submission->pid);
    put_uint32(table, BIO_SUBMIT_COMM, row, submission->comm);
}

static uint8_t matched_of(const struct request *request)
{
    if (request->complete.number == NO_EVENT)
        return MATCHED_NO_COMPLETE;
    if (request->issue.number == NO_EVENT)
        return MATCHED_NO_ISSUE;
    if (request->is_requeued)
        return MATCHED_REQUEUED;
    return request->is_split ? MATCHED_SPLIT : MATCHED_FULL;
}

static void put_request(const struct linker *linker, struct table *table, const struct request *request)
{
    size_t row = table_row(table);
    bool is_issued = request->issue.number != NO_EVENT, is_completed = request->complete.number != NO_EVENT;
    bool has_bio = request->first.event.number != NO_EVENT;
    const struct event *first = &request->first.event;
    const struct event *shown = is_issued ? &request->issue : has_bio ? first : &request->complete;
    struct meaning meaning = meaning_of(linker, shown->rwbs);
    struct origin origin =
        origin_in_partition(linker, has_bio ? request->first.origin : request->origin, request->sector);
    bool is_flush = !request->nr_sectors;
    uint8_t flags = meaning.flags | request->bio_flags;

    put_int64(table, REQUEST_ID, row, (int64_t)request_order(request));
    put_uint32(table, REQUEST_DEV, row, request->device->dev);
    put_uint32(table, REQUEST_PART_DEV, row, origin.dev);
    if (!is_flush) {
        put_int64(table, REQUEST_SECTOR, row, request->sector);
        put_int64(table, REQUEST_PART_SECTOR, row, difference(request->sector, origin.offset));
    }
    put_int64(table, REQUEST_NR_SECTORS, row, request->nr_sectors);
    put_code(table, REQUEST_OP, row, is_flush ? OP_FLUSH : meaning.op);
    for (size_t flag = 0; flag <= REQUEST_READAHEAD - REQUEST_SYNC; flag++)
        put_code(table, REQUEST_SYNC + flag, row, flags >> flag & 1);
    put_uint32(table, REQUEST_RWBS, row, shown->rwbs);
    put_int64(table, REQUEST_INSERT_NS, row, request->insert_ns);
    if (is_issued)
        put_int64(table, REQUEST_ISSUE_NS, row, request->issue.ts_ns);
    if (is_completed) {
        put_int64(table, REQUEST_COMPLETE_NS, row, request->complete.ts_ns);
        put_int32(table, REQUEST_ERROR, row, request->error);
    }
    put_int32(table, REQUEST_NR_BIOS, row, (int32_t)request->nr_bios);
    if (has_bio)
        put_int64(table, REQUEST_QUEUE_NS, row, first->ts_ns);
    put_int32(table, REQUEST_SUBMIT_TID, row, request->first.tid);
    put_int32(table, REQUEST_SUBMIT_PID, row, request->first.pid);
    put_uint32(table, REQUEST_SUBMIT_COMM, row, request->first.comm);
    put_int32(table, REQUEST_CPU, row, shown->cpu);
    put_code(table, REQUEST_MATCHED, row, matched_of(request));
}

bool rows_put(struct linker *linker, struct linked *linked)
{
    while (linker->out) {
        struct request *request = linker->out;

        while (request->pieces && !table_is_full(linked->bios)) {
            struct piece *piece = request->pieces;

            put_piece(linked->bios, request, piece);
            request->pieces = piece->next;
            piece_release(linker, piece);
        }
        if (request->pieces || table_is_full(linked->requests))
            return false;
        put_request(linker, linked->requests, request);
        linker->out = request->next;
        pool_give_back(&linker->request_pool, request);
    }
    return true;
}
