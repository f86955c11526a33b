#include "iobench/bench.h"

#define ALL_WORKERS (-1)

#define WHICH_PART "Part of the operation; op: a whole operation."
#define WHICH_REPETITION(row)                                                                                          \
    RECORD_FIELD(row, point, false, NULL, "Point of the sweep, as in bench_run."),                                     \
        RECORD_FIELD(row, repeat, false, NULL, "Repetition of the point.")

/* Columns of table bench, with its names and units. */
struct result_row {
    int64_t ts_ns, duration_ns, paused_ns, ops, bytes, latency_sum_ns, latency_min_ns, latency_max_ns;
    int64_t cpu_user_ns, cpu_system_ns, ctx_voluntary, ctx_involuntary, major_faults, minor_faults;
    int32_t point, repeat, thread, result;
    struct record_string part;
};

static const struct record_field result_fields[] = {
    RECORD_FIELD(result_row, ts_ns, false, "ns", "Start of the measured part, after the warm-up."),
    RECORD_FIELD(result_row, duration_ns, false, "ns", "From then until the worker ended."),
    RECORD_FIELD(result_row, paused_ns, false, "ns", "Of that, asleep on request between operations."),
    RECORD_FIELD(result_row, ops, false, "operations", "Operations, or parts of one, completed."),
    RECORD_FIELD(result_row, bytes, false, "B", "Bytes that they moved."),
    RECORD_FIELD(result_row, latency_sum_ns, false, "ns", "Sum of the latencies."),
    RECORD_FIELD(result_row, latency_min_ns, true, "ns", "Shortest latency; null if `ops` is 0."),
    RECORD_FIELD(result_row, latency_max_ns, true, "ns", "Longest latency; null if `ops` is 0."),
    RECORD_FIELD(result_row, cpu_user_ns, false, "ns", "CPU time of the worker in user mode."),
    RECORD_FIELD(result_row, cpu_system_ns, false, "ns", "CPU time of the worker in the kernel."),
    RECORD_FIELD(result_row, ctx_voluntary, false, "switches", "Its voluntary context switches."),
    RECORD_FIELD(result_row, ctx_involuntary, false, "switches", "Its involuntary context switches."),
    RECORD_FIELD(result_row, major_faults, false, "faults", "Its page faults that needed I/O."),
    RECORD_FIELD(result_row, minor_faults, false, "faults", "Its page faults that needed none."),
    WHICH_REPETITION(result_row),
    RECORD_FIELD(result_row, thread, false, NULL, "Worker, from 0; -1: all of them."),
    RECORD_FIELD(result_row, result, false, NULL, "0, or a negative errno."),
    RECORD_FIELD(result_row, part, false, NULL, WHICH_PART),
};

struct histogram_row {
    int64_t bucket_ns, width_ns, count;
    int32_t point, repeat, thread;
    struct record_string part;
};

static const struct record_field histogram_fields[] = {
    RECORD_FIELD(histogram_row, bucket_ns, false, "ns", "Lower bound of the bucket."),
    RECORD_FIELD(histogram_row, width_ns, false, "ns", "Width of the bucket."),
    RECORD_FIELD(histogram_row, count, false, "operations", "Operations in it; never 0."),
    WHICH_REPETITION(histogram_row),
    RECORD_FIELD(histogram_row, thread, false, NULL, "Worker, from 0. Buckets of all workers add up."),
    RECORD_FIELD(histogram_row, part, false, NULL, WHICH_PART),
};

/* Columns of table bench_series. */
struct window_row {
    int64_t ts_ns, duration_ns, ops, bytes;
    int32_t point, repeat, thread;
};

static const struct record_field window_fields[] = {
    RECORD_FIELD(window_row, ts_ns, false, "ns", "Start of the window."),
    RECORD_FIELD(window_row, duration_ns, false, "ns", "Its length: the last one ends with the worker."),
    RECORD_FIELD(window_row, ops, false, "operations", "Operations completed in it."),
    RECORD_FIELD(window_row, bytes, false, "B", "Bytes that they moved."),
    WHICH_REPETITION(window_row),
    RECORD_FIELD(window_row, thread, false, NULL, "Worker, from 0."),
};

/* Columns of table bench_ops. */
struct op_row {
    int64_t ts_ns, latency_ns, bytes;
    int32_t point, repeat, thread;
    struct record_string part;
};

static const struct record_field op_fields[] = {
    RECORD_FIELD(op_row, ts_ns, false, "ns", "Start; of a whole operation when it was due."),
    RECORD_FIELD(op_row, latency_ns, false, "ns", "Until it was completed."),
    RECORD_FIELD(op_row, bytes, false, "B", "Bytes that it moved."),
    WHICH_REPETITION(op_row),
    RECORD_FIELD(op_row, thread, false, NULL, "Worker, from 0."),
    RECORD_FIELD(op_row, part, false, NULL, WHICH_PART),
};

static const struct record_type result_type =
    RECORD_TYPE("bench_result", "bench", "A part of the operations of a worker, or of all of them, in one repetition.",
                result_fields);
static const struct record_type histogram_type =
    RECORD_TYPE("bench_histogram", NULL, "A bucket of the histogram of latencies that belongs to a bench_result.",
                histogram_fields);
static const struct record_type window_type =
    RECORD_TYPE("bench_window", "bench_series", "Operations that a worker completed in one window of wall-clock time.",
                window_fields);
