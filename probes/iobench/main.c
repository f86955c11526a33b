#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/errors.h"
#include "common/record.h"
#include "iobench/bench.h"
#include "iobench/meter.h"
#include "iobench/options.h"
#include "iobench/report/results.h"
#include "iobench/sqlite/library.h"
#include "iobench/workers.h"

/* Progress of a job on standard error. */
struct progress {
    const struct bench_plan *plan;
    int64_t repeat;
    bool terminal;
    int shown;                   /* percent */
    const struct bench_run *run; /* the repetition in progress */
    int64_t shown_ns, shown_ops; /* time and operations at the last line */
};

static double rate_since_shown(struct progress *progress, int64_t ops)
{
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    int64_t from_ns = progress->shown_ns ? progress->shown_ns : progress->run->start_ns;
    double seconds = (double)(now_ns - from_ns) / 1e9;
    double rate = seconds > 0 ? (double)(ops - progress->shown_ops) / seconds : 0;

    progress->shown_ns = now_ns;
    progress->shown_ops = ops;
    return rate;
}

static int percent_of(const struct progress *progress, double share)
{
    return (int)(((double)progress->repeat + share) / (double)progress->plan->job.repeats * 100);
}

static void show_line(const struct progress *progress, double rate, const char *after)
{
    fprintf(stderr, "iobench: %d %% repeat %" PRId64 "/%" PRId64 " %.0f ops/s%s", progress->shown, progress->repeat + 1,
            progress->plan->job.repeats, rate, after);
}

/* Return whether to print a line without a terminal: one for each percent. The last line of a repetition is that of its
 * result. */
static bool has_line(const struct progress *progress, int percent)
{
    return percent > progress->shown && percent < percent_of(progress, 1);
}

static void show(const struct workers_progress *now, void *context)
{
    struct progress *progress = context;
    int percent = percent_of(progress, now->share);

    if (progress->plan->quiet || (!progress->terminal && !has_line(progress, percent)))
        return;
    progress->shown = percent;
    if (progress->terminal)
        putc('\r', stderr);
    show_line(progress, rate_since_shown(progress, now->ops), progress->terminal ? "\033[K" : "\n");
}

/* Clear the line of a terminal. */
static void show_end(const struct progress *progress)
{
    if (progress->terminal && progress->shown >= 0)
        fputs("\r\033[K", stderr);
}

/* Print the result of a repetition if standard error is not a terminal. */
static void show_result(struct progress *progress, const struct bench_result *result)
{
    if (progress->terminal || progress->plan->quiet)
        return;
    progress->shown = percent_of(progress, 1);
    show_line(progress, result->iops, ", done\n");
}

/* Where results go. */
struct output {
    struct record *record; /* made with the first result; NULL: none so far */
    const char *command;   /* command line */
};

/* Print and record the result of a repetition. */
static int report(struct progress *progress, struct output *output, const struct bench_result *result)
{
    const struct bench_plan *plan = progress->plan;
    int failed = 0;

    if (result_valid(result))
        show_result(progress, result);
    if (!plan->dry_run)
        failed = result_print(stdout, result);
    if (plan->record && !output->record)
        output->record = record_open_held(plan->record, &bench_probe);
    if (plan->record && !output->record)
        return -1;
    if (output->record)
        result_record(output->record, result, output->command);
    return failed || !(plan->dry_run || result_valid(result)) ? -1 : 0;
}

/* Measure one repetition. */
static int measure_once(struct progress *progress, struct output *output, const char *run_id)
{
    const struct bench_plan *plan = progress->plan;
    const struct bench_job *job = &plan->job;
    struct bench_run *run = workers_make(job, (int32_t)progress->repeat);
    struct storage storage = {0};
    struct bench_result result = {.point = plan->point, .run_id = run_id, .storage = &storage};
    int failed = 0;

    if (!run)
        return -1;
    if (plan->dry_run) {
        snprintf(run->invalid, sizeof run->invalid, "nothing was measured (--dry-run)");
    } else if (storage_of(job->filename ? job->filename : job->directory, &storage)) {
        failed = -1;
    } else {
        progress->run = run;
        progress->shown_ns = progress->shown_ops = 0;
        failed = workers_run(run, &storage, show, progress);
        show_end(progress);
    }
    if ((!failed || *run->invalid) && (result_make(&result, run) || report(progress, output, &result)))
        failed = -1;
    result_free(&result);
    workers_free(run);
    return failed;
}

/* Measure until the first failure: results after a failure are not reliable. All repetitions have one ID, from this
 * moment and process. */
static int measure(const struct bench_plan *plan, struct output *output)
{
    struct progress progress = {.plan = plan, .terminal = isatty(STDERR_FILENO), .shown = -1};
    char run_id[40];
    int failed = 0;

    snprintf(run_id, sizeof run_id, "%016" PRIx64 "-%x-%x", (uint64_t)clock_now(CLOCK_REALTIME), (unsigned)getpid(),
             (unsigned)plan->point);
    for (; progress.repeat < plan->job.repeats && !failed; progress.repeat++)
        failed = measure_once(&progress, output, run_id);
    return failed;
}

static int check(const struct bench_job *job)
{
    if (workers_check(job) < 0)
        return -1;
    return job->engine->check ? job->engine->check(job) : 0;
}

static void add_word(FILE *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";

    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

/* Join the words in one line, quoted for a shell where necessary (freed by the caller). Returns NULL if memory runs
 * out. */
static char *shell_join(int count, char **words)
{
    char *line = NULL;
    size_t bytes;
    FILE *out = open_memstream(&line, &bytes);

    if (!out)
        return NULL;
    for (int index = 0; index < count; index++) {
        if (index)
            putc(' ', out);
        add_word(out, words[index]);
    }
    if (fclose(out)) {
        free(line);
        return NULL;
    }
    return line;
}

static int run(const struct bench_plan *plan, int argc, char **argv)
{
    struct output output = {NULL, NULL};
    char *command = shell_join(argc, argv);
    int failed;

    if (!command)
        return print_error("no memory for the command line");
    output.command = command;
    failed = (!plan->dry_run && check(&plan->job)) || workers_catch_signals() || measure(plan, &output) ? -1 : 0;
    if (output.record && record_close(output.record))
        failed = -1;
    free(command);
    return failed;
}

static int print_version(void)
{
    struct sqlite_library library;
    char sqlite[BENCH_VERSIONS];
    int failed;

    if (sqlite_library_open(&library, NULL))
        return -1;
    failed = sqlite_library_describe(&library, sqlite, sizeof sqlite);
    sqlite_library_close(&library);
    return failed || printf("iobench %s\nSQLite %s\n", PROBE_VERSION, sqlite) < 0 ? -1 : 0;
}

static int act(const struct bench_plan *plan, int argc, char **argv)
{
    if (plan->help)
        return plan_help(stdout);
    if (plan->describe)
        return record_describe(stdout, &bench_probe);
    if (plan->version)
        return print_version();
    return run(plan, argc, argv);
}

int main(int argc, char **argv)
{
    struct bench_plan plan;
    int failed = plan_parse(&plan, argc, argv);

    if (!failed)
        failed = act(&plan, argc, argv);
    if (fflush(stdout) || ferror(stdout))
        failed = print_error("standard output: %s", strerror(errno));
    return failed ? 1 : 0;
}
