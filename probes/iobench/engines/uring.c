/* Engine with many requests in flight of one worker, through an io_uring.
 *
 * The sync after a write is linked to it: the kernel starts it when the write is done, and the operation ends with the
 * sync. It does not wait for other writes in flight; only the sync at the end covers all of them. */

#include "iobench/engines/file.h"
#include "iobench/engines/ring.h"

/* Half of the kernel's limit of 32768 entries, because a sync may be linked to each write. */
#define DEPTH_MOST 16384

/* Length of a range that exceeds the field of an entry. */
#define TO_THE_END 0

struct request {
    struct file_step step;
    struct iovec all, rest; /* of the buffer: the whole record, and the part still to transfer */
    int64_t done_ns;        /* the write is done, its sync is not */
    struct request *next;   /* in the list of free requests, or of those just started */
};

struct uring_worker {
    struct file_worker file;
    struct ring ring;
    struct request *requests, *free;
    struct iovec *buffers;
    unsigned busy;      /* requests */
    unsigned in_flight; /* entries without a completion */
    bool keeps_file, keeps_buffers;
};

static int check(const struct bench_job *job)
{
    const struct file_mode *mode = &job->file.mode;
    struct ring ring;
    if (REFUSE({job->file.depth > DEPTH_MOST, "--iodepth: an io_uring has at most 16384 requests"},
               {job->file.depth > 1 && job->think_ns,
                "--thinktime: with more than one request in flight nothing would pause; leave out --iodepth"},
               {mode->after == AFTER_MSYNC_ASYNC || mode->after == AFTER_MSYNC_SYNC,
                "msync is for mappings: --ioengine mmap"},
               {mode->after == AFTER_FBARRIER || mode->after == AFTER_FDATABARRIER,
                "io_uring has no fbarrier and fdatabarrier: choose --ioengine psync"}))
        return -1;
    if (ring_open(&ring, 1))
        return errno == ENOSYS
                   ? print_error("this kernel has no io_uring (Linux 5.1): choose --ioengine psync")
                   : print_error("io_uring cannot be used here (%s): see /proc/sys/kernel/io_uring_disabled, "
                                 "or choose --ioengine psync",
                                 strerror(errno));
    ring_close(&ring);
    return file_check(job);
}

static void close_worker(struct bench_worker *worker)
{
    struct uring_worker *own = worker->state;
    ring_close(&own->ring);
    file_close(&own->file);
    free(own->requests);
    free(own->buffers);
}

/* If the kernel refuses to register the file or buffers, every request names them. */
static int open_ring(struct bench_worker *worker, struct uring_worker *own)
{
    unsigned depth = (unsigned)worker->job->file.depth;
    if (ring_open(&own->ring, worker->job->file.mode.after == AFTER_NONE ? depth : 2 * depth))
        return bench_fail(worker, errno, "no io_uring for %u requests (%s)", depth, strerror(errno));
    own->requests = zeroed(depth, sizeof *own->requests);
    own->buffers = zeroed(depth, sizeof *own->buffers);
    for (unsigned number = 0; number < depth; number++) {
        own->buffers[number].iov_base = own->file.buffers + number * own->file.stride;
        own->buffers[number].iov_len = own->file.record;
        own->requests[number].all = own->buffers[number];
        own->requests[number].next = own->free;
        own->free = &own->requests[number];
    }
    own->keeps_file = ring_keep_file(&own->ring, own->file.file) == 0;
    own->keeps_buffers = ring_keep_buffers(&own->ring, own->buffers, depth) == 0;
    return 0;
}

static int open_worker(struct bench_worker *worker)
{
    struct uring_worker *own = worker->state;
    own->ring.ring = -1;
    return file_open(worker, &own->file, (size_t)worker->job->file.depth) < 0 ? -1 : open_ring(worker, own);
}

static struct io_uring_sqe *prepare(struct uring_worker *own, const struct request *request, bool is_sync)
{
    struct io_uring_sqe *entry = ring_prepare(&own->ring);
    own->in_flight++;
    entry->fd = own->keeps_file ? 0 : own->file.file;
    entry->flags = own->keeps_file ? IOSQE_FIXED_FILE : 0;
    entry->user_data = (uint64_t)(request - own->requests) * 2 + is_sync;
    return entry;
}

static void prepare_transfer(struct uring_worker *own, struct request *request, int write_flags)
{
    bool write = request->step.write;
    struct io_uring_sqe *entry = prepare(own, request, false);
    entry->off = (uint64_t)request->step.offset + (request->all.iov_len - request->rest.iov_len);
    if (own->keeps_buffers) {
        entry->opcode = write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
        entry->addr = (uintptr_t)request->rest.iov_base;
        entry->len = (uint32_t)request->rest.iov_len;
        entry->buf_index = (uint16_t)(request - own->requests);
    } else {
        entry->opcode = write ? IORING_OP_WRITEV : IORING_OP_READV;
        entry->addr = (uintptr_t)&request->rest;
        entry->len = 1;
    }
    if (write)
        entry->rw_flags = write_flags;
    if (request->step.sync)
        entry->flags |= IOSQE_IO_LINK;
}

