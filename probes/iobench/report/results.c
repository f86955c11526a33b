#define _GNU_SOURCE
#include "iobench/report/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/errors.h"

static void *copy_of(const void *items, size_t bytes)
{
    void *copy = bytes ? malloc(bytes) : NULL;

    if (copy)
        memcpy(copy, items, bytes);
    return copy;
}

/* Empty parts are not written, so that they use no memory: most workers have two or three parts. */
static void add_parts(struct bench_tally sum[NR_PARTS], const struct bench_tally parts[NR_PARTS])
{
    for (int part = 0; part < NR_PARTS; part++)
        if (parts[part].ops) {
            sum[part].ops += parts[part].ops;
            sum[part].bytes += parts[part].bytes;
            hist_merge(&sum[part].latency_ns, &parts[part].latency_ns);
        }
}

static int copy_worker(struct bench_worker *to, const struct bench_worker *from)
{
    size_t windows_bytes = (size_t)from->nr_windows * sizeof *from->windows;
    size_t log_bytes = (size_t)from->nr_logged * sizeof *from->log;

    *to = *from;
    to->run = NULL;
    to->state = NULL;
    to->windows = copy_of(from->windows, windows_bytes);
    to->log = copy_of(from->log, log_bytes);
    return (windows_bytes && !to->windows) || (log_bytes && !to->log) ? -1 : 0;
}

static size_t parts_bytes(int32_t nr_workers)
{
    return ((size_t)nr_workers + 1) * NR_PARTS * sizeof(struct bench_tally);
}

/* Allocate the tallies of all workers together, followed by those of each. Uses mmap because calloc may write zeros to
 * all of it. */
static struct bench_tally *make_parts(int32_t nr_workers)
{
    void *parts =
        mmap(NULL, parts_bytes(nr_workers), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return parts == MAP_FAILED ? NULL : parts;
}

static void free_result(struct bench_result *result)
{
    struct bench_run *run = &result->run;

    for (int32_t index = 0; run->workers && index < run->nr_workers; index++) {
        free(run->workers[index].windows);
        free(run->workers[index].log);
    }
    free(run->workers);
    if (result->parts)
        munmap(result->parts, parts_bytes(run->nr_workers));
}

static int copy_run(struct bench_run *to, const struct bench_run *from)
{
    *to = *from;
    to->state = NULL;
    to->workers = calloc((size_t)from->nr_workers, sizeof *to->workers);
    if (!to->workers)
        return -1;
    for (int32_t index = 0; index < from->nr_workers; index++)
        if (copy_worker(&to->workers[index], &from->workers[index]) < 0)
            return -1;
    return 0;
}

static void usage_add(struct usage *sum, const struct usage *usage)
{
    sum->user_ns += usage->user_ns;
    sum->system_ns += usage->system_ns;
    sum->ctx_voluntary += usage->ctx_voluntary;
    sum->ctx_involuntary += usage->ctx_involuntary;
    sum->major_faults += usage->major_faults;
    sum->minor_faults += usage->minor_faults;
}

/* Also copies the parts of the workers. */
static void sum_workers(struct bench_result *result)
{
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        struct bench_worker *worker = &result->run.workers[index];
        struct bench_tally *own = result->parts + ((size_t)index + 1) * NR_PARTS;

        add_parts(own, worker->parts);
        worker->parts = own;
        add_parts(result->parts, own);
        usage_add(&result->usage, &worker->usage);
    }
}

/* Set the paused time: all but the longest working time of a worker. A worker with less work, and fewer pauses, waited
 * for the others. */
static void take_pauses(struct bench_result *result)
{
    int64_t longest_ns = 0;

    if (!result->job->think_ns)
        return;
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        const struct bench_worker *worker = &result->run.workers[index];
        int64_t worked_ns = worker->ended_ns - worker->started_ns - worker->paused_ns;

        longest_ns = worked_ns > longest_ns ? worked_ns : longest_ns;
    }
    result->paused_ns = result->duration_ns - longest_ns;
}

static void take_rates(struct bench_result *result)
{
    const struct bench_tally *whole = &result->parts[PART_OP];

    result->seconds = (double)(result->duration_ns - result->paused_ns) / 1e9;
    if (result->seconds <= 0)
        return;
    result->iops = (double)whole->ops / result->seconds;
    result->bytes_per_second = (double)whole->bytes / result->seconds;
}

static void take_times(struct bench_result *result)
{
    const struct bench_run *run = &result->run;
    int64_t since_ns = run->measure_ns ? clock_now(CLOCK_MONOTONIC) - run->measure_ns : 0;

    result->boottime_ns = clock_now(CLOCK_RECORD) - since_ns;
    result->realtime_ns = clock_now(CLOCK_REALTIME) - since_ns;
    result->duration_ns = run->end_ns > run->measure_ns ? run->end_ns - run->measure_ns : 0;
}

/* Windows begin at the common start. Drop those that ended before the first worker woke up. */
static void drop_early_windows(struct bench_result *result)
{
    struct bench_run *run = &result->run;
    int64_t interval_ns = result->job->interval_ns, early;

    result->windows_ns = run->measure_ns;
    for (int32_t index = 0; index < run->nr_workers; index++) {
        struct bench_worker *worker = &run->workers[index];
        int64_t first_ns = worker->window_end_ns - worker->nr_windows * interval_ns;

        if (!worker->nr_windows)
            continue;
        early = run->measure_ns > first_ns ? (run->measure_ns - first_ns) / interval_ns : 0;
        worker->nr_windows -= early;
        memmove(worker->windows, worker->windows + early, (size_t)worker->nr_windows * sizeof *worker->windows);
        result->windows_ns = first_ns + early * interval_ns;
    }
}

static int fill(struct bench_result *result, const struct bench_run *run)
{
    result->parts = make_parts(run->nr_workers);
    if (copy_run(&result->run, run) < 0 || !result->parts)
        return -1;
    sum_workers(result);
    take_times(result);
    take_pauses(result);
    take_rates(result);
    drop_early_windows(result);
    return 0;
}

int results_add(struct bench_results *results, const struct bench_run *run, int point, const char *run_id,
                const struct storage *storage)
{
    struct bench_result *items = realloc(results->items, (results->count + 1) * sizeof *items);
    struct bench_result *result;

    if (!items)
        return print_error("no memory for the results of another repetition; use less --repeats or threads");
    results->items = items;
    result = &items[results->count];
    memset(result, 0, sizeof *result);
    result->job = run->job;
    result->point = point;
    result->repeat = run->repeat;
    result->storage = *storage;
    snprintf(result->run_id, sizeof result->run_id, "%s", run_id);
    if (fill(result, run) < 0) {
        free_result(result);
        return print_error("no memory for the results of another repetition; use less --repeats or threads");
    }
    results->count++;
    return 0;
}

void results_free(struct bench_results *results)
{
    for (size_t index = 0; index < results->count; index++)
        free_result(&results->items[index]);
    free(results->items);
    results->items = NULL;
    results->count = 0;
}

bool result_valid(const struct bench_result *result)
{
    return !result->run.invalid[0];
}

int result_error(const struct bench_result *result)
{
    if (result_valid(result))
        return 0;
    for (int32_t index = 0; index < result->run.nr_workers; index++)
        if (result->run.workers[index].error)
            return result->run.workers[index].error;
    return result->run.interrupted ? EINTR : EIO;
}
