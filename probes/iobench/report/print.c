#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/complain.h"
#include "common/utf8.h"
#include "iobench/report/print.h"

#define LINE_COLUMNS  96
#define LABEL_COLUMNS 20

static void label(FILE *out, const char *name)
{
    fprintf(out, "%-*s", LABEL_COLUMNS, name);
}

const char *print_rate_name(const struct bench_job *job)
{
    return job->workload == BENCH_FILE ? "IOPS" : "TPS";
}

size_t print_width(const struct bench_results *results, const struct parameter *parameter)
{
    char first[WORDS_SIZE] = "";
    size_t width = strlen(parameter->name);
    bool differs = false;

    parameter->value(results->items[0].job, first);
    for (size_t index = 0; index < results->count; index++) {
        char text[WORDS_SIZE] = "";

        parameter->value(results->items[index].job, text);
        differs = differs || strcmp(text, first) != 0;
        width = strlen(text) > width ? strlen(text) : width;
    }
    return differs ? width + 2 : 0;
}

void print_parameters(FILE *out, const struct bench_results *results)
{
    size_t column = 0;

    for (int index = PARAMETERS_OF_A_LINE; index < NR_PARAMETERS; index++) {
        const struct parameter *parameter = &bench_parameters[index];
        char text[WORDS_SIZE] = "";
        size_t length;

        parameter->value(results->items[0].job, text);
        if (!*text || print_width(results, parameter))
            continue;
        length = strlen(", ") + strlen(parameter->name) + 1 + strlen(text);
        if (column)
            fputs(column + length > LINE_COLUMNS ? ",\n" : ", ", out);
        column = column + length > LINE_COLUMNS ? length : column + length;
        fprintf(out, "%s ", parameter->name);
        utf8_print(out, text);
    }
    putc('\n', out);
}

void print_place(FILE *out, const struct bench_result *result)
{
    const struct storage *storage = &result->storage;

    label(out, "filesystem");
    utf8_print(out, storage->filesystem[0] ? storage->filesystem : "unknown");
    if (storage->device[0]) {
        fputs(" on ", out);
        utf8_print(out, storage->device);
    }
    if (storage->model[0]) {
        fputs(" (", out);
        utf8_print(out, storage->model);
        putc(')', out);
    }
    fputs(", ", out);
    utf8_print(out, result->job->filename ? result->job->filename : result->job->directory);
    putc('\n', out);
}

static void print_cache(FILE *out, const struct bench_result *result)
{
    const struct cache_found *cache = &result->run.cache;
    char resident[WORDS_SIZE], bytes[WORDS_SIZE];

    label(out, "page cache");
    fputs(cache_states[cache->state], out);
    if (cache->resident_bytes >= 0 && cache->by) {
        words_bytes((double)cache->resident_bytes, resident);
        words_bytes((double)cache->bytes, bytes);
        fprintf(out, " before (%s of %s resident by %s)", resident, bytes, cache->by);
    }
    fprintf(out, "%s\n", cache->dropped ? ", dropped" : "");
}

void print_versions(FILE *out, const struct bench_result *result)
{
    char version[WORDS_SIZE];

    if (!result->run.versions[0])
        return;
    snprintf(version, sizeof version, "%.*s", (int)strcspn(result->run.versions, " "), result->run.versions);
    label(out, "SQLite");
    utf8_print(out, version);
    if (result->job->sqlite.library) {
        fputs(" of ", out);
        utf8_print(out, result->job->sqlite.library);
    }
    putc('\n', out);
}

static void print_estimate(FILE *out, const char *name, struct estimate estimate,
                           void (*words)(double, char[WORDS_SIZE]))
{
    char median[WORDS_SIZE], low[WORDS_SIZE], high[WORDS_SIZE];

    words(estimate.median, median);
    words(estimate.low, low);
    words(estimate.high, high);
    label(out, name);
    fputs(median, out);
    if (estimate.count > 1)
        fprintf(out, "  (median of %d; %s: %s to %s)", estimate.count,
                estimate.count < 6 ? "least and most" : "95 % interval", low, high);
    putc('\n', out);
}

static void print_latency(FILE *out, const char *name, const struct bench_tally *tally)
{
    static const uint32_t percentiles[] = {500000, 900000, 990000, 999000, 999900, 1000000};
    const struct hist *hist = &tally->latency_ns;

    fprintf(out, "%-12s%10" PRIu64, name, hist->count);
    for (size_t index = 0; index < sizeof percentiles / sizeof *percentiles; index++) {
        char text[WORDS_SIZE];

        words_time((double)hist_percentile(hist, percentiles[index]), text);
        fprintf(out, "%12s", text);
    }
    putc('\n', out);
}

