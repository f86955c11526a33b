#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "bench_options.h"
#include "bench_record.h"
#include "clock.h"
#include "complain.h"
#include "json.h"
#include "shell.h"

#define NS_PER_MS 1000000
#define NS_PER_S  1000000000

/* Percentiles that fio prints, in millionths. */
static const uint32_t percentiles[] = {10000,  50000,  100000, 200000, 300000, 400000, 500000, 600000, 700000,
                                       800000, 900000, 950000, 990000, 995000, 999000, 999500, 999900};

/* -- latencies -- */

static void print_percentiles(struct json *json, const struct hist *hist)
{
    json_open(json, "percentile", '{');
    for (size_t index = 0; index < sizeof percentiles / sizeof *percentiles; index++) {
        char name[16];

        snprintf(name, sizeof name, "%.6f", percentiles[index] / 1e4);
        json_integer(json, name, (int64_t)hist_percentile(hist, percentiles[index]));
    }
    json_close(json, '}');
}

static void print_bins(struct json *json, const struct hist *hist)
{
    json_open(json, "bins", '{');
    for (unsigned bucket = 0; bucket < HIST_BUCKETS; bucket++) {
        char name[24];

        if (!hist->buckets[bucket])
            continue;
        snprintf(name, sizeof name, "%" PRIu64, hist_value(hist, bucket));
        json_integer(json, name, (int64_t)hist->buckets[bucket]);
    }
    json_close(json, '}');
}

static void print_latency(struct json *json, const char *key, const struct hist *hist, bool bins)
{
    if (!hist->count)
        return;
    json_open(json, key, '{');
    json_integer(json, "min", (int64_t)hist->least);
    json_integer(json, "max", (int64_t)hist->most);
    json_number(json, "mean", (double)hist->sum / (double)hist->count);
    json_integer(json, "N", (int64_t)hist->count);
    print_percentiles(json, hist);
    if (bins)
        print_bins(json, hist);
    json_close(json, '}');
}

/* -- what fio has, by its names and in its units -- */

static void print_option(void *context, const char *name, const char *value)
{
    json_string(context, name, value);
}

static void print_options(struct json *json, const struct bench_job *job)
{
    json_open(json, "job options", '{');
    json_string(json, "name", job->name);
    fio_options(job, print_option, json);
    json_close(json, '}');
}

/* fio's bw is in KiB/s. Submission ends with completion, but for io_uring, where the two are not told apart. */
static void print_direction(struct json *json, const char *key, const struct bench_result *result, enum bench_part part)
{
    const struct bench_tally *tally = &result->parts[part];
    double seconds = result->seconds;

    json_open(json, key, '{');
    json_integer(json, "io_bytes", tally->bytes);
    json_integer(json, "io_kbytes", tally->bytes / 1024);
    if (seconds > 0) {
        json_integer(json, "bw_bytes", (int64_t)((double)tally->bytes / seconds));
        json_integer(json, "bw", (int64_t)((double)tally->bytes / seconds / 1024));
        json_number(json, "iops", (double)tally->ops / seconds);
    }
    json_integer(json, "runtime", tally->ops ? (int64_t)(seconds * 1000) : 0);
    json_integer(json, "total_ios", tally->ops);
    if (result->job->file.mode.engine != ENGINE_URING)
        print_latency(json, "clat_ns", &tally->latency_ns, true);
    print_latency(json, "lat_ns", &tally->latency_ns, true);
    json_close(json, '}');
}

static void print_sync(struct json *json, const struct bench_tally *tally)
{
    json_open(json, "sync", '{');
    json_integer(json, "total_ios", tally->ops);
    print_latency(json, "lat_ns", &tally->latency_ns, true);
    json_close(json, '}');
}

/* Time of all workers together, as fio has it where it reports a group. */
static int64_t time_of_workers(const struct bench_run *run)
{
    int64_t time_ns = 0;

    for (int32_t index = 0; index < run->nr_workers; index++)
        time_ns += run->workers[index].ended_ns - run->workers[index].started_ns;
    return time_ns;
}

static void print_cost(struct json *json, const struct bench_result *result)
{
    const struct usage *usage = &result->usage;
    int64_t time_ns = time_of_workers(&result->run);

    json_integer(json, "job_runtime", time_ns / NS_PER_MS);
    if (time_ns > 0) {
        json_number(json, "usr_cpu", 100 * (double)usage->user_ns / (double)time_ns);
        json_number(json, "sys_cpu", 100 * (double)usage->system_ns / (double)time_ns);
    }
    json_integer(json, "ctx", usage->ctx_voluntary + usage->ctx_involuntary);
    json_integer(json, "majf", usage->major_faults);
    json_integer(json, "minf", usage->minor_faults);
}

