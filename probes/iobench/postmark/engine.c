/* PostMark (Katcher, Network Appliance TR3022, 1997): a pool of small files, as on a mail or news server, and
 * transactions on it. Each transaction reads a file or appends to one, and creates a file or deletes one.
 *
 * As in PostMark 1.53:
 * - The size of a new file is from the least size to one byte less than the largest.
 * - An append grows a file to at most the largest size. A file of this size is left alone; this does not count as an
 *   append.
 * - Files are picked uniformly, and nothing is synced.
 *
 * Unlike PostMark:
 * - The pool may grow beyond twice its size; PostMark silently omits such creations.
 * - The run fails with a message if no file is left.
 * - A read must return as many bytes as were written.
 * - Times are in nanoseconds, not in whole seconds.
 *
 * The pool is created before the measurement (part fill), and its remaining files are deleted afterwards (part clear).
 * PostMark's report counts these together with the transactions. With --keep, the files stay as the transactions left
 * them; no run starts with the files of another one. */

#include "iobench/postmark/engine.h"

static int open_engine(struct bench_worker *worker)
{
    struct postmark_worker *workers = worker->run->state;
    worker->state = &workers[worker->index];
    worker->parts[PART_FILL] = workers[worker->index].filled;
    return 0;
}

/* Result of one half of a transaction; part NR_PARTS: nothing was done. */
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
    return postmark_read(worker->state, path, file->size) ? fail(worker, path, "read") : 0;
}

static int do_append(struct bench_worker *worker, struct deed *deed)
{
    struct postmark_worker *own = worker->state;
    char path[POOL_PATH];
    struct pool_file *file = pick(worker, path);
    if (!file)
        return -1;
    if (file->size >= own->job->most)
        return 0;
    int64_t bytes = 1 + (int64_t)rng_below(&own->choices, (uint64_t)(own->job->most - file->size));
    file->size += bytes;
    *deed = (struct deed){PART_APPEND, bytes};
    return postmark_write(own, path, O_APPEND, bytes) ? fail(worker, path, "appended to") : 0;
}

static int do_create(struct bench_worker *worker, struct deed *deed)
{
    char path[POOL_PATH];
    const struct pool_file *file = postmark_create(worker->state, path);
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

/* Do the first of two actions with a probability of `bias` in ten, else the second, and count it as a part. */
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

/* Sync the filesystem, because no file is open. PostMark itself leaves the files in the cache. */
static int sync_filesystem(struct bench_worker *worker)
{
    int64_t from_ns = clock_now(CLOCK_MONOTONIC);
    int directory = open(worker->run->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = directory < 0 || syncfs(directory) < 0 ? errno : 0;
    close_file(directory);
    if (error)
        return bench_fail(worker, error, "the filesystem of %s cannot be synced: %s", worker->run->directory,
                          strerror(error));
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
        postmark_count(&worker->parts[PART_CLEAR], from_ns, clock_now(CLOCK_MONOTONIC), 0);
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

const struct bench_engine postmark_engine = {
    .name = "postmark",
    .workload = BENCH_POSTMARK,
    .load = postmark_load,
    .open = open_engine,
    .work = work,
    .close = close_engine,
    .unload = postmark_unload,
};
