#include "iobench/sqlite/engine.h"

static int load_databases(struct bench_run *run, struct sqlite_values *values)
{
    for (int32_t set = 0; set < sqlite_sets(run->job); set++)
        for (int64_t database = 0; database < run->job->sqlite.databases; database++) {
            char path[sizeof run->directory + 64];
            sqlite_path(run, set, database, path, sizeof path);
            if (sqlite_fill(run, path, values) < 0)
                return -1;
        }
    return 0;
}

/* Call `each` with every database file and its size. */
static int for_each_file(struct bench_run *run, int (*each)(struct bench_run *run, int file, int64_t bytes))
{
    for (int32_t set = 0; set < sqlite_sets(run->job); set++)
        for (int64_t database = 0; database < run->job->sqlite.databases; database++) {
            char path[sizeof run->directory + 64];
            struct stat status;
            sqlite_path(run, set, database, path, sizeof path);
            int file = open(path, O_RDONLY | O_CLOEXEC);
            int result = file < 0 || fstat(file, &status) < 0 ? -1 : each(run, file, status.st_size);
            if (result < 0)
                print_error("%s: cannot be read or synced (%s)", path, strerror(errno));
            close_file(file);
            if (result < 0)
                return -1;
        }
    return 0;
}

static int settle_file(struct bench_run *run, int file, int64_t bytes)
{
    switch (run->job->cache) {
    case CACHE_COLD:
        return cache_evict(file);
    case CACHE_WARM:
        return fsync(file) < 0 ? -1 : cache_fill(file, bytes);
    case CACHE_UNKNOWN:
        break;
    }
    return fsync(file);
}

static int look_at_file(struct bench_run *run, int file, int64_t bytes)
{
    cache_look(file, bytes, &run->cache);
    return 0;
}

/* The databases are closed, so that SQLite's own caches are empty as well. */
static int settle_cache(struct bench_run *run)
{
    if (run->job->cache == CACHE_COLD)
        cache_drop_all(&run->cache);
    if (for_each_file(run, settle_file) < 0 || for_each_file(run, look_at_file) < 0)
        return -1;
    cache_conclude(&run->cache);
    return 0;
}

static struct sqlite_setup *make_setup(const struct bench_job *job)
{
    struct sqlite_setup *setup = mmap(NULL, sizeof *setup, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rng rng;
    if (setup == MAP_FAILED) {
        print_error("memory for the workers of SQLite: %s", strerror(errno));
        return NULL;
    }
    /* A second run of the same job must not write data that already exists: the seed is equal, the time differs. */
    rng_seed(&rng, job->seed, (uint64_t)clock_now(CLOCK_REALTIME));
    setup->nonce = rng_next(&rng);
    setup->prefilled = sqlite_prefilled(job);
    return setup;
}

int sqlite_load(struct bench_run *run)
{
    struct sqlite_setup *setup = make_setup(run->job);
    struct sqlite_values values;
    run->state = setup;
    if (!setup || sqlite_library_open(&setup->library, run->job->sqlite.library) < 0 ||
        sqlite_library_describe(&setup->library, run->versions, sizeof run->versions) < 0 ||
        files_room(run->held, run->directory, sqlite_bytes_needed(run->job)) < 0)
        return -1;
    sqlite_values_open(&values, run->job, setup->nonce, -1);
    int result = load_databases(run, &values);
    sqlite_values_close(&values);
    return result < 0 ? -1 : settle_cache(run);
}

void sqlite_unload(struct bench_run *run)
{
    struct sqlite_setup *setup = run->state;
    if (!setup)
        return;
    sqlite_library_close(&setup->library);
    munmap(setup, sizeof *setup);
    run->state = NULL;
}