/* Known where there never is more than one request; else not measured. */
static void print_depths(struct json *json, const struct bench_result *result)
{
    static const char *const depths[] = {"1", "2", "4", "8", "16", "32", ">=64"};

    if (result->job->file.depth > 1 || !result->parts[PART_OP].ops)
        return;
    json_open(json, "iodepth_level", '{');
    for (size_t index = 0; index < sizeof depths / sizeof *depths; index++)
        json_number(json, depths[index], index ? 0 : 100);
    json_close(json, '}');
}

/* Nothing is trimmed, but fio's own converters of its JSON look for it. */
static void print_no_trim(struct json *json)
{
    json_open(json, "trim", '{');
    json_integer(json, "io_bytes", 0);
    json_integer(json, "total_ios", 0);
    json_close(json, '}');
}

static void print_file(struct json *json, const struct bench_result *result)
{
    print_direction(json, "read", result, PART_READ);
    print_direction(json, "write", result, PART_WRITE);
    print_no_trim(json);
    print_sync(json, &result->parts[PART_SYNC]);
    print_depths(json, result);
}

/* -- what fio does not have -- */

static void print_tally(struct json *json, const char *key, const struct bench_tally *tally, bool bins)
{
    json_open(json, key, '{');
    json_integer(json, "ops", tally->ops);
    json_integer(json, "bytes", tally->bytes);
    print_latency(json, "lat_ns", &tally->latency_ns, bins);
    json_close(json, '}');
}

static void print_parts(struct json *json, const struct bench_tally parts[NR_PARTS], bool bins)
{
    json_open(json, "parts", '{');
    for (int part = 0; part < NR_PARTS; part++)
        if (part == PART_OP || parts[part].ops)
            print_tally(json, bench_parts[part], &parts[part], bins);
    json_close(json, '}');
}

static void print_usage(struct json *json, const struct usage *usage)
{
    json_integer(json, "cpu_user_ns", usage->user_ns);
    json_integer(json, "cpu_system_ns", usage->system_ns);
    json_integer(json, "ctx_voluntary", usage->ctx_voluntary);
    json_integer(json, "ctx_involuntary", usage->ctx_involuntary);
    json_integer(json, "major_faults", usage->major_faults);
    json_integer(json, "minor_faults", usage->minor_faults);
}

static void print_worker(struct json *json, const struct bench_worker *worker)
{
    json_open(json, NULL, '{');
    json_integer(json, "thread", worker->index);
    json_integer(json, "duration_ns", worker->ended_ns - worker->started_ns);
    json_integer(json, "paused_ns", worker->paused_ns);
    json_integer(json, "result", -worker->error);
    if (worker->message[0])
        json_string(json, "message", worker->message);
    print_usage(json, &worker->usage);
    print_parts(json, worker->parts, false);
    json_close(json, '}');
}

static void print_workers(struct json *json, const struct bench_run *run)
{
    json_open(json, "workers", '[');
    for (int32_t index = 0; index < run->nr_workers; index++)
        print_worker(json, &run->workers[index]);
    json_close(json, ']');
}

static struct bench_window window_of_all(const struct bench_run *run, int64_t number)
{
    struct bench_window sum = {0};

    for (int32_t index = 0; index < run->nr_workers; index++)
        if (number < run->workers[index].nr_windows) {
            sum.ops += run->workers[index].windows[number].ops;
            sum.bytes += run->workers[index].windows[number].bytes;
        }
    return sum;
}

/* The first window began `offset_ns` from `ts_ns`. */
static void print_series(struct json *json, const struct bench_result *result)
{
    const struct bench_run *run = &result->run;
    int64_t count = 0;

    for (int32_t index = 0; index < run->nr_workers; index++)
        if (run->workers[index].nr_windows > count)
            count = run->workers[index].nr_windows;
    json_open(json, "series", '{');
    json_integer(json, "offset_ns", result->windows_ns - run->measure_ns);
    json_open(json, "ops", '[');
    for (int64_t number = 0; number < count; number++)
        json_integer(json, NULL, window_of_all(run, number).ops);
    json_close(json, ']');
    json_open(json, "bytes", '[');
    for (int64_t number = 0; number < count; number++)
        json_integer(json, NULL, window_of_all(run, number).bytes);
    json_close(json, ']');
    json_close(json, '}');
}

/* The columns of tables bench_runs and bench by their names, and what comes from them. */
static void print_own(struct json *json, const struct bench_result *result, const char *command)
{
    double amplification = result_amplification(result);

    json_open(json, "iobench", '{');
    bench_run_print(json, result, command);
    json_integer(json, "paused_ns", result->paused_ns);
    if (result->seconds > 0) {
        json_number(json, "iops", result->iops);
        json_number(json, "bytes_per_second", result->bytes_per_second);
    }
    if (amplification >= 0)
        json_number(json, "write_amplification", amplification);
    print_usage(json, &result->usage);
    print_parts(json, result->parts, true);
    print_workers(json, &result->run);
    print_series(json, result);
    json_close(json, '}');
}

