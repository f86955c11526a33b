/* Sums of results. Without an argument, check them against independent calculations. With one (human or record FILE),
 * print hostile and extreme results for tests/bench/test_iobench_output.py. */
#define _GNU_SOURCE
#include "iobench/report/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

#define WORKERS 2
#define SECOND  1000000000

/* -- results by hand -- */

static const struct bench_engine engine = {.name = "psync"};
static struct bench_job job = {.workload = BENCH_FILE,
                               .engine = &engine,
                               .name = "by hand",
                               .directory = "/data",
                               .threads = WORKERS,
                               .interval_ns = SECOND,
                               .repeats = 1,
                               .seed = UINT64_MAX,
                               .file = {.access = ACCESS_WRITE,
                                        .random = true,
                                        .mode = {.after = AFTER_FSYNC},
                                        .after_every = 1,
                                        .size = 1 << 20,
                                        .record = 4096,
                                        .depth = 1,
                                        .loops = 1}};
static const struct storage storage = {.filesystem = "ext4", .device = "loop0", .model = "model"};

/* Make a run of `seconds` without operations. */
static struct bench_run *make_run(int32_t repeat, int64_t seconds)
{
    struct bench_run *run = calloc(1, sizeof *run);
    struct bench_worker *workers = calloc(WORKERS, sizeof *workers);

    if (!run || !workers)
        exit(1);
    run->job = &job;
    run->repeat = repeat;
    run->start_ns = SECOND;
    run->measure_ns = 2 * (int64_t)SECOND;
    run->end_ns = run->measure_ns + seconds * SECOND;
    run->rows_expected = run->rows_found = -1;
    memset(&run->system, 0xff, sizeof run->system);
    run->cache.by = "none";
    run->nr_workers = WORKERS;
    run->workers = workers;
    for (int32_t index = 0; index < WORKERS; index++) {
        workers[index].run = run;
        workers[index].job = &job;
        workers[index].index = index;
        workers[index].started_ns = run->measure_ns;
        workers[index].ended_ns = run->end_ns;
        workers[index].parts = calloc(NR_PARTS, sizeof *workers[index].parts);
        if (!workers[index].parts)
            exit(1);
    }
    return run;
}

static void free_run(struct bench_run *run)
{
    for (int32_t index = 0; index < run->nr_workers; index++) {
        free(run->workers[index].windows);
        free(run->workers[index].parts);
    }
    free(run->workers);
    free(run);
}

static void count(struct bench_worker *worker, enum bench_part part, uint64_t latency_ns, int64_t bytes)
{
    worker->parts[part].ops++;
    worker->parts[part].bytes += bytes;
    hist_add(&worker->parts[part].latency_ns, latency_ns);
}

static void set_windows(struct bench_worker *worker, const int64_t *ops, int64_t nr_windows)
{
    worker->windows = calloc((size_t)nr_windows, sizeof *worker->windows);
    if (!worker->windows)
        exit(1);
    for (worker->nr_windows = 0; worker->nr_windows < nr_windows; worker->nr_windows++)
        worker->windows[worker->nr_windows].ops = ops[worker->nr_windows];
    worker->window_end_ns = worker->run->start_ns + SECOND + nr_windows * SECOND;
}

static void add(struct bench_results *results, struct bench_run *run, int point)
{
    char run_id[16];

    snprintf(run_id, sizeof run_id, "id-%d", point);
    if (results_add(results, run, point, run_id, &storage))
        exit(1);
    free_run(run);
}

/* -- sums -- */

static void test_sums(void)
{
    static const int64_t first[] = {9, 10, 10, 10, 10, 10, 1}, second[] = {1, 0, 0, 0, 0, 0};
    struct bench_results results = {0};
    struct bench_run *run = make_run(0, 6);
    struct bench_job thinking = job;
    const struct bench_result *result;

    thinking.think_ns = SECOND;
    run->job = &thinking;
    count(&run->workers[0], PART_OP, 100, 4096);
    count(&run->workers[0], PART_WRITE, 60, 4096);
    count(&run->workers[1], PART_OP, 300, 4096);
    count(&run->workers[1], PART_OP, 200, 4096);
    run->workers[0].paused_ns = SECOND;
    run->workers[1].paused_ns = 0;
    run->workers[1].ended_ns = run->measure_ns + SECOND;
    run->workers[0].usage = (struct usage){1, 2, 3, 4, 5, 6};
    run->workers[1].usage = (struct usage){10, 20, 30, 40, 50, 60};
    set_windows(&run->workers[0], first, 7);
    set_windows(&run->workers[1], second, 6);
    add(&results, run, 3);
    result = &results.items[0];
    tap_ok(result->parts[PART_OP].ops == 3 && result->parts[PART_OP].bytes == 3 * 4096, "operations and bytes add up");
    tap_ok(result->parts[PART_OP].latency_ns.least == 100 && result->parts[PART_OP].latency_ns.most == 300 &&
               result->parts[PART_OP].latency_ns.sum == 600,
           "latencies add up");
    tap_ok(result->parts[PART_WRITE].ops == 1 && !result->parts[PART_SYNC].ops, "parts stay apart");
    tap_ok(result->usage.user_ns == 11 && result->usage.system_ns == 22 && result->usage.ctx_voluntary == 33 &&
               result->usage.ctx_involuntary == 44 && result->usage.major_faults == 55 &&
               result->usage.minor_faults == 66,
           "usage adds up");
    tap_ok(result->duration_ns == 6 * (int64_t)SECOND && result->paused_ns == SECOND,
           "pauses are those of the worker that worked longest");
    tap_ok(result->iops > 0.5999 && result->iops < 0.6001, "rates are over the time without pauses");
    tap_ok(result->point == 3 && result->run.workers[1].windows[0].ops == 1, "the result has its own copies");
    results_free(&results);
}

