#define _GNU_SOURCE
#include <string.h>
#include <sys/utsname.h>

#include "iobench/report/json.h"
#include "iobench/report/record.h"

static void print_tally(struct json *json, const char *key, const struct bench_tally *tally, bool bins)
{
    json_open(json, key, '{');
    json_integer(json, "ops", tally->ops);
    json_integer(json, "bytes", tally->bytes);
    json_latency(json, "lat_ns", &tally->latency_ns, bins);
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
void json_iobench(struct json *json, const struct bench_result *result, const char *command)
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

void json_invocation(struct json *json, const struct bench_results *results, const char *command)
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
