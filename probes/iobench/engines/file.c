#include "iobench/engines/file.h"

/* Buffers are aligned to pages whatever O_DIRECT requires, so that results do not depend on malloc. */
#define BUFFER_ALIGN 4096

bool file_is_shared(const struct bench_job *job)
{
    return job->shared || job->filename;
}

uint64_t file_records(const struct bench_job *job)
{
    return (uint64_t)(job->file.size / job->file.record);
}

bool file_reads(const struct bench_job *job)
{
    return job->file.access == ACCESS_READ || job->file.access == ACCESS_MIXED;
}

bool file_writes(const struct bench_job *job)
{
    return job->file.access != ACCESS_READ;
}

int file_order(const struct bench_job *job, enum rng_use use, uint32_t worker, struct order *order)
{
    if (!job->file.random) {
        order_sequential(order, file_records(job));
        return 0;
    }
    if (job->compat_rng)
        return order_mobibench(order, file_records(job), (unsigned)job->file.overlap);
    return order_random(order, file_records(job), (unsigned)job->file.overlap, job->seed, use, worker);
}

static int open_stream(const struct bench_worker *worker, struct file_stream *stream, enum rng_use use,
                       const struct order *shared)
{
    const struct bench_job *job = worker->job;
    uint64_t number = (uint64_t)worker->index, parts = (uint64_t)job->threads;
    if (!file_is_shared(job)) {
        stream->order = &stream->own;
        stream->count = file_records(job);
        return file_order(job, use, (uint32_t)worker->index, &stream->own);
    }
    stream->order = shared;
    stream->first = file_records(job) * number / parts;
    stream->count = file_records(job) * (number + 1) / parts - stream->first;
    return 0;
}

static int open_streams(struct bench_worker *worker, struct file_worker *own)
{
    struct file_state *state = worker->run->state;
    const struct bench_job *job = worker->job;
    if ((file_reads(job) && open_stream(worker, &own->reads, RNG_READS, &state->reads)) ||
        (file_writes(job) && open_stream(worker, &own->writes, RNG_WRITES, &state->writes)))
        return bench_fail(worker, errno, "no memory for the order of %" PRIu64 " records", file_records(job));
    rng_seed(&own->choices, job->seed, rng_stream(RNG_CHOICES, (uint32_t)worker->index));
    if (file_writes(job))
        payload_open(&own->payload, own->record, (unsigned)job->compress, (unsigned)job->dedupe, state->payload_seed,
                     RNG_PAYLOAD, (uint32_t)worker->index);
    own->appended = job->file.access == ACCESS_APPEND && file_is_shared(job) ? &state->appended : NULL;
    own->checker = &state->checkers[worker->index];
    return 0;
}

/* If nothing else ends the work, the size of the file does. */
static void set_end(struct bench_worker *worker, struct file_worker *own)
{
    const struct bench_job *job = worker->job;
    uint64_t count = file_writes(job) ? own->writes.count : own->reads.count;
    if (!job->ops && !job->duration_ns)
        worker->ops_asked = job->file.loops * (int64_t)count;
    own->capacity = job->file.access == ACCESS_APPEND && !job->ops ? count : UINT64_MAX;
}

/* The buffers are touched here, so that they cause no page faults in the measured part. */
static int open_buffers(struct bench_worker *worker, struct file_worker *own, size_t nr_buffers)
{
    size_t align = BUFFER_ALIGN, requested = 0, bytes;
    void *buffers;
    if (worker->job->file.mode.open_flags & O_DIRECT)
        requested = direct_align(own->file).memory;
    while (align < requested)
        align *= 2;
    own->stride = (own->record + align - 1) / align * align;
    if (__builtin_mul_overflow(own->stride, nr_buffers, &bytes) || posix_memalign(&buffers, align, bytes))
        return bench_fail(worker, ENOMEM, "no memory for %zu records of %zu bytes", nr_buffers, own->record);
    own->buffers = buffers;
    memset(own->buffers, 0, bytes);
    return 0;
}

int file_open(struct bench_worker *worker, struct file_worker *own, size_t nr_buffers)
{
    const struct file_job *job = &worker->job->file;
    const char *why = "";
    *own = (struct file_worker){.file = -1, .record = (size_t)job->record, .low = INT64_MAX};
    if (files_path(worker->run, worker->index, own->path, sizeof own->path))
        return bench_fail(worker, ENAMETOOLONG, "%s: the path is too long", worker->run->directory);
    own->file = files_open(worker->job, own->path, job->mode.open_flags, &why);
    if (own->file < 0)
        return bench_fail(worker, errno, "%s: %s (%s)", own->path, why, strerror(errno));
    if (open_streams(worker, own) || open_buffers(worker, own, nr_buffers))
        return -1;
    set_end(worker, own);
    return 0;
}

