#define _GNU_SOURCE
#include <inttypes.h>

#include "common/utf8.h"
#include "common/words.h"
#include "ioreplay/results.h"

static void print_text(FILE *out, const char *before, const char *text)
{
    fputs(before, out);
    utf8_print(out, text ? text : "unknown");
}

static void print_time(FILE *out, const char *before, int64_t ns)
{
    char text[WORDS_SIZE];

    words_time((double)ns, text);
    fprintf(out, "%s%s", before, text);
}

static void print_mode(FILE *out, const struct replay_run *run)
{
    fprintf(out, "mode            %s", replay_mode_names[run->mode]);
    if (run->mode == REPLAY_SCALED)
        fprintf(out, ", %.6g times as fast", (double)run->scale_ppm / 1e6);
    fputc('\n', out);
}

static const char *cached(int32_t cold)
{
    if (cold == RECORD_NULL_INT32)
        return ", in the page cache or not";
    return cold ? ", not in the page cache" : ", some in the page cache";
}

static void print_place(FILE *out, const struct replay_report *report)
{
    if (report->fs_type)
        print_text(out, "filesystem      ", report->fs_type);
    print_text(out, report->fs_type ? " of " : "device          ", report->device);
    fputc('\n', out);
    fprintf(out, "made before     %" PRId64 " files", report->files);
    words_print_bytes(out, " of ", report->files_bytes);
    fprintf(out, "%s\n", report->files ? cached(report->cold) : "");
}

/* An average over the replay; the calls' own work in the kernel is in it. */
static void print_cpu(FILE *out, const struct replay_run *run)
{
    int64_t cpu_ns = run->cpu_user_ns + run->cpu_system_ns;

    fprintf(out, "CPU             %.3f s user, %.3f s system", (double)run->cpu_user_ns / 1e9,
            (double)run->cpu_system_ns / 1e9);
    if (run->duration_ns > 0)
        fprintf(out, ": %.1f %% of one core, with what the calls took of it",
                100 * (double)cpu_ns / (double)run->duration_ns);
    fputc('\n', out);
}

static void print_percentiles(FILE *out, const char *before, const struct replay_lateness *late)
{
    fputs(before, out);
    print_time(out, "p50 ", late->p50_ns);
    print_time(out, ", p99 ", late->p99_ns);
    print_time(out, ", most ", late->most_ns);
    fputc('\n', out);
}

static void print_lateness(FILE *out, const struct replay_tally *tally)
{
    if (!tally->nr_due)
        return;
    print_percentiles(out, "lateness        ", &tally->late);
    print_percentiles(out, "  of it own     ", &tally->own);
}

static void print_divergences(FILE *out, const struct replay_report *report)
{
    const char *comma = " (";

    fprintf(out, "divergences     %" PRId64, report->tally.diverged);
    for (int kind = DIVERGENCE_UNKNOWN; kind < REPLAY_DIVERGENCES; kind++)
        if (report->tally.divergences[kind]) {
            fprintf(out, "%s%s %" PRId64, comma, replay_divergence_names[kind], report->tally.divergences[kind]);
            comma = ", ";
        }
    fputs(*comma == ',' ? ")\n" : "\n", out);
}

int replay_print(FILE *out, const struct replay_report *report)
{
    const struct replay_run *run = report->run;
    const struct replay_tally *tally = &report->tally;

    print_mode(out, run);
    print_place(out, report);
    fprintf(out, "time            %.3f s, recorded %.3f s%s\n", (double)run->duration_ns / 1e9,
            (double)run->program->duration_ns / 1e9, run->interrupted ? "; a signal ended it early" : "");
    fprintf(out,
            "operations      %" PRId64 " of %" PRId64 " done, and %" PRId64 " inserted ones, by %" PRIu32 " threads\n",
            tally->done, tally->operations, tally->inserted, run->program->nr_threads);
    fprintf(out, "I/O time        %.3f s, the sum of all latencies\n", (double)tally->io_ns / 1e9);
    words_print_bytes(out, "bytes           ", tally->read);
    words_print_bytes(out, " read, ", tally->written);
    fputs(" written\n", out);
    print_lateness(out, tally);
    print_cpu(out, run);
    print_divergences(out, report);
    return fflush(out) || ferror(out) ? -1 : 0;
}
