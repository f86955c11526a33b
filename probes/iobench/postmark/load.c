#include "iobench/postmark/engine.h"

/* Bytes that stdio reads and writes at once on most filesystems (st_blksize). */
#define STDIO_BYTES 4096

/* Return the bytes of one call: stdio transfers whole buffers. */
static size_t call_bytes(const struct postmark_job *job, int64_t block)
{
    return (size_t)(job->buffered ? (block + STDIO_BYTES - 1) / STDIO_BYTES * STDIO_BYTES : block);
}

static int open_worker(struct postmark_worker *own, const struct bench_worker *worker)
{
    const struct bench_job *job = worker->job;
    char directory[POOL_PATH], name[16];
    own->job = &job->postmark;
    own->read_bytes = call_bytes(own->job, own->job->read_block);
    own->write_bytes = call_bytes(own->job, own->job->write_block);
    own->buffer = grow(NULL, own->read_bytes > own->write_bytes ? own->read_bytes : own->write_bytes, 1);
    rng_seed(&own->choices, job->seed, rng_stream(RNG_CHOICES, (uint32_t)worker->index));
    payload_open(&own->payload, own->write_bytes, (unsigned)job->compress, (unsigned)job->dedupe, job->seed,
                 RNG_PAYLOAD, (uint32_t)worker->index);
    snprintf(name, sizeof name, "w%" PRId32, worker->index);
    snprintf(directory, sizeof directory, "%s/%s", worker->run->directory, name);
    if (files_remove(worker->run, name) || pool_open(&own->pool, directory, (uint32_t)own->job->subdirectories))
        return print_error("%s: the directory cannot be made with its subdirectories: %s", directory, strerror(errno));
    return 0;
}

static int fill(struct postmark_worker *own, int64_t files)
{
    char path[POOL_PATH];
    for (int64_t made = 0; made < files; made++) {
        int64_t from_ns = clock_now(CLOCK_MONOTONIC);
        const struct pool_file *file = postmark_create(own, path);
        if (!file)
            return print_error("%s: the file cannot be written: %s", path, strerror(errno));
        postmark_count(&own->filled, from_ns, clock_now(CLOCK_MONOTONIC), file->size);
        if (bench_stopping())
            return -1;
    }
    return 0;
}

/* Return the bytes of the pool and of its expected growth; INT64_MAX on overflow. */
static int64_t room_needed(const struct bench_job *job)
{
    const struct postmark_job *postmark = &job->postmark;
    int64_t growth = postmark->bias_create > 5 ? job->ops * (2 * postmark->bias_create - 10) / 10 : 0, most, room;
    return __builtin_add_overflow(postmark->most, STDIO_BYTES, &most) ||
                   __builtin_mul_overflow(postmark->files + growth, most, &room)
               ? INT64_MAX
               : room;
}

static int visit(struct bench_run *run, const struct pool *pool, const struct pool_file *file)
{
    char path[POOL_PATH];
    int descriptor, result = 0;
    pool_path(pool, file, path);
    descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return print_error("%s: the file cannot be opened: %s", path, strerror(errno));
    if (run->job->cache == CACHE_COLD && !run->cache.dropped && cache_evict(descriptor))
        result = print_error("%s: the file cannot be written to its device: %s", path, strerror(errno));
    if (run->job->cache == CACHE_WARM && cache_fill(descriptor, file->size))
        result = print_error("%s: the file cannot be read into the cache: %s", path, strerror(errno));
    cache_look(descriptor, file->size, &run->cache);
    close(descriptor);
    return result;
}

/* Caches are dropped again at the end, because cache_look brings inodes and directories back. */
static int settle_cache(struct bench_run *run, const struct postmark_worker *workers)
{
    if (run->job->cache == CACHE_COLD)
        cache_drop_all(&run->cache);
    for (int32_t index = 0; index < run->nr_workers; index++)
        for (size_t number = 0; number < workers[index].pool.count; number++)
            if (visit(run, &workers[index].pool, &workers[index].pool.files[number]))
                return -1;
    cache_conclude(&run->cache);
    if (run->cache.dropped)
        cache_drop_all(&run->cache);
    return 0;
}

int postmark_load(struct bench_run *run)
{
    struct postmark_worker *workers = run->state = zeroed((size_t)run->nr_workers, sizeof *workers);
    if (files_room(run->held, run->directory, room_needed(run->job)))
        return -1;
    for (int32_t index = 0; index < run->nr_workers; index++)
        if (open_worker(&workers[index], &run->workers[index]) ||
            fill(&workers[index], bench_share(&run->workers[index], run->job->postmark.files)))
            return -1;
    return settle_cache(run, workers);
}

void postmark_unload(struct bench_run *run)
{
    struct postmark_worker *workers = run->state;
    for (int32_t index = 0; workers && index < run->nr_workers; index++) {
        pool_close(&workers[index].pool);
        payload_close(&workers[index].payload);
        free(workers[index].buffer);
    }
    free(workers);
    run->state = NULL;
}