void file_close(struct file_worker *own)
{
    close_file(own->file);
    free(own->buffers);
    payload_close(&own->payload);
    order_free(&own->reads.own);
    order_free(&own->writes.own);
}

static bool chooses_write(const struct bench_job *job, struct file_worker *own)
{
    if (job->file.access != ACCESS_MIXED)
        return job->file.access != ACCESS_READ;
    return (int64_t)rng_below(&own->choices, 100) >= job->file.read_percent;
}

static uint64_t take(struct file_stream *stream, uint64_t *appended)
{
    uint64_t number = stream->taken++;
    if (appended)
        return __atomic_fetch_add(appended, 1, __ATOMIC_RELAXED);
    return order_at(stream->order, stream->first + number % stream->count);
}

static void note_read_again(const struct bench_worker *worker)
{
    struct file_state *state = worker->run->state;
    __atomic_store_n(&state->read_again, true, __ATOMIC_RELAXED);
}

/* Plan the sync after some writes. It covers the range from the first to the last byte of them. */
static void plan_sync(const struct file_job *job, struct file_worker *own, struct file_step *step)
{
    int64_t end = step->offset + job->record;
    if (step->offset < own->low)
        own->low = step->offset;
    if (end > own->high)
        own->high = end;
    if (++own->unsynced < job->after_every)
        return;
    step->sync = true;
    step->sync_offset = own->low;
    step->sync_bytes = own->high - own->low;
    own->unsynced = 0;
    own->low = INT64_MAX;
    own->high = 0;
}

bool file_next(struct bench_worker *worker, struct file_worker *own, void *buffer, struct file_step *step)
{
    const struct bench_job *job = worker->job;
    step->write = chooses_write(job, own);
    step->sync = false;
    struct file_stream *stream = step->write ? &own->writes : &own->reads;
    if (stream->taken >= own->capacity)
        return false;
    if (step->write)
        payload_fill(&own->payload, buffer, own->record);
    if (!bench_next(worker, &step->due_ns))
        return false;
    if (!step->write && stream->taken == stream->count)
        note_read_again(worker);
    step->record = take(stream, own->appended);
    step->offset = (int64_t)step->record * job->file.record;
    if (step->write) {
        checker_begin(own->checker, step->record, buffer, own->record);
        if (job->file.mode.after != AFTER_NONE)
            plan_sync(&job->file, own, step);
    }
    /* With a rate the operation was due before the worker woke up. */
    step->start_ns = job->rate ? clock_now(CLOCK_MONOTONIC) : step->due_ns;
    return true;
}

void file_count(struct bench_worker *worker, struct file_worker *own, const struct file_step *step, int64_t done_ns,
                int64_t end_ns)
{
    int64_t bytes = worker->job->file.record;
    if (step->write)
        checker_end(own->checker, step->record, step->offset + bytes);
    if (step->sync)
        bench_count(worker, PART_SYNC, done_ns, end_ns, 0);
    bench_count(worker, step->write ? PART_WRITE : PART_READ, step->start_ns, done_ns, bytes);
    bench_count(worker, PART_OP, step->due_ns, end_ns, bytes);
}

int file_fail(struct bench_worker *worker, const struct file_worker *own, const struct file_step *step, int error)
{
    return bench_fail(worker, error, "%s: cannot %s %zu bytes at %" PRId64 " (%s)", own->path,
                      step->write ? "write" : "read", own->record, step->offset,
                      error ? strerror(error) : "the file ends there");
}

int file_fail_sync(struct bench_worker *worker, const struct file_worker *own, int error)
{
    return bench_fail(worker, error, "%s: what was written cannot be made durable (%s)", own->path, strerror(error));
}

int file_finish(struct bench_worker *worker, const struct file_worker *own, void *map)
{
    if (!worker->job->final_sync || !file_writes(worker->job) || bench_stopping())
        return 0;
    int64_t start_ns = clock_now(CLOCK_MONOTONIC);
    if (map ? msync(map, (size_t)worker->job->file.size, MS_SYNC) : fsync(own->file))
        return file_fail_sync(worker, own, errno);
    bench_count(worker, PART_FINISH, start_ns, clock_now(CLOCK_MONOTONIC), 0);
    return 0;
}
