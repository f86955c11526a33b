/*
 * PostMark (Katcher, Network Appliance TR3022, 1997): a pool of small files, as a mail or news server has them, and
 * transactions on it. Each reads a file or appends to one, and creates a file or deletes one.
 *
 * As in PostMark 1.53: a new file has from the least size to one byte less than the most; an append brings a file to at
 * most that size, and one that has it is left alone, which counts as no append; files are picked uniformly; nothing is
 * synced. Otherwise than there: the pool may grow beyond twice its size, where PostMark leaves out creations without a
 * word; where no file is left the run fails by name; what is read must be as long as what was written; and times are
 * nanoseconds, not whole seconds.
 *
 * The pool is made before the measurement (part fill) and what is left of it deleted afterwards (part clear): these and
 * the transactions are what PostMark's report counts together. Files that are kept stay as the transactions left them;
 * a run never starts with what another one kept.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "bench_files.h"
#include "bench_payload.h"
#include "bench_postmark_pool.h"
#include "clock.h"
#include "complain.h"
#include "files.h"

/* What stdio reads and writes at once on most filesystems (st_blksize). */
#define STDIO_BYTES 4096

struct postmark_worker {
    const struct postmark_job *job;
    struct pool pool;
    struct rng choices;
    struct payload payload;
    unsigned char *buffer;
    size_t read_bytes, write_bytes; /* of one call */
    struct bench_tally filled;
};

/* stdio turns blocks into whole buffers, and takes larger blocks by whole buffers. */
static size_t call_bytes(const struct postmark_job *job, int64_t block)
{
    return (size_t)(job->buffered ? (block + STDIO_BYTES - 1) / STDIO_BYTES * STDIO_BYTES : block);
}

static void count(struct bench_tally *tally, int64_t from_ns, int64_t to_ns, int64_t bytes)
{
    hist_add(&tally->latency_ns, (uint64_t)(to_ns - from_ns));
    tally->ops++;
    tally->bytes += bytes;
}

/* Closes after an error without losing its errno. Returns 0 or -1. */
static int finish(int file, int result)
{
    int error = errno;

    if (close(file) && !result)
        return -1;
    errno = error;
    return result;
}

static int write_file(struct postmark_worker *own, const char *path, int flags, int64_t bytes)
{
    int file = open(path, O_WRONLY | O_CLOEXEC | flags, 0666), result = 0;

    if (file < 0)
        return -1;
    for (int64_t left = bytes; left && !result;) {
        size_t now = left < (int64_t)own->write_bytes ? (size_t)left : own->write_bytes;

        payload_fill(&own->payload, own->buffer, now);
        result = write_all(file, own->buffer, now);
        left -= (int64_t)now;
    }
    return finish(file, result);
}

/* errno ENODATA: the file is shorter than it should be. */
static int read_file(struct postmark_worker *own, const char *path, int64_t bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC), result = 0;

    if (file < 0)
        return -1;
    for (int64_t left = bytes; left && !result;) {
        ssize_t got = read(file, own->buffer, left < (int64_t)own->read_bytes ? (size_t)left : own->read_bytes);

        if (got > 0)
            left -= got;
        else if (!got)
            errno = ENODATA;
        if (!got || (got < 0 && errno != EINTR))
            result = -1;
    }
    return finish(file, result);
}

/* Returns the new file, or NULL with errno. */
static const struct pool_file *create(struct postmark_worker *own, char path[POOL_PATH])
{
    int64_t range = own->job->most - own->job->least;
    struct pool_file *file = pool_add(&own->pool, &own->choices);

    path[0] = '\0';
    if (!file)
        return NULL;
    file->size = own->job->least + (range ? (int64_t)rng_below(&own->choices, (uint64_t)range) : 0);
    pool_path(&own->pool, file, path);
    return write_file(own, path, O_CREAT | O_EXCL, file->size) ? NULL : file;
}

/* -- before the measurement -- */

/* What a command line can ask for in vain, bench_checks.c has refused. */
static int check(const struct bench_job *job)
{
    (void)job;
    return 0;
}

/* Its part of a number that all workers together have; the first get what cannot be divided. */
static int64_t share(int64_t all, const struct bench_worker *worker)
{
    return all / worker->job->threads + (worker->index < all % worker->job->threads);
}

static int open_worker(struct postmark_worker *own, const struct bench_worker *worker)
{
    const struct bench_job *job = worker->job;
    char directory[POOL_PATH], name[16];

    own->job = &job->postmark;
    own->read_bytes = call_bytes(own->job, own->job->read_block);
    own->write_bytes = call_bytes(own->job, own->job->write_block);
    own->buffer = malloc(own->read_bytes > own->write_bytes ? own->read_bytes : own->write_bytes);
    hist_clear(&own->filled.latency_ns);
    rng_seed(&own->choices, job->seed, rng_stream(RNG_CHOICES, (uint32_t)worker->index));
    if (!own->buffer || payload_open(&own->payload, own->write_bytes, (unsigned)job->compress, (unsigned)job->dedupe,
                                     job->seed, RNG_PAYLOAD, (uint32_t)worker->index))
        return complain("no memory for blocks of %" PRId64 " and %" PRId64 " bytes", own->job->read_block,
                        own->job->write_block);
    snprintf(name, sizeof name, "w%" PRId32, worker->index);
    snprintf(directory, sizeof directory, "%s/%s", worker->run->directory, name);
    if (files_remove(worker->run, name) || pool_open(&own->pool, directory, (uint32_t)own->job->subdirectories))
        return complain("%s: the directory cannot be made with its subdirectories: %s", directory, strerror(errno));
    return 0;
}

