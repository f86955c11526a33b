#include "iobench/bench.h"
#include "iobench/sqlite/library.h"

static bool is_quiet;
static int shown_percent = -1;

/* Show the progress of all repetitions: on a terminal in place, else in a line for each percent. The last line of a
 * repetition is that of its result. */
static void show(const struct bench_run *run, double share, double rate, bool is_done)
{
    bool terminal = isatty(STDERR_FILENO);
    double repeats = (double)run->job->repeats;
    int percent = (int)((run->repeat + share) / repeats * 100), last = (int)((run->repeat + 1) / repeats * 100);
    if (is_quiet || (terminal ? is_done : !is_done && (percent <= shown_percent || percent >= last)))
        return;
    shown_percent = percent;
    fprintf(stderr, "%siobench: %d %% repeat %" PRId32 "/%.0f %.0f ops/s%s", terminal ? "\r" : "", percent,
            run->repeat + 1, repeats, rate,
            terminal  ? "\033[K"
            : is_done ? ", done\n"
                      : "\n");
}

static void show_now(const struct bench_run *run, double share, int64_t ops)
{
    show(run, share, (double)ops * 1e9 / (double)(clock_now(CLOCK_MONOTONIC) - run->start_ns), false);
}

/* Where results go. */
struct output {
    const struct bench_plan *plan;
    char *command;         /* command line */
    struct record *record; /* made with the first result; NULL: none so far */
    char run_id[40];       /* of all repetitions: from this moment and process */
};

/* Print and record the result of a repetition. */
static int report(struct output *output, const struct bench_result *result)
{
    const struct bench_plan *plan = output->plan;
    bool valid = !result->run->invalid[0];
    if (valid)
        show(result->run, 1, result->iops, true);
    int failed = plan->dry_run ? 0 : result_print(stdout, result);
    if (plan->record && !output->record && !(output->record = record_open_held(plan->record, &bench_probe)))
        return -1;
    if (output->record)
        result_record(output->record, result, output->command);
    return failed || !(plan->dry_run || valid) ? -1 : 0;
}

/* Measure one repetition. */
static int measure_once(struct output *output, int32_t repeat)
{
    const struct bench_plan *plan = output->plan;
    const struct bench_job *job = &plan->job;
    struct bench_run *run = workers_make(job, repeat);
    struct storage storage = {0};
    struct bench_result result = {.point = (int32_t)plan->point, .run_id = output->run_id, .storage = &storage};
    int failed = 0;
    if (!run)
        return -1;
    if (plan->dry_run) {
        snprintf(run->invalid, sizeof run->invalid, "nothing was measured (--dry-run)");
    } else if (storage_of(job->filename ? job->filename : job->directory, &storage)) {
        failed = -1;
    } else {
        failed = workers_run(run, &storage, show_now);
        if (isatty(STDERR_FILENO) && shown_percent >= 0)
            fputs("\r\033[K", stderr);
    }
    if (!failed || *run->invalid) {
        result_make(&result, run);
        if (report(output, &result))
            failed = -1;
        free(result.parts);
    }
    workers_free(run);
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

/* Join the words in one line, quoted for a shell where necessary (freed by the caller). */
static char *shell_join(int count, char **words)
{
    struct contents line;
    FILE *out = memory_open(&line);
    for (int index = 0; index < count; index++) {
        fputs(index ? " " : "", out);
        add_word(out, words[index]);
    }
    memory_close(out);
    return line.data;
}

/* Measure until the first failure: results after a failure are not reliable. */
static int run(const struct bench_plan *plan, int argc, char **argv)
{
    struct output output = {.plan = plan, .command = shell_join(argc, argv)};
    int failed = (!plan->dry_run && check(&plan->job)) || workers_catch_signals() ? -1 : 0;
    is_quiet = plan->quiet;
    snprintf(output.run_id, sizeof output.run_id, "%016" PRIx64 "-%x-%x", (uint64_t)clock_now(CLOCK_REALTIME),
             (unsigned)getpid(), (unsigned)plan->point);
    for (int32_t repeat = 0; repeat < plan->job.repeats && !failed; repeat++)
        failed = measure_once(&output, repeat);
    if (output.record && record_close(output.record))
        failed = -1;
    free(output.command);
    return failed;
}

static int print_version(void)
{
    struct sqlite_library library;
    char sqlite[BENCH_VERSIONS];
    if (sqlite_library_open(&library, NULL))
        return -1;
    int failed = sqlite_library_describe(&library, sqlite, sizeof sqlite);
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