/* The first worker woke up 2.5 windows after the common start. */
static void test_early_windows(void)
{
    static const int64_t ops[] = {0, 0, 1, 5};
    struct bench_results results = {0};
    struct bench_run *run = make_run(0, 2);
    const struct bench_worker *worker;

    set_windows(&run->workers[1], ops, 4);
    run->measure_ns += 5 * (int64_t)SECOND / 2;
    run->end_ns += 2 * (int64_t)SECOND;
    add(&results, run, 0);
    worker = &results.items[0].run.workers[1];
    tap_ok(worker->nr_windows == 2 && worker->windows[0].ops == 1 && worker->windows[1].ops == 5,
           "windows that were over before the first operation are dropped");
    tap_ok(results.items[0].windows_ns == 4 * (int64_t)SECOND, "the first that is left begins where it did");
    results_free(&results);
}

static void test_no_time(void)
{
    struct bench_results results = {0};
    struct bench_run *run = make_run(0, 0);
    struct bench_job thinking = job;

    thinking.think_ns = SECOND;
    run->job = &thinking;
    count(&run->workers[0], PART_OP, 1, 1);
    run->workers[0].paused_ns = SECOND;
    add(&results, run, 0);
    tap_ok(results.items[0].iops == 0 && results.items[0].bytes_per_second == 0, "no time has no rate");
    results_free(&results);
}

static void test_errors(void)
{
    static const struct {
        const char *invalid;
        bool interrupted;
        int error, expected;
    } cases[] = {{"", false, 0, 0},
                 {"lost", false, 0, EIO},
                 {"stopped", true, 0, EINTR},
                 {"full", false, ENOSPC, ENOSPC},
                 {"full", true, ENOSPC, ENOSPC}};

    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        struct bench_results results = {0};
        struct bench_run *run = make_run(0, 1);

        snprintf(run->invalid, sizeof run->invalid, "%s", cases[index].invalid);
        run->interrupted = cases[index].interrupted;
        run->workers[1].error = cases[index].error;
        add(&results, run, 0);
        tap_ok(result_error(&results.items[0]) == cases[index].expected &&
                   result_valid(&results.items[0]) == !cases[index].expected,
               "error of \"%s\", errno %d", cases[index].invalid, cases[index].error);
        results_free(&results);
    }
}

/* -- printing -- */

/* Make one repetition with a single operation, one of no duration, one without operations, and an invalid one; their
 * names contain hostile characters. */
static void make_extremes(struct bench_results *results)
{
    static const int64_t one[] = {1};
    struct bench_run *run = make_run(0, 1);

    count(&run->workers[0], PART_OP, 123456789, 4096);
    count(&run->workers[0], PART_WRITE, 123456000, 4096);
    set_windows(&run->workers[0], one, 1);
    add(results, run, 0);
    run = make_run(0, 0);
    count(&run->workers[1], PART_OP, 0, 4096);
    add(results, run, 1);
    add(results, make_run(0, 0), 2);
    run = make_run(0, 1);
    run->workers[0].error = EIO;
    snprintf(run->workers[0].message, sizeof run->workers[0].message, "write: \x1b[2J");
    snprintf(run->invalid, sizeof run->invalid, "write of \"\xff\x1b[31m\n\" failed");
    add(results, run, 3);
    for (size_t index = 0; index < results->count; index++)
        snprintf(results->items[index].storage.model, sizeof storage.model, "disk\x1b]0;x\x07 \xe2\x80\xae\xff");
}

static int print(const char *what, const char *path)
{
    char name[] = "iobench", words[] = "--directory=a b'\xff";
    char *arguments[] = {name, words};
    struct bench_results results = {.argc = 2, .argv = arguments};
    int failed;

    job.directory = "/data/\x1b[1m";
    make_extremes(&results);
    if (!strcmp(what, "record"))
        failed = results_record(path, &results);
    else
        failed = results_print(stdout, &results);
    results_free(&results);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return print(argv[1], argc > 2 ? argv[2] : NULL);
    test_sums();
    test_early_windows();
    test_no_time();
    test_errors();
    return tap_done();
}