static int fill(struct postmark_worker *own, int64_t files)
{
    char path[POOL_PATH];

    for (int64_t made = 0; made < files; made++) {
        int64_t from_ns = clock_now(CLOCK_MONOTONIC);
        const struct pool_file *file = create(own, path);

        if (!file)
            return complain("%s: the file cannot be written: %s", path, strerror(errno));
        count(&own->filled, from_ns, clock_now(CLOCK_MONOTONIC), file->size);
        if (bench_stopping())
            return -1;
    }
    return 0;
}

/* The pool, and how far creations are expected to make it grow. */
static int64_t room_needed(const struct bench_job *job)
{
    const struct postmark_job *postmark = &job->postmark;
    int64_t growth = postmark->bias_create > 5 ? job->ops * (2 * postmark->bias_create - 10) / 10 : 0;

    return (postmark->files + growth) * (postmark->most + STDIO_BYTES);
}

static int visit(struct bench_run *run, const struct pool *pool, const struct pool_file *file)
{
    char path[POOL_PATH];
    int descriptor, result = 0;

    pool_path(pool, file, path);
    descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return complain("%s: the file cannot be opened: %s", path, strerror(errno));
    if (run->job->cache == CACHE_COLD && !run->cache.dropped && cache_evict(descriptor))
        result = complain("%s: the file cannot be written to its device: %s", path, strerror(errno));
    if (run->job->cache == CACHE_WARM && cache_fill(descriptor, file->size))
        result = complain("%s: the file cannot be read into the cache: %s", path, strerror(errno));
    cache_look(descriptor, file->size, &run->cache);
    close(descriptor);
    return result;
}

/* Looking at a file brings its inode and its directory back: dropped once more, they are as cold as its data. */
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

static int load(struct bench_run *run)
{
    struct postmark_worker *workers = calloc((size_t)run->nr_workers, sizeof *workers);

    run->state = workers;
    if (!workers)
        return complain("no memory for %" PRId32 " workers", run->nr_workers);
    if (files_room(run->directory, room_needed(run->job)))
        return -1;
    for (int32_t index = 0; index < run->nr_workers; index++)
        if (open_worker(&workers[index], &run->workers[index]) ||
            fill(&workers[index], share(run->job->postmark.files, &run->workers[index])))
            return -1;
    return settle_cache(run, workers);
}

static void unload(struct bench_run *run)
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

/* -- in the worker -- */

static int open_engine(struct bench_worker *worker)
{
    struct postmark_worker *workers = worker->run->state;

    worker->state = &workers[worker->index];
    worker->parts[PART_FILL] = workers[worker->index].filled;
    return 0;
}

/* What one half of a transaction did; part NR_PARTS: nothing. */
struct deed {
    enum bench_part part;
    int64_t bytes;
};

static int fail(struct bench_worker *worker, const char *path, const char *doing)
{
    int error = errno;

    if (error == ENODATA)
        return bench_fail(worker, 0, "%s is shorter than what was written to it", path);
    return bench_fail(worker, error, "%s cannot be %s: %s", path, doing, strerror(error));
}

static struct pool_file *pick(struct bench_worker *worker, char path[POOL_PATH])
{
    struct postmark_worker *own = worker->state;
    struct pool_file *file = pool_pick(&own->pool, &own->choices);

    if (file)
        pool_path(&own->pool, file, path);
    else
        bench_fail(worker, 0,
                   "no file is left after %" PRId64 " transactions: ask for more files, fewer transactions or more "
                   "creations (--bias-create)",
                   worker->begun - 1);
    return file;
}

static int do_read(struct bench_worker *worker, struct deed *deed)
{
    char path[POOL_PATH];
    const struct pool_file *file = pick(worker, path);

    if (!file)
        return -1;
    *deed = (struct deed){PART_READ, file->size};
    return read_file(worker->state, path, file->size) ? fail(worker, path, "read") : 0;
}

static int do_append(struct bench_worker *worker, struct deed *deed)
{
    struct postmark_worker *own = worker->state;
    char path[POOL_PATH];
    struct pool_file *file = pick(worker, path);
    int64_t bytes;

    if (!file)
        return -1;
    if (file->size >= own->job->most)
        return 0;
    bytes = 1 + (int64_t)rng_below(&own->choices, (uint64_t)(own->job->most - file->size));
    file->size += bytes;
    *deed = (struct deed){PART_APPEND, bytes};
    return write_file(own, path, O_APPEND, bytes) ? fail(worker, path, "appended to") : 0;
}

