/* Times and errors of results. With an argument (human or record FILE), print hostile and extreme results for
 * tests/bench/test_iobench_output.py, which also checks sums. */
#include "iobench/report/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

#define WORKERS 2
#define SECOND  1000000000

/* -- results by hand -- */

static const struct bench_engine engine = {.name = "psync"};
static const struct bench_job job = {.workload = BENCH_FILE,
                                     .engine = &engine,
                                     .directory = "/data/\x1b[1m",
                                     .threads = WORKERS,
                                     .think_ns = SECOND,
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

/* Make a run of `seconds` without operations. */
static struct bench_run *make_run(int64_t seconds)
{
    struct bench_run *run = calloc(1, sizeof *run);
    struct bench_worker *workers = calloc(WORKERS, sizeof *workers);

    if (!run || !workers)
        exit(1);
    run->job = &job;
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

static void set_windows(struct bench_worker *worker, const int64_t *ops, int64_t nr_windows)
{
    worker->windows = calloc((size_t)nr_windows, sizeof *worker->windows);
    if (!worker->windows)
        exit(1);
    for (worker->nr_windows = 0; worker->nr_windows < nr_windows; worker->nr_windows++)
        worker->windows[worker->nr_windows].ops = ops[worker->nr_windows];
    worker->window_end_ns = worker->run->start_ns + SECOND + nr_windows * SECOND;
}

static struct bench_result result_of(struct bench_run *run)
{
    struct bench_result result = {0};

    if (result_make(&result, run))
        exit(1);
    return result;
}

/* Two workers with one operation each: one worked for 5 of 6 seconds and paused in the other one. */
static void test_pauses(void)
{
    struct bench_run *run = make_run(6);
    struct bench_result result;

    run->workers[0].parts[PART_OP].ops = run->workers[1].parts[PART_OP].ops = 1;
    run->workers[0].paused_ns = SECOND;
    run->workers[1].ended_ns = run->measure_ns + SECOND;
    result = result_of(run);
    tap_ok(result.duration_ns == 6 * (int64_t)SECOND && result.paused_ns == SECOND,
           "pauses are those of the worker that worked longest");
    tap_ok(result.iops > 0.3999 && result.iops < 0.4001, "rates are over the time without pauses");
    result_free(&result);
    free_run(run);
}

/* The first worker woke up 2.5 windows after the common start. */
static void test_early_windows(void)
{
    static const int64_t ops[] = {0, 0, 1, 5};
    struct bench_run *run = make_run(2);
    const struct bench_worker *worker = &run->workers[1];
    struct bench_result result;

    set_windows(&run->workers[1], ops, 4);
    run->measure_ns += 5 * (int64_t)SECOND / 2;
    run->end_ns += 2 * (int64_t)SECOND;
    result = result_of(run);
    tap_ok(worker->nr_windows == 2 && worker->windows[0].ops == 1 && worker->windows[1].ops == 5,
           "windows that were over before the first operation are dropped");
    tap_ok(result.windows_ns == 4 * (int64_t)SECOND, "the first that is left begins where it did");
    result_free(&result);
    free_run(run);
}

static void test_no_time(void)
{
    struct bench_run *run = make_run(0);
    struct bench_result result;

    run->workers[0].parts[PART_OP].ops = run->workers[0].parts[PART_OP].bytes = 1;
    run->workers[0].paused_ns = SECOND;
    result = result_of(run);
    tap_ok(result.iops == 0 && result.bytes_per_second == 0, "no time has no rate");
    result_free(&result);
    free_run(run);
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
        struct bench_run *run = make_run(1);
        struct bench_result result = {.run = run};

        snprintf(run->invalid, sizeof run->invalid, "%s", cases[index].invalid);
        run->interrupted = cases[index].interrupted;
        run->workers[1].error = cases[index].error;
        tap_ok(result_error(&result) == cases[index].expected && result_valid(&result) == !cases[index].expected,
               "error of \"%s\", errno %d", cases[index].invalid, cases[index].error);
        free_run(run);
    }
}

/* -- printing -- */

static void count(struct bench_worker *worker, enum bench_part part, uint64_t latency_ns)
{
    worker->parts[part].ops++;
    worker->parts[part].bytes += 4096;
    hist_add(&worker->parts[part].latency_ns, latency_ns);
}

/* Make a repetition with a single operation, one of no duration, one without operations, and an invalid one. */
static struct bench_run *make_extreme(int32_t point)
{
    static const int64_t one[] = {1};
    struct bench_run *run = make_run(point == 0 || point == 3);

    if (point == 0) {
        count(&run->workers[0], PART_OP, 123456789);
        count(&run->workers[0], PART_WRITE, 123456000);
        set_windows(&run->workers[0], one, 1);
    } else if (point == 1) {
        count(&run->workers[1], PART_OP, 0);
    } else if (point == 3) {
        run->workers[0].error = EIO;
        snprintf(run->workers[0].message, sizeof run->workers[0].message, "write: \x1b[2J");
        snprintf(run->invalid, sizeof run->invalid, "write of \"\xff\x1b[31m\n\" failed");
    }
    return run;
}

/* Print them, or record them in the file `path`; their names contain hostile characters. */
static int print(const char *path)
{
    static const struct storage storage = {
        .filesystem = "ext4", .device = "loop0", .model = "disk\x1b]0;x\x07 \xe2\x80\xae\xff"};
    struct record *out = path ? record_open_held(path, &bench_probe) : NULL;
    int failed = path && !out;

    for (int32_t point = 0; point < 4 && !failed; point++) {
        struct bench_run *run = make_extreme(point);
        char run_id[16];
        struct bench_result result = {.point = point, .run_id = run_id, .storage = &storage};

        snprintf(run_id, sizeof run_id, "id-%d", point);
        failed = result_make(&result, run);
        if (out)
            result_record(out, &result, "iobench '--directory=a b\xff'");
        else
            failed |= result_print(stdout, &result);
        result_free(&result);
        free_run(run);
    }
    return (out && record_close(out)) || failed;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return print(argc > 2 ? argv[2] : NULL);
    test_pauses();
    test_early_windows();
    test_no_time();
    test_errors();
    return tap_done();
}
