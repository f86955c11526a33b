#include <stdarg.h>

#include "iobench/bench.h"

#define SECOND_NS 1000000000

/* Interval at which a sleeping worker checks whether the run is stopping. */
#define LOOK_NS (SECOND_NS / 10)

int64_t bench_share(const struct bench_worker *worker, int64_t all)
{
    return all / worker->job->threads + (worker->index < all % worker->job->threads);
}

/* Sleep until `until_ns` or until the run is stopping. Returns the time. */
static int64_t sleep_until(const struct bench_run *run, int64_t until_ns, int64_t now_ns)
{
    while (now_ns < until_ns && !atomic_load_explicit(&run->stopping, memory_order_relaxed)) {
        int64_t wake_ns = until_ns - now_ns > LOOK_NS ? now_ns + LOOK_NS : until_ns;
        struct timespec wake = {.tv_sec = wake_ns / SECOND_NS, .tv_nsec = wake_ns % SECOND_NS};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
        now_ns = clock_now(CLOCK_MONOTONIC);
    }
    return now_ns;
}

/* Return the due time of an operation, counted over all workers. It is relative to the start and not to the previous
 * operation, so that errors do not accumulate. */
static int64_t due(const struct bench_worker *worker, int64_t number)
{
    int64_t rate = worker->job->rate;
    return worker->run->start_ns + number / rate * SECOND_NS + number % rate * SECOND_NS / rate;
}

static int64_t next_due(const struct bench_worker *worker)
{
    return due(worker, worker->index + worker->begun * worker->job->threads);
}

static int64_t pause_to_think(struct bench_worker *worker, int64_t now_ns)
{
    int64_t until_ns = now_ns + worker->job->think_ns, woken_ns;
    if (until_ns > worker->run->deadline_ns)
        until_ns = worker->run->deadline_ns;
    woken_ns = sleep_until(worker->run, until_ns, now_ns);
    if (worker->measuring)
        worker->paused_ns += woken_ns - now_ns;
    return woken_ns;
}

/* Start the measured part. Returns the time afterwards, because reading counters takes time that belongs to no
 * operation. With a rate, the first interval counts from its begin, as the last one counts to its end. */
static int64_t begin_measuring(struct bench_worker *worker)
{
    worker->measuring = true;
    worker->limit = worker->ops_asked ? worker->begun + worker->ops_asked : INT64_MAX;
    worker->window_end_ns = worker->run->measure_ns;
    if (worker->job->processes)
        process_io_read(&worker->io);
    usage_of_thread(&worker->usage);
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    worker->started_ns = worker->job->rate ? worker->run->measure_ns : now_ns;
    return now_ns;
}

void worker_start(struct bench_worker *worker)
{
    if (worker->job->rate)
        worker->next_due_ns = next_due(worker);
}

bool bench_next(struct bench_worker *worker, int64_t *due_ns)
{
    const struct bench_run *run = worker->run;
    const struct bench_job *job = worker->job;
    if (worker->begun >= worker->limit || atomic_load_explicit(&run->stopping, memory_order_relaxed))
        return false;
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    if (job->think_ns && worker->begun)
        now_ns = pause_to_think(worker, now_ns);
    if (job->rate) {
        if (worker->next_due_ns >= run->deadline_ns)
            return false;
        now_ns = sleep_until(run, worker->next_due_ns, now_ns);
        if (now_ns < worker->next_due_ns)
            return false;
    }
    if (now_ns >= run->deadline_ns)
        return false;
    if (!worker->measuring && now_ns >= run->measure_ns)
        now_ns = begin_measuring(worker);
    *due_ns = job->rate ? worker->next_due_ns : now_ns;
    __atomic_store_n(&worker->begun, worker->begun + 1, __ATOMIC_RELAXED);
    if (job->rate)
        worker->next_due_ns = next_due(worker);
    return true;
}

/* The first window starts with the first operation: before it, a window of length 0 ends at run->measure_ns. */
static void count_window(struct bench_worker *worker, int64_t at_ns, int64_t bytes)
{
    while (at_ns >= worker->window_end_ns && worker->nr_windows < worker->room_windows) {
        worker->window_end_ns += worker->job->interval_ns;
        worker->nr_windows++;
    }
    if (at_ns >= worker->window_end_ns)
        return;
    worker->windows[worker->nr_windows - 1].ops++;
    worker->windows[worker->nr_windows - 1].bytes += bytes;
}

static void log_one(struct bench_worker *worker, enum bench_part part, int64_t from_ns, int64_t to_ns, int64_t bytes)
{
    if (worker->nr_logged < worker->room_logged)
        worker->log[worker->nr_logged++] =
            (struct bench_logged){.start_ns = from_ns, .latency_ns = to_ns - from_ns, .bytes = bytes, .part = part};
    else
        worker->log_lost++;
}

void bench_count(struct bench_worker *worker, enum bench_part part, int64_t from_ns, int64_t to_ns, int64_t bytes)
{
    struct bench_tally *tally = &worker->parts[part];
    if (!worker->measuring)
        return;
    hist_add(&tally->latency_ns, (uint64_t)(to_ns - from_ns));
    __atomic_store_n(&tally->ops, tally->ops + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&tally->bytes, tally->bytes + bytes, __ATOMIC_RELAXED);
    if (part == PART_OP && worker->room_windows)
        count_window(worker, to_ns, bytes);
    if (worker->job->log_ops)
        log_one(worker, part, from_ns, to_ns, bytes);
}

/* Wait for the last interval, until the next operation of any worker. It belongs to the measured time; without it the
 * rate would exceed the requested one. */
static int64_t await_interval(struct bench_worker *worker, int64_t now_ns)
{
    int64_t end_ns = due(worker, worker->index + (worker->begun - 1) * worker->job->threads + 1);
    return sleep_until(worker->run, end_ns < worker->run->deadline_ns ? end_ns : worker->run->deadline_ns, now_ns);
}

void worker_end(struct bench_worker *worker)
{
    struct process_io io;
    struct usage usage;
    worker->ended_ns = clock_now(CLOCK_MONOTONIC);
    if (worker->job->rate && !worker->message[0])
        worker->ended_ns = await_interval(worker, worker->ended_ns);
    if (!worker->measuring) {
        worker->started_ns = worker->ended_ns;
        return;
    }
    usage_of_thread(&usage);
    usage_add(&usage, &worker->usage, -1);
    worker->usage = usage;
    if (worker->job->processes) {
        process_io_read(&io);
        worker->io = process_io_since(&io, &worker->io);
    }
}

void worker_died(struct bench_worker *worker)
{
    if (worker->ended_ns)
        return;
    worker->ended_ns = clock_now(CLOCK_MONOTONIC);
    if (!worker->measuring)
        worker->started_ns = worker->ended_ns;
    worker->usage = (struct usage){0};
    worker->io = (struct process_io){-1, -1};
}

int bench_fail(struct bench_worker *worker, int error, const char *format, ...)
{
    va_list arguments;
    atomic_store(&worker->run->stopping, true);
    if (worker->message[0])
        return -1;
    worker->error = error;
    va_start(arguments, format);
    vsnprintf(worker->message, sizeof worker->message, format, arguments);
    va_end(arguments);
    return -1;
}
