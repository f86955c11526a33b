#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/utf8.h"
#include "iobench/modes.h"
#include "iobench/report/mobibench.h"

#define SECOND_NS 1000000000

/* As Mobibench does for its files; where it had no such test, its name stands instead of the number. */
static void print_head(FILE *out, const struct bench_job *job)
{
    char mode[MODE_NAME];

    if (job->workload == BENCH_FILE && !mobibench_lacks(job)) {
        fprintf(out, "\n#In %d IO mode and %d sync mode\n", mobibench_access(&job->file),
                mode_mobibench(&job->file.mode));
        return;
    }
    mode_name(&job->file.mode, mode);
    fprintf(out, "\n#In %s IO mode and %s sync mode\n", bench_test(job),
            job->workload == BENCH_FILE     ? mode
            : job->workload == BENCH_SQLITE ? job->sqlite.synchronous
                                            : "no");
}

static void print_invalid(FILE *out, const struct bench_result *result)
{
    fputs("#invalid: ", out);
    utf8_print(out, result->run.invalid);
    putc('\n', out);
}

static void print_latencies(FILE *out, const struct bench_result *result)
{
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        const struct bench_worker *worker = &result->run.workers[index];

        print_head(out, result->job);
        for (int64_t number = 0; number < worker->nr_logged; number++)
            if (worker->log[number].part == PART_OP)
                fprintf(out, "%" PRId64 "\tusec\n", (worker->log[number].latency_ns + 500) / 1000);
        if (worker->log_lost)
            fprintf(out, "#%" PRId64 " more were not logged\n", worker->log_lost);
    }
    if (result_valid(result))
        mobibench_time(out, result);
    else
        print_invalid(out, result);
}

/* What a line of the time series counts. */
static const char *unit_of(const struct bench_job *job)
{
    if (job->workload != BENCH_FILE)
        return "Transactions/sec";
    return job->file.random ? "IOPS" : "KB/s";
}

/* What was done in a second of wall-clock time; a last one that is shorter says how long it was. KB are counted from
 * the start, so that they add up. */
static void print_second(FILE *out, const struct bench_job *job, const struct bench_window *before,
                         const struct bench_window *now, int64_t length_ns)
{
    bool bytes = job->workload == BENCH_FILE && !job->file.random;
    int64_t amount = bytes ? now->bytes / 1024 - before->bytes / 1024 : now->ops - before->ops;

    fprintf(out, "%" PRId64 " %s", amount, unit_of(job));
    if (length_ns < SECOND_NS)
        fprintf(out, "\t%.3f sec", (double)length_ns / 1e9);
    putc('\n', out);
}

static void print_seconds(FILE *out, const struct bench_result *result, const struct bench_worker *worker)
{
    int64_t interval_ns = result->job->interval_ns, second_ns = 0, end_ns = worker->ended_ns - result->windows_ns;
    struct bench_window before = {0}, now = {0};

    for (int64_t number = 0; number < worker->nr_windows; number++) {
        if (number * interval_ns - second_ns >= SECOND_NS) {
            print_second(out, result->job, &before, &now, number * interval_ns - second_ns);
            before = now;
            second_ns = number * interval_ns;
        }
        now.ops += worker->windows[number].ops;
        now.bytes += worker->windows[number].bytes;
    }
    if (worker->nr_windows)
        print_second(out, result->job, &before, &now, end_ns - second_ns);
}

static void print_rates(FILE *out, const struct bench_result *result)
{
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        print_head(out, result->job);
        print_seconds(out, result, &result->run.workers[index]);
    }
    if (!result_valid(result))
        print_invalid(out, result);
}

static FILE *open_log(const char *path)
{
    int file;
    FILE *out;

    do
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    while (file < 0 && errno == EINTR);
    if (file < 0)
        return NULL;
    out = fdopen(file, "a");
    if (!out)
        close(file);
    return out;
}

static int append(const char *path, const struct bench_results *results,
                  void (*print)(FILE *out, const struct bench_result *result))
{
    FILE *out = open_log(path);
    int failed;

    if (!out)
        return complain("%s: cannot be written (%s)", path, strerror(errno));
    for (size_t index = 0; index < results->count; index++)
        print(out, &results->items[index]);
    failed = ferror(out);
    if (fclose(out) || failed)
        return complain("%s: not all of it could be written", path);
    return 0;
}

int results_latency_log(const char *path, const struct bench_results *results)
{
    return append(path, results, print_latencies);
}

int results_iops_log(const char *path, const struct bench_results *results)
{
    return append(path, results, print_rates);
}
