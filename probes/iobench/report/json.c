#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/complain.h"
#include "iobench/options.h"
#include "iobench/report/json.h"
#include "iobench/shell.h"

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

void json_latency(struct json *json, const char *key, const struct hist *hist, bool bins)
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
        json_latency(json, "clat_ns", &tally->latency_ns, true);
    json_latency(json, "lat_ns", &tally->latency_ns, true);
    json_close(json, '}');
}

static void print_sync(struct json *json, const struct bench_tally *tally)
{
    json_open(json, "sync", '{');
    json_integer(json, "total_ios", tally->ops);
    json_latency(json, "lat_ns", &tally->latency_ns, true);
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
    json_iobench(json, result, command);
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
    json_invocation(&json, results, command);
    json_close(&json, '}');
    putc('\n', out);
    free(command);
    return fflush(out) || ferror(out) ? -1 : 0;
}