static void print_job(struct json *json, const struct bench_result *result, const char *command)
{
    const struct bench_run *run = &result->run;
    int64_t elapsed_ns = run->end_ns > run->start_ns ? run->end_ns - run->start_ns : 0;

    json_open(json, NULL, '{');
    json_string(json, "jobname", result->job->name);
    json_integer(json, "groupid", result->point);
    json_integer(json, "error", result_error(result));
    json_integer(json, "elapsed", (elapsed_ns + NS_PER_S - 1) / NS_PER_S);
    print_options(json, result->job);
    if (result->job->workload == BENCH_FILE)
        print_file(json, result);
    print_cost(json, result);
    print_own(json, result, command);
    json_close(json, '}');
}

/* -- all repetitions -- */

static void print_known(struct json *json, const char *key, int64_t value)
{
    if (value >= 0)
        json_integer(json, key, value);
}

/* The device over the measured parts of all repetitions. */
static void print_device(struct json *json, const struct bench_results *results)
{
    struct system_usage sum = {0};
    int64_t time_ns = 0;

    for (size_t index = 0; index < results->count; index++) {
        system_usage_add(&sum, &results->items[index].run.system);
        time_ns += results->items[index].duration_ns;
    }
    json_open(json, NULL, '{');
    json_string(json, "name", results->items[0].storage.device);
    print_known(json, "read_ios", sum.device_reads);
    print_known(json, "write_ios", sum.device_writes);
    if (sum.device_busy_ns >= 0 && time_ns > 0)
        json_number(json, "util", 100 * (double)sum.device_busy_ns / (double)time_ns);
    json_close(json, '}');
}

static bool one_device(const struct bench_results *results)
{
    for (size_t index = 1; index < results->count; index++)
        if (strcmp(results->items[index].storage.device, results->items[0].storage.device) != 0)
            return false;
    return results->count && results->items[0].storage.device[0];
}

static void print_devices(struct json *json, const struct bench_results *results)
{
    if (!one_device(results))
        return;
    json_open(json, "disk_util", '[');
    print_device(json, results);
    json_close(json, ']');
}

static void print_estimate(struct json *json, const char *key, struct estimate estimate)
{
    json_open(json, key, '{');
    json_number(json, "median", estimate.median);
    json_number(json, "low", estimate.low);
    json_number(json, "high", estimate.high);
    json_close(json, '}');
}

static void print_point(struct json *json, const struct bench_results *results, const struct bench_result *first)
{
    struct estimate iops = results_estimate(results, first->point, result_iops);

    json_open(json, NULL, '{');
    json_integer(json, "point", first->point);
    json_string(json, "run_id", first->run_id);
    json_string(json, "test", bench_test(first->job));
    json_integer(json, "valid_repeats", iops.count);
    if (iops.count) {
        print_estimate(json, "iops", iops);
        print_estimate(json, "bytes_per_second", results_estimate(results, first->point, result_bandwidth));
    }
    json_close(json, '}');
}

static void print_points(struct json *json, const struct bench_results *results)
{
    json_open(json, "points", '[');
    for (size_t index = 0; index < results->count; index++)
        if (!index || results->items[index].point != results->items[index - 1].point)
            print_point(json, results, &results->items[index]);
    json_close(json, ']');
}

static void print_invocation(struct json *json, const struct bench_results *results, const char *command)
{
    struct utsname machine;

    json_open(json, "iobench", '{');
    json_string(json, "tool_version", PROBE_VERSION);
    json_string(json, "command", command);
    if (!uname(&machine)) {
        json_string(json, "kernel", machine.release);
        json_string(json, "machine", machine.machine);
    }
    print_points(json, results);
    json_close(json, '}');
}

static void print_now(struct json *json)
{
    int64_t now_ns = clock_now(CLOCK_REALTIME);
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm broken_down;
    char text[64];

    json_integer(json, "timestamp", now_ns / NS_PER_S);
    json_integer(json, "timestamp_ms", now_ns / NS_PER_MS);
    if (localtime_r(&seconds, &broken_down) && strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &broken_down))
        json_string(json, "time", text);
}

int results_print_json(FILE *out, const struct bench_results *results)
{
    struct json json = {.out = out};
    char *command = shell_join(results->argc, results->argv);

    if (!command)
        return complain("no memory for the command line");
    json_open(&json, NULL, '{');
    print_now(&json);
    json_open(&json, "jobs", '[');
    for (size_t index = 0; index < results->count; index++)
        print_job(&json, &results->items[index], command);
    json_close(&json, ']');
    print_devices(&json, results);
    print_invocation(&json, results, command);
    json_close(&json, '}');
    putc('\n', out);
    free(command);
    return fflush(out) || ferror(out) ? -1 : 0;
}
