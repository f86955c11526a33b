#define _GNU_SOURCE
#include "iobench/report/print.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

static void print_heading(FILE *out, const struct bench_results *results, const size_t widths[NR_PARAMETERS])
{
    for (int index = 0; index < NR_PARAMETERS; index++)
        if (widths[index])
            fprintf(out, "%-*s", (int)widths[index], bench_parameters[index].name);
    fprintf(out, "%10s%16s%12s%10s%10s%10s%10s\n", print_rate_name(results->items[0].job), "low-high", "bandwidth",
            "p50", "p99", "p99.9", "max");
}

static void print_values(FILE *out, const struct bench_job *job, const size_t widths[NR_PARAMETERS])
{
    for (int index = 0; index < NR_PARAMETERS; index++) {
        char text[WORDS_SIZE] = "";

        if (!widths[index])
            continue;
        bench_parameters[index].value(job, text);
        utf8_print(out, text);
        fprintf(out, "%*s", (int)(widths[index] - strlen(text)), "");
    }
}

static void print_rates(FILE *out, const struct bench_results *results, const struct summary *summary)
{
    struct estimate iops = summary_iops(results, summary);
    char median[WORDS_SIZE], low[WORDS_SIZE], high[WORDS_SIZE], bandwidth[WORDS_SIZE], interval[2 * WORDS_SIZE] = "";

    words_rate(iops.median, median);
    words_rate(iops.low, low);
    words_rate(iops.high, high);
    words_bandwidth(summary_bandwidth(results, summary).median, bandwidth);
    if (iops.count > 1)
        snprintf(interval, sizeof interval, "%s-%s", low, high);
    fprintf(out, "%10s%16s%12s", median, interval, bandwidth);
}

static void print_line(FILE *out, const struct bench_results *results, const struct summary *summary,
                       const size_t widths[NR_PARAMETERS])
{
    static const uint32_t percentiles[] = {500000, 990000, 999000, 1000000};
    const struct hist *hist = &summary->parts[PART_OP].latency_ns;

    print_values(out, summary->first->job, widths);
    print_rates(out, results, summary);
    for (size_t index = 0; index < sizeof percentiles / sizeof *percentiles; index++) {
        char text[WORDS_SIZE];

        words_time((double)hist_percentile(hist, percentiles[index]), text);
        fprintf(out, "%10s", hist->count ? text : "-");
    }
    fprintf(out, "%s\n", summary->valid < summary->repeats ? " !" : "");
}

void print_sweep(FILE *out, const struct bench_results *results, struct summary *summary)
{
    size_t widths[NR_PARAMETERS];

    for (int index = 0; index < NR_PARAMETERS; index++)
        widths[index] = print_width(results, &bench_parameters[index]);
    print_parameters(out, results);
    if (!widths[PARAMETER_PLACE])
        print_place(out, &results->items[0]);
    if (!widths[PARAMETER_LIBRARY])
        print_versions(out, &results->items[0]);
    print_heading(out, results, widths);
    for (int point = 0; point < results->nr_points; point++) {
        summarise(summary, results, point);
        if (summary->first)
            print_line(out, results, summary, widths);
    }
    for (int point = 0; point < results->nr_points; point++)
        print_invalid(out, results, point);
}
