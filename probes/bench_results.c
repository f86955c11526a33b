#define _GNU_SOURCE
#include "bench_results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "complain.h"

static void *copy_of(const void *items, size_t bytes)
{
    void *copy = bytes ? malloc(bytes) : NULL;

    if (copy)
        memcpy(copy, items, bytes);
    return copy;
}

/* Parts without operations stay unwritten, so that the kernel gives them no memory: most workers have two or three. */
static int copy_worker(struct bench_worker *to, const struct bench_worker *from)
{
    size_t windows_bytes = (size_t)from->nr_windows * sizeof *from->windows;
    size_t log_bytes = (size_t)from->nr_logged * sizeof *from->log;
    size_t behind = offsetof(struct bench_worker, parts) + sizeof from->parts;

    memcpy(to, from, offsetof(struct bench_worker, parts));
    memcpy((char *)to + behind, (const char *)from + behind, sizeof *from - behind);
    for (int part = 0; part < NR_PARTS; part++)
        if (from->parts[part].ops)
            to->parts[part] = from->parts[part];
    to->run = NULL;
    to->state = NULL;
    to->windows = copy_of(from->windows, windows_bytes);
    to->log = copy_of(from->log, log_bytes);
    return (windows_bytes && !to->windows) || (log_bytes && !to->log) ? -1 : 0;
}

static void free_workers(struct bench_run *run)
{
    for (int32_t index = 0; run->workers && index < run->nr_workers; index++) {
        free(run->workers[index].windows);
        free(run->workers[index].log);
    }
    free(run->workers);
    run->workers = NULL;
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

void usage_add(struct usage *sum, const struct usage *usage)
{
    sum->user_ns += usage->user_ns;
    sum->system_ns += usage->system_ns;
    sum->ctx_voluntary += usage->ctx_voluntary;
    sum->ctx_involuntary += usage->ctx_involuntary;
    sum->major_faults += usage->major_faults;
    sum->minor_faults += usage->minor_faults;
}

static void add_known(int64_t *sum, int64_t value)
{
    *sum = *sum < 0 || value < 0 ? -1 : *sum + value;
}

void system_usage_add(struct system_usage *sum, const struct system_usage *system)
{
    add_known(&sum->cpu_active_ns, system->cpu_active_ns);
    add_known(&sum->cpu_idle_ns, system->cpu_idle_ns);
    add_known(&sum->cpu_iowait_ns, system->cpu_iowait_ns);
    add_known(&sum->device_reads, system->device_reads);
    add_known(&sum->device_read_bytes, system->device_read_bytes);
    add_known(&sum->device_writes, system->device_writes);
    add_known(&sum->device_write_bytes, system->device_write_bytes);
    add_known(&sum->device_flushes, system->device_flushes);
    add_known(&sum->device_busy_ns, system->device_busy_ns);
}

static void add_parts(struct bench_tally sum[NR_PARTS], const struct bench_worker *worker)
{
    for (int part = 0; part < NR_PARTS; part++)
        if (worker->parts[part].ops) {
            sum[part].ops += worker->parts[part].ops;
            sum[part].bytes += worker->parts[part].bytes;
            hist_merge(&sum[part].latency_ns, &worker->parts[part].latency_ns);
        }
}

static void sum_workers(struct bench_result *result)
{
    int64_t paused_ns = 0;

    for (int part = 0; part < NR_PARTS; part++)
        hist_clear(&result->parts[part].latency_ns);
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        const struct bench_worker *worker = &result->run.workers[index];

        add_parts(result->parts, worker);
        usage_add(&result->usage, &worker->usage);
        paused_ns += worker->paused_ns;
    }
    result->paused_ns = paused_ns / result->run.nr_workers;
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

/* Windows begin with the start that was agreed upon; those that were over when the first worker woke up are dropped. */
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

/* Only whole windows count: the last one is shorter as a rule. */
static int find_steady(struct bench_result *result)
{
    int64_t interval_ns = result->job->interval_ns, time_ns = result->run.end_ns - result->windows_ns;
    size_t count = interval_ns > 0 && time_ns > 0 ? (size_t)(time_ns / interval_ns) : 0;
    struct bench_window *sums;

    result->steady_from_ns = -1;
    if (!count)
        return 0;
    sums = calloc(count, sizeof *sums);
    if (!sums)
        return -1;
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        const struct bench_worker *worker = &result->run.workers[index];

        for (size_t window = 0; window < count && window < (size_t)worker->nr_windows; window++)
            sums[window].ops += worker->windows[window].ops;
    }
    result->steady_from_ns = results_steady(sums, count, interval_ns);
    free(sums);
    return 0;
}

static int fill(struct bench_result *result, const struct bench_run *run)
{
    if (copy_run(&result->run, run) < 0)
        return -1;
    sum_workers(result);
    take_times(result);
    take_rates(result);
    drop_early_windows(result);
    return find_steady(result);
}

int results_add(struct bench_results *results, const struct bench_run *run, int point, const char *run_id,
                const struct storage *storage)
{
    struct bench_result *items = realloc(results->items, (results->count + 1) * sizeof *items);
    struct bench_result *result;

    if (!items)
        return complain("no memory for the results of another repetition; use less --repeats or threads");
    results->items = items;
    result = &items[results->count];
    memset(result, 0, sizeof *result);
    result->job = run->job;
    result->point = point;
    result->repeat = run->repeat;
    result->storage = *storage;
    snprintf(result->run_id, sizeof result->run_id, "%s", run_id);
    if (fill(result, run) < 0) {
        free_workers(&result->run);
        return complain("no memory for the results of another repetition; use less --repeats or threads");
    }
    results->count++;
    if (point >= results->nr_points)
        results->nr_points = point + 1;
    return 0;
}

void results_free(struct bench_results *results)
{
    for (size_t index = 0; index < results->count; index++)
        free_workers(&results->items[index].run);
    free(results->items);
    results->items = NULL;
    results->count = 0;
}

double result_iops(const struct bench_result *result)
{
    return result->iops;
}

double result_bandwidth(const struct bench_result *result)
{
    return result->bytes_per_second;
}

bool result_valid(const struct bench_result *result)
{
    return !result->run.invalid[0];
}

/* Whether all that was written is on the device when the last worker ends. */
static bool reaches_device(const struct bench_job *job)
{
    enum file_after after = job->file.mode.after;

    if (job->workload == BENCH_SQLITE)
        return strcmp(job->sqlite.synchronous, "OFF") != 0;
    if (job->final_sync || job->workload == BENCH_POSTMARK)
        return job->final_sync;
    return job->file.mode.open_flags || job->file.mode.write_flags || after == AFTER_FSYNC ||
           after == AFTER_FDATASYNC || after == AFTER_MSYNC_SYNC;
}

double result_amplification(const struct bench_result *result)
{
    int64_t written = result->parts[PART_OP].bytes - result->parts[PART_READ].bytes;

    if (written <= 0 || result->run.system.device_write_bytes < 0 || !reaches_device(result->job))
        return -1;
    return (double)result->run.system.device_write_bytes / (double)written;
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