static int do_create(struct bench_worker *worker, struct deed *deed)
{
    char path[POOL_PATH];
    const struct pool_file *file = create(worker->state, path);

    if (!file)
        return fail(worker, path, "created");
    *deed = (struct deed){PART_CREATE, file->size};
    return 0;
}

static int do_delete(struct bench_worker *worker, struct deed *deed)
{
    struct postmark_worker *own = worker->state;
    char path[POOL_PATH];
    struct pool_file *file = pick(worker, path);

    if (!file)
        return -1;
    *deed = (struct deed){PART_DELETE, 0};
    pool_remove(&own->pool, file);
    return unlink(path) ? fail(worker, path, "deleted") : 0;
}

/* One of two deeds, the first with the chance of `bias` in ten; counts it as a part. */
static int half(struct bench_worker *worker, int64_t bias, int (*const deeds[2])(struct bench_worker *, struct deed *),
                int64_t *now_ns, int64_t *bytes)
{
    struct postmark_worker *own = worker->state;
    struct deed deed = {NR_PARTS, 0};
    int64_t from_ns = *now_ns;

    if (bias < 0)
        return 0;
    if (deeds[rng_below(&own->choices, 10) >= (uint64_t)bias](worker, &deed))
        return -1;
    *now_ns = clock_now(CLOCK_MONOTONIC);
    *bytes += deed.bytes;
    if (deed.part != NR_PARTS)
        bench_count(worker, deed.part, from_ns, *now_ns, deed.bytes);
    return 0;
}

static int transaction(struct bench_worker *worker, int64_t due_ns)
{
    static int (*const on_one[2])(struct bench_worker *, struct deed *) = {do_read, do_append};
    static int (*const on_pool[2])(struct bench_worker *, struct deed *) = {do_create, do_delete};
    const struct postmark_job *job = &worker->job->postmark;
    int64_t now_ns = clock_now(CLOCK_MONOTONIC), bytes = 0;

    if (half(worker, job->bias_read, on_one, &now_ns, &bytes) ||
        half(worker, job->bias_create, on_pool, &now_ns, &bytes))
        return -1;
    bench_count(worker, PART_OP, due_ns, now_ns, bytes);
    return 0;
}

/* All files at once, as none is open: PostMark itself leaves them in the cache. */
static int sync_filesystem(struct bench_worker *worker)
{
    int64_t from_ns = clock_now(CLOCK_MONOTONIC);
    int directory = open(worker->run->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (directory < 0 || finish(directory, syncfs(directory)))
        return bench_fail(worker, errno, "the filesystem of %s cannot be synced: %s", worker->run->directory,
                          strerror(errno));
    bench_count(worker, PART_FINISH, from_ns, clock_now(CLOCK_MONOTONIC), 0);
    return 0;
}

static int work(struct bench_worker *worker)
{
    int64_t due_ns;

    while (bench_next(worker, &due_ns))
        if (transaction(worker, due_ns))
            return -1;
    return worker->job->final_sync ? sync_filesystem(worker) : 0;
}

/* -- after the measurement -- */

static int check_sizes(struct bench_worker *worker)
{
    const struct postmark_worker *own = worker->state;
    char path[POOL_PATH];
    struct stat found;

    for (size_t number = 0; number < own->pool.count; number++) {
        const struct pool_file *file = &own->pool.files[number];

        pool_path(&own->pool, file, path);
        if (lstat(path, &found))
            return bench_fail(worker, errno, "%s cannot be found afterwards: %s", path, strerror(errno));
        if (found.st_size != file->size)
            return bench_fail(worker, 0, "%s has %" PRId64 " bytes, %" PRId64 " were written", path,
                              (int64_t)found.st_size, file->size);
    }
    return 0;
}

static int clear(struct bench_worker *worker)
{
    struct postmark_worker *own = worker->state;
    char path[POOL_PATH];

    for (; own->pool.count; own->pool.count--) {
        int64_t from_ns = clock_now(CLOCK_MONOTONIC);

        pool_path(&own->pool, &own->pool.files[own->pool.count - 1], path);
        if (unlink(path))
            return fail(worker, path, "deleted");
        count(&worker->parts[PART_CLEAR], from_ns, clock_now(CLOCK_MONOTONIC), 0);
    }
    if (pool_remove_directories(&own->pool))
        return bench_fail(worker, errno, "%s cannot be removed with its subdirectories: %s", own->pool.directory,
                          strerror(errno));
    return 0;
}

static void close_engine(struct bench_worker *worker)
{
    if (worker->message[0] || bench_stopping() || check_sizes(worker) || worker->job->keep)
        return;
    clear(worker);
}

/* Workers have looked at their files themselves. */
static int verify(struct bench_run *run)
{
    (void)run;
    return 0;
}

const struct bench_engine postmark_engine = {
    .name = "postmark",
    .check = check,
    .load = load,
    .open = open_engine,
    .work = work,
    .close = close_engine,
    .verify = verify,
    .unload = unload,
};