static void prepare_sync(struct uring_worker *own, const struct request *request, const struct file_mode *mode)
{
    struct io_uring_sqe *entry = prepare(own, request, true);
    if (mode->after == AFTER_RANGE) {
        entry->opcode = IORING_OP_SYNC_FILE_RANGE;
        entry->off = (uint64_t)request->step.sync_offset;
        entry->len = request->step.sync_bytes > UINT32_MAX ? TO_THE_END : (uint32_t)request->step.sync_bytes;
        entry->sync_range_flags = mode->range_flags;
    } else {
        entry->opcode = IORING_OP_FSYNC;
        entry->fsync_flags = mode->after == AFTER_FDATASYNC ? IORING_FSYNC_DATASYNC : 0;
    }
}

static void submit(struct uring_worker *own, struct request *request, const struct file_mode *mode)
{
    prepare_transfer(own, request, mode->write_flags);
    if (request->step.sync)
        prepare_sync(own, request, mode);
}

/* Set the start of requests that are submitted together: none of them has waited for storage before. */
static void stamp(struct request *started)
{
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    for (; started; started = started->next)
        started->step.due_ns = started->step.start_ns = now_ns;
}

/* Start as many operations as are free and due. Returns false when the work is over. */
static bool start(struct bench_worker *worker, struct uring_worker *own)
{
    const struct bench_job *job = worker->job;
    struct request *started = NULL;
    bool goes_on = true;
    while (own->free) {
        struct request *request = own->free;
        /* bench_next would sleep, and completions would not be noticed. */
        if (job->rate && own->busy && clock_now(CLOCK_MONOTONIC) < worker->next_due_ns)
            break;
        goes_on = file_next(worker, &own->file, request->all.iov_base, &request->step);
        if (!goes_on)
            break;
        own->free = request->next;
        request->next = started;
        started = request;
        own->busy++;
        request->rest = request->all;
        submit(own, request, &job->file.mode);
    }
    if (!job->rate && started && started->next)
        stamp(started);
    return goes_on;
}

static void operation_done(struct bench_worker *worker, struct uring_worker *own, struct request *request,
                           int64_t now_ns)
{
    file_count(worker, &own->file, &request->step, request->step.sync ? request->done_ns : now_ns, now_ns);
    request->next = own->free;
    own->free = request;
    own->busy--;
}

/* Continue a short transfer where it stopped. Its linked sync was cancelled or came too early. */
static int transferred(struct bench_worker *worker, struct uring_worker *own, struct request *request, int result,
                       int64_t now_ns)
{
    if (result < 0 && result != -EINTR && result != -EAGAIN)
        return file_fail(worker, &own->file, &request->step, -result);
    if (!result)
        return file_fail(worker, &own->file, &request->step, 0);
    if (result > 0) {
        request->rest.iov_base = (unsigned char *)request->rest.iov_base + result;
        request->rest.iov_len -= (size_t)result;
    }
    request->done_ns = now_ns;
    if (request->step.sync)
        return 0;
    if (request->rest.iov_len)
        submit(own, request, &worker->job->file.mode);
    else
        operation_done(worker, own, request, now_ns);
    return 0;
}

static int synced(struct bench_worker *worker, struct uring_worker *own, struct request *request, int result,
                  int64_t now_ns)
{
    if (request->rest.iov_len)
        submit(own, request, &worker->job->file.mode);
    else if (result < 0)
        return file_fail_sync(worker, &own->file, -result);
    else
        operation_done(worker, own, request, now_ns);
    return 0;
}

/* Handle all completions. They are timed when they are read, because the time of the completion itself is unknown. */
static int reap(struct bench_worker *worker, struct uring_worker *own)
{
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    struct io_uring_cqe completion;
    int result = 0;
    while (ring_take(&own->ring, &completion)) {
        struct request *request = &own->requests[completion.user_data / 2];
        own->in_flight--;
        if (!result)
            result = completion.user_data % 2 ? synced(worker, own, request, completion.res, now_ns)
                                              : transferred(worker, own, request, completion.res, now_ns);
    }
    return result;
}

/* Wait for all requests: the kernel must not write to freed buffers. */
static void abandon(struct uring_worker *own)
{
    struct io_uring_cqe completion;
    while (own->in_flight) {
        if (ring_enter(&own->ring, 1))
            return;
        while (ring_take(&own->ring, &completion))
            own->in_flight--;
    }
}

/* Submit, and wait for a completion, but at most until the next operation is due. */
static int enter(const struct bench_worker *worker, struct uring_worker *own, bool goes_on)
{
    if (!worker->job->rate || !own->free || !goes_on)
        return ring_enter(&own->ring, 1);
    if (own->ring.prepared && ring_enter(&own->ring, 0))
        return -1;
    return ring_await(&own->ring, worker->next_due_ns);
}

static int work(struct bench_worker *worker)
{
    struct uring_worker *own = worker->state;
    bool goes_on = true;
    int result = 0;
    while (!result) {
        if (goes_on)
            goes_on = start(worker, own);
        if (!own->busy)
            break;
        if (enter(worker, own, goes_on))
            result = bench_fail(worker, errno, "the io_uring takes no requests (%s)", strerror(errno));
        else
            result = reap(worker, own);
    }
    abandon(own);
    return result ? result : file_finish(worker, &own->file, NULL);
}

const struct bench_engine file_uring = {
    .name = "io_uring",
    FILE_ENGINE,
    .mode_word = "io_uring",
    .state_bytes = sizeof(struct uring_worker),
    .check = check,
    .open = open_worker,
    .work = work,
    .close = close_worker,
};
