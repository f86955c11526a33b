/* A line for each repetition, for people; all else is in the records. */
#include <string.h>

#include "common/utf8.h"
#include "common/words.h"
#include "iobench/report/results.h"

static const uint32_t percentiles[] = {500000, 990000, 999000, 1000000};

static const char *place_of(const struct bench_result *result)
{
    return result->job->filename ? result->job->filename : result->job->directory;
}

static void print_place(FILE *out, const struct bench_result *result)
{
    const struct storage *storage = &result->storage;

    utf8_print(out, storage->filesystem[0] ? storage->filesystem : "unknown filesystem");
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
    utf8_print(out, place_of(result));
    putc('\n', out);
}

static void print_rates(FILE *out, const struct bench_result *result)
{
    char bandwidth[WORDS_SIZE];

    if (result->seconds <= 0) {
        fprintf(out, "%10s%14s", "-", "-");
        return;
    }
    words_bytes(result->bytes_per_second, bandwidth);
    fprintf(out, "%10.*f%12s/s", result->iops < 1000, result->iops, bandwidth);
}

static void print_latencies(FILE *out, const struct hist *hist)
{
    for (size_t index = 0; index < sizeof percentiles / sizeof *percentiles; index++) {
        char text[WORDS_SIZE];

        words_time((double)hist_percentile(hist, percentiles[index]), text);
        fprintf(out, "%10s", hist->count ? text : "-");
    }
}

static void print_result(FILE *out, const struct bench_result *result)
{
    print_rates(out, result);
    print_latencies(out, &result->parts[PART_OP].latency_ns);
    fprintf(out, "  %-8s", cache_states[result->run.cache.state]);
    utf8_print(out, result->job->name);
    if (result_valid(result)) {
        putc('\n', out);
        return;
    }
    fputs("\n*** INVALID: ", out);
    utf8_print(out, result->run.invalid);
    putc('\n', out);
}

int results_print(FILE *out, const struct bench_results *results)
{
    const struct bench_result *before = NULL;

    fprintf(out, "%10s%14s%10s%10s%10s%10s  cache\n", results->items[0].job->workload == BENCH_FILE ? "IOPS" : "TPS",
            "bandwidth", "p50", "p99", "p99.9", "max");
    for (size_t index = 0; index < results->count; index++) {
        const struct bench_result *result = &results->items[index];

        if (!before || strcmp(place_of(before), place_of(result)) != 0)
            print_place(out, result);
        print_result(out, result);
        before = result;
    }
    return fflush(out) || ferror(out) ? -1 : 0;
}
