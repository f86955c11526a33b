#include "iobench/bench.h"

#define SHOW_NS (INT64_C(1000000000) / 10)

/* Time between the release and the start, so that all workers have woken up. */
#define HEAR_NS      2000000
#define HEAR_EACH_NS 20000

/* Bytes of address space; memory is allocated when it is written. */
#define IS_64_BIT     (sizeof(void *) == 8)
#define WINDOWS_BYTES (IS_64_BIT ? INT64_C(1) << 30 : INT64_C(1) << 26)
#define MOST_WINDOWS  (INT64_C(1) << 20)
#define LOG_BYTES     (INT64_C(1) << 28) /* limit with 32-bit addresses */

/* In memory shared between processes, followed by the workers and then their tallies, windows and logs. */
struct workers {
    struct bench_run run;
    struct spawn spawn;
    size_t bytes;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t room_for_windows(const struct bench_job *job)
{
    if (!job->interval_ns)
        return 0;
    return least(MOST_WINDOWS, WINDOWS_BYTES / job->threads / (int64_t)sizeof(struct bench_window));
}

/* If only operations end the run, check_worker checks the length of the time series afterwards. */
int workers_check(const struct bench_job *job)
{
    int64_t room = room_for_windows(job);
    if (job->interval_ns && job->duration_ns / job->interval_ns >= room)
        return print_error(
            "--interval: --runtime has more than %" PRId64 " windows for each worker; ask for longer ones", room);
    return 0;
}

/* Return MemAvailable of /proc/meminfo (Linux 3.14); 0: unknown. */
static int64_t memory_available(void)
{
    static const char key[] = "MemAvailable:";
    char text[512];
    const char *found = procfs_read("/proc/meminfo", text, sizeof text) < 0 ? NULL : strstr(text, key);
    return found ? strtoll(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* A quarter of the available memory, because the records of them are kept too. Operations that do not fit are counted
 * as lost. */
static int64_t room_for_log(const struct bench_job *job)
{
    int64_t memory = memory_available() / 4;
    if (!job->log_ops)
        return 0;
    if (!memory || (!IS_64_BIT && memory > LOG_BYTES))
        memory = LOG_BYTES;
    return memory / job->threads / (int64_t)sizeof(struct bench_logged);
}

static void prepare_workers(struct workers *workers, int64_t windows, int64_t logged)
{
    struct bench_run *run = &workers->run;
    struct bench_tally *parts = (struct bench_tally *)(run->workers + run->nr_workers);
    struct bench_window *first = (struct bench_window *)(parts + run->nr_workers * NR_PARTS);
    struct bench_logged *log = (struct bench_logged *)(first + run->nr_workers * windows);
    for (int32_t index = 0; index < run->nr_workers; index++) {
        struct bench_worker *worker = &run->workers[index];
        *worker = (struct bench_worker){.run = run,
                                        .job = run->job,
                                        .index = index,
                                        .limit = INT64_MAX,
                                        .parts = parts + index * NR_PARTS,
                                        .windows = first + index * windows,
                                        .room_windows = windows,
                                        .log = log + index * logged,
                                        .room_logged = logged};
        worker->ops_asked = bench_share(worker, run->job->ops);
    }
}

struct bench_run *workers_make(const struct bench_job *job, int32_t repeat)
{
    int64_t windows = room_for_windows(job), logged = room_for_log(job);
    size_t each = sizeof(struct bench_worker) + NR_PARTS * sizeof(struct bench_tally) +
                  (size_t)windows * sizeof(struct bench_window) + (size_t)logged * sizeof(struct bench_logged);
    size_t bytes = sizeof(struct workers) + (size_t)job->threads * each;
    struct workers *workers =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (workers == MAP_FAILED) {
        print_error("no memory for %" PRId64
                    " workers: %s; ask for fewer, or for fewer windows and no log of operations",
                    job->threads, strerror(errno));
        return NULL;
    }
    workers->bytes = bytes;
    workers->run.job = job;
    workers->run.repeat = repeat;
    workers->run.held = -1;
    workers->run.nr_workers = (int32_t)job->threads;
    workers->run.workers = (struct bench_worker *)(workers + 1);
    workers->run.cache.by = "none";
    workers->run.rows_expected = workers->run.rows_found = -1;
    prepare_workers(workers, windows, logged);
    return &workers->run;
}

void workers_free(struct bench_run *run)
{
    struct workers *workers = (struct workers *)run;
    munmap(workers, workers->bytes);
}

/* Mark the run as invalid with the last printed error. */
static int take_last_error(struct bench_run *run)
{
    if (!run->invalid[0])
        snprintf(run->invalid, sizeof run->invalid, "%.*s", BENCH_TEXT - 1, last_error());
    return -1;
}

/* -- before the workers ------------------------------------------------------------------------------------------- */

static int load(struct bench_run *run)
{
    if (run->job->engine->load(run) == 0)
        return workers_check_cache(run);
    if (bench_stopping())
        return -1;
    return take_last_error(run);
}

/* -- while workers work -------------------------------------------------------------------------------------------- */

/* Forward a signal to the workers. */
static void pass_on(struct bench_run *run)
{
    if (!bench_stopping())
        return;
    run->interrupted = true;
    atomic_store(&run->stopping, true);
}

static void show_progress(const struct bench_run *run, int64_t now_ns, workers_show *show)
{
    int64_t ops = 0, requested = 0;
    double share = 0;
    for (int32_t index = 0; index < run->nr_workers; index++) {
        ops += __atomic_load_n(&run->workers[index].parts[PART_OP].ops, __ATOMIC_RELAXED);
        requested += run->workers[index].ops_asked;
    }
    if (run->deadline_ns != INT64_MAX)
        share = (double)(now_ns - run->start_ns) / (double)(run->deadline_ns - run->start_ns);
    if (requested && (double)ops / (double)requested > share)
        share = (double)ops / (double)requested;
    show(run, share < 1 ? share : 1, ops);
}

static void set_times(struct bench_run *run)
{
    const struct bench_job *job = run->job;
    run->start_ns = clock_now(CLOCK_MONOTONIC) + HEAR_NS + run->nr_workers * HEAR_EACH_NS;
    run->measure_ns = run->start_ns + job->warmup_ns;
    run->deadline_ns = job->duration_ns ? run->measure_ns + job->duration_ns : INT64_MAX;
}

/* Release the workers and report progress. run->system is the cost of the measured part. */
static void watch(struct spawn *spawn, struct bench_run *run, const struct storage *storage, workers_show *show)
{
    struct system_usage before, after;
    bool read = !run->job->warmup_ns;
    system_usage_read(storage, &before);
    set_times(run);
    int64_t shown_ns = run->start_ns;
    spawn_release(spawn, true);
    while (!spawn_wait(spawn, PHASE_ENDED, read ? INT64_MAX : run->measure_ns)) {
        int64_t now_ns = clock_now(CLOCK_MONOTONIC);
        pass_on(run);
        if (!read && now_ns >= run->measure_ns) {
            system_usage_read(storage, &before);
            read = true;
        }
        if (now_ns - shown_ns >= SHOW_NS) {
            show_progress(run, now_ns, show);
            shown_ns = now_ns;
        }
    }
    system_usage_read(storage, &after);
    run->system = system_usage_since(&after, &before);
}

/* -- after the workers --------------------------------------------------------------------------------------------- */

static void measure_end(struct bench_run *run)
{
    int64_t first_ns = INT64_MAX;
    for (int32_t index = 0; index < run->nr_workers; index++) {
        const struct bench_worker *worker = &run->workers[index];
        if (worker->measuring)
            first_ns = least(first_ns, worker->started_ns);
        if (worker->ended_ns > run->end_ns)
            run->end_ns = worker->ended_ns;
    }
    if (first_ns != INT64_MAX)
        run->measure_ns = first_ns;
}

/* I/O of worker processes is not counted in that of the coordinator. */
static void sum_process_io(struct bench_run *run)
{
    struct system_usage *system = &run->system;
    system->process_read_bytes = system->process_write_bytes = 0;
    for (int32_t index = 0; index < run->nr_workers; index++) {
        const struct process_io *io = &run->workers[index].io;
        if (io->read_bytes < 0 || system->process_read_bytes < 0) {
            system->process_read_bytes = system->process_write_bytes = -1;
            return;
        }
        system->process_read_bytes += io->read_bytes;
        system->process_write_bytes += io->write_bytes;
    }
}

static int work(struct bench_run *run, const struct storage *storage, workers_show *show)
{
    struct spawn *spawn = &((struct workers *)run)->spawn;
    bool started = spawn_start(spawn, run) == 0;
    if (!started) {
        take_last_error(run);
        atomic_store(&run->stopping, true);
    }
    while (started && !spawn_wait(spawn, PHASE_READY, INT64_MAX))
        pass_on(run);
    pass_on(run);
    if (atomic_load(&run->stopping))
        spawn_release(spawn, false);
    else
        watch(spawn, run, storage, show);
    spawn_gather(spawn);
    measure_end(run);
    if (run->job->processes)
        sum_process_io(run);
    return workers_check_work(run);
}

/* Unloads the engine even if the run fails. */
int workers_run(struct bench_run *run, const struct storage *storage, workers_show *show)
{
    const struct bench_engine *engine = run->job->engine;
    if (files_enter(run) < 0)
        return take_last_error(run);
    if (load(run) == 0 && work(run, storage, show) == 0 && !run->interrupted && engine->verify &&
        engine->verify(run) < 0)
        take_last_error(run);
    engine->unload(run);
    if (files_leave(run) < 0)
        take_last_error(run);
    if (bench_stopping()) {
        run->interrupted = true;
        bench_invalidate(run, "it was interrupted by a signal");
    }
    return run->invalid[0] ? -1 : 0;
}