static void print_latencies(FILE *out, const struct bench_tally parts[NR_PARTS])
{
    fprintf(out, "%-12s%10s%12s%12s%12s%12s%12s%12s\n", "latency", "count", "p50", "p90", "p99", "p99.9", "p99.99",
            "max");
    for (int part = 0; part < NR_PARTS; part++)
        if (parts[part].latency_ns.count)
            print_latency(out, bench_parts[part], &parts[part]);
}

static void print_cpu(FILE *out, const struct summary *summary)
{
    const struct system_usage *system = &summary->system;
    double active = (double)system->cpu_active_ns, idle = (double)system->cpu_idle_ns;
    double iowait = (double)system->cpu_iowait_ns, total = active + idle + iowait;

    if (active >= 0 && idle >= 0 && iowait >= 0 && total > 0) {
        label(out, "CPU of the system");
        fprintf(out, "%.1f %% active, %.1f %% idle, %.1f %% iowait\n", 100 * active / total, 100 * idle / total,
                100 * iowait / total);
    }
    if (summary->seconds <= 0)
        return;
    label(out, "CPU of iobench");
    fprintf(out, "%.1f %% user, %.1f %% system of one CPU\n", (double)summary->usage.user_ns / summary->seconds / 1e7,
            (double)summary->usage.system_ns / summary->seconds / 1e7);
}

static void print_switches(FILE *out, const struct usage *usage)
{
    label(out, "context switches");
    fprintf(out, "%" PRId64 " voluntary, %" PRId64 " involuntary\n", usage->ctx_voluntary, usage->ctx_involuntary);
}

static void print_device(FILE *out, const struct summary *summary)
{
    const struct system_usage *system = &summary->system;
    char read[WORDS_SIZE], written[WORDS_SIZE];

    if (system->device_read_bytes < 0 || system->device_write_bytes < 0)
        return;
    words_bytes((double)system->device_read_bytes, read);
    words_bytes((double)system->device_write_bytes, written);
    label(out, "device");
    fprintf(out, "%s read in %" PRId64 ", %s written in %" PRId64 " requests", read, system->device_reads, written,
            system->device_writes);
    if (system->device_flushes >= 0)
        fprintf(out, ", %" PRId64 " flushes", system->device_flushes);
    putc('\n', out);
}

static void print_amplification(FILE *out, const struct bench_results *results, const struct bench_result *first)
{
    struct estimate estimate = results_estimate(results, first->point, result_amplification);

    if (!estimate.count || estimate.low < 0)
        return;
    label(out, "write amplification");
    fprintf(out, "%.3f (bytes that the device wrote, for whoever, by the bytes written)\n", estimate.median);
}

static void print_steady(FILE *out, const struct bench_result *result)
{
    char text[WORDS_SIZE];

    if (result->steady_from_ns < 0)
        return;
    words_time((double)result->steady_from_ns, text);
    label(out, "steady");
    fprintf(out, "from %s on\n", text);
}

void print_invalid(FILE *out, const struct bench_results *results, int point)
{
    for (size_t index = 0; index < results->count; index++) {
        const struct bench_result *result = &results->items[index];

        if (result->point != point || result_valid(result))
            continue;
        fputs("*** INVALID", out);
        if (results->nr_points > 1)
            fprintf(out, ", point %d", point + 1);
        if (result->job->repeats > 1)
            fprintf(out, ", repetition %" PRId32, result->repeat + 1);
        fputs(": ", out);
        utf8_print(out, result->run.invalid);
        putc('\n', out);
    }
}

static void print_block(FILE *out, const struct bench_results *results, const struct summary *summary)
{
    const struct bench_result *first = summary->first;

    print_parameters(out, results);
    print_place(out, first);
    print_cache(out, first);
    print_versions(out, first);
    print_invalid(out, results, first->point);
    print_estimate(out, print_rate_name(first->job), summary_iops(results, summary), words_rate);
    print_estimate(out, "bandwidth", summary_bandwidth(results, summary), words_bandwidth);
    print_latencies(out, summary->parts);
    print_cpu(out, summary);
    print_switches(out, &summary->usage);
    print_device(out, summary);
    print_amplification(out, results, first);
    print_steady(out, first);
}

int results_print(FILE *out, const struct bench_results *results)
{
    struct summary *summary = malloc(sizeof *summary);

    if (!summary)
        return complain("no memory for the table of results");
    if (results->count && results->nr_points > 1)
        print_sweep(out, results, summary);
    else if (results->count) {
        summarise(summary, results, results->items[0].point);
        print_block(out, results, summary);
    }
    free(summary);
    return fflush(out) || ferror(out) ? -1 : 0;
}
