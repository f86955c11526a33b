#include "iobench/bench.h"

static void sum_workers(struct bench_result *result)
{
    for (int32_t index = 0; index < result->run->nr_workers; index++) {
        const struct bench_worker *worker = &result->run->workers[index];
        for (int part = 0; part < NR_PARTS; part++) {
            result->parts[part].ops += worker->parts[part].ops;
            result->parts[part].bytes += worker->parts[part].bytes;
            hist_merge(&result->parts[part].latency_ns, &worker->parts[part].latency_ns);
        }
        usage_add(&result->usage, &worker->usage, 1);
    }
}

/* Set the paused time: all but the longest working time of a worker. A worker with less work, and fewer pauses, waited
 * for the others. */
static void take_pauses(struct bench_result *result)
{
    int64_t longest_ns = 0;
    if (!result->job->think_ns)
        return;
    for (int32_t index = 0; index < result->run->nr_workers; index++) {
        const struct bench_worker *worker = &result->run->workers[index];
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
    const struct bench_run *run = result->run;
    int64_t since_ns = run->measure_ns ? clock_now(CLOCK_MONOTONIC) - run->measure_ns : 0;
    result->boottime_ns = clock_now(CLOCK_RECORD) - since_ns;
    result->realtime_ns = clock_now(CLOCK_REALTIME) - since_ns;
    result->duration_ns = run->end_ns > run->measure_ns ? run->end_ns - run->measure_ns : 0;
}

/* Windows begin at the common start. Drop those that ended before the first worker woke up. */
static void drop_early_windows(struct bench_result *result, struct bench_run *run)
{
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

void result_make(struct bench_result *result, struct bench_run *run)
{
    result->run = run;
    result->job = run->job;
    result->parts = zeroed(NR_PARTS, sizeof *result->parts);
    sum_workers(result);
    take_times(result);
    take_pauses(result);
    take_rates(result);
    drop_early_windows(result, run);
}

int result_error(const struct bench_result *result)
{
    if (!result->run->invalid[0])
        return 0;
    for (int32_t index = 0; index < result->run->nr_workers; index++)
        if (result->run->workers[index].error)
            return result->run->workers[index].error;
    return result->run->interrupted ? EINTR : EIO;
}