static const struct record_type op_type =
    RECORD_TYPE("bench_op", "bench_ops", "One operation, or part of one.", op_fields);

static const struct record_type *const types[] = {&bench_run_type, &result_type, &histogram_type, &window_type,
                                                  &op_type};
const struct record_probe bench_probe = {"iobench", types, sizeof types / sizeof *types};

static void add_histogram(struct record *out, const struct result_row *of, int part, const struct hist *hist)
{
    struct histogram_row row = {.point = of->point, .repeat = of->repeat, .thread = of->thread};
    struct record_text text = record_text(bench_parts[part]);
    for (unsigned bucket = 0; bucket < HIST_BUCKETS; bucket++) {
        if (!hist->buckets[bucket])
            continue;
        row.bucket_ns = (int64_t)hist_bound(bucket);
        row.width_ns = (int64_t)(hist_bound(bucket + 1) - hist_bound(bucket));
        row.count = (int64_t)hist->buckets[bucket];
        record_add(out, &histogram_type, &row, &text);
    }
}

/* Write a row for each part that occurred; for whole operations in any case. */
static void add_parts(struct record *out, struct result_row *row, const struct bench_tally parts[NR_PARTS],
                      const struct usage *usage)
{
    row->cpu_user_ns = usage->user_ns;
    row->cpu_system_ns = usage->system_ns;
    row->ctx_voluntary = usage->ctx_voluntary;
    row->ctx_involuntary = usage->ctx_involuntary;
    row->major_faults = usage->major_faults;
    row->minor_faults = usage->minor_faults;
    for (int part = 0; part < NR_PARTS; part++) {
        const struct hist *hist = &parts[part].latency_ns;
        struct record_text text = record_text(bench_parts[part]);
        if (part != PART_OP && !hist->count)
            continue;
        row->ops = parts[part].ops;
        row->bytes = parts[part].bytes;
        row->latency_sum_ns = (int64_t)hist->sum;
        row->latency_min_ns = hist->count ? (int64_t)hist->least : RECORD_NULL_INT64;
        row->latency_max_ns = hist->count ? (int64_t)hist->most : RECORD_NULL_INT64;
        record_add(out, &result_type, row, &text);
        if (row->thread != ALL_WORKERS)
            add_histogram(out, row, part, hist);
    }
}

/* Return the offset to add to a time of CLOCK_MONOTONIC. */
static int64_t to_boottime(const struct bench_result *result)
{
    return result->boottime_ns - result->run->measure_ns;
}

static void add_window(struct record *out, const struct bench_result *result, const struct bench_worker *worker,
                       int64_t number)
{
    int64_t interval_ns = result->job->interval_ns, start_ns = result->windows_ns + number * interval_ns;
    int64_t end_ns = start_ns + interval_ns < worker->ended_ns ? start_ns + interval_ns : worker->ended_ns;
    struct window_row row = {.ops = worker->windows[number].ops,
                             .bytes = worker->windows[number].bytes,
                             .point = result->point,
                             .repeat = result->run->repeat,
                             .thread = worker->index};
    if (start_ns < result->run->measure_ns)
        start_ns = result->run->measure_ns;
    row.ts_ns = start_ns + to_boottime(result);
    row.duration_ns = end_ns - start_ns;
    record_add(out, &window_type, &row, NULL);
}

static void add_log(struct record *out, const struct bench_result *result, const struct bench_worker *worker)
{
    for (int64_t number = 0; number < worker->nr_logged; number++) {
        const struct bench_logged *logged = &worker->log[number];
        struct op_row row = {.ts_ns = logged->start_ns + to_boottime(result),
                             .latency_ns = logged->latency_ns,
                             .bytes = logged->bytes,
                             .point = result->point,
                             .repeat = result->run->repeat,
                             .thread = worker->index};
        struct record_text text = record_text(bench_parts[logged->part]);
        record_add(out, &op_type, &row, &text);
    }
    if (worker->log_lost)
        record_lose(out, "ops_not_logged", "operations that did not fit in the log", (uint64_t)worker->log_lost);
}

static void add_worker(struct record *out, const struct bench_result *result, const struct bench_worker *worker)
{
    struct result_row row = {.ts_ns = worker->started_ns + to_boottime(result),
                             .duration_ns = worker->ended_ns - worker->started_ns,
                             .paused_ns = worker->paused_ns,
                             .point = result->point,
                             .repeat = result->run->repeat,
                             .thread = worker->index,
                             .result = -worker->error};
    add_parts(out, &row, worker->parts, &worker->usage);
    for (int64_t number = 0; number < worker->nr_windows; number++)
        add_window(out, result, worker, number);
    add_log(out, result, worker);
}

void result_record(struct record *out, const struct bench_result *result, const char *command)
{
    struct result_row row = {.ts_ns = result->boottime_ns,
                             .duration_ns = result->duration_ns,
                             .paused_ns = result->paused_ns,
                             .point = result->point,
                             .repeat = result->run->repeat,
                             .thread = ALL_WORKERS,
                             .result = -result_error(result)};
    bench_run_add(out, result, command);
    add_parts(out, &row, result->parts, &result->usage);
    for (int32_t index = 0; index < result->run->nr_workers; index++)
        add_worker(out, result, &result->run->workers[index]);
}
