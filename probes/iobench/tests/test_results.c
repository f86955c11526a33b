/*
 * Sums and steady states. Without an argument: against calculations done another way. With one (human,
 * mobibench or record FILE): prints results made up here, hostile and extreme ones, for
 * tests/bench/test_iobench_output.py.
 */
#define _GNU_SOURCE
#include "iobench/report/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

#define WORKERS 2
#define SECOND  1000000000

static uint64_t random_state = 1;

/* Of 31 bits; by the constants of MMIX. */
static int64_t random_below(int64_t bound)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)(random_state >> 33) % bound;
}

/* -- results by hand -- */

static const struct bench_engine engine = {.name = "psync"};
static struct bench_job job = {.workload = BENCH_FILE,
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

/* A run of `seconds` without operations. */
static struct bench_run *make_run(int32_t repeat, int64_t seconds)
{
    struct bench_run *run = calloc(1, sizeof *run);
    struct bench_worker *workers = calloc(WORKERS, sizeof *workers);

    if (!run || !workers)
        exit(1);
    run->job = &job;
    run->engine = &engine;
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
    if (results_add(results, run, point, "id", &storage))
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
    tap_ok(result->steady_from_ns == 0, "windows of the workers add up");
    tap_ok(result->point == 3 && result->run.workers[1].windows[0].ops == 1, "the result has its own copies");
    results_free(&results);
}

/* The first worker woke up 2.5 windows after the start that was agreed upon. */
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

/* -- steady state -- */

/* SNIA's two conditions for five windows, with the line of best fit in its textbook form, in whole numbers. */
static bool is_steady(const struct bench_window *windows)
{
    int64_t sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0, least = INT64_MAX, most = 0, slope_50;

    for (int64_t x = 0; x < 5; x++) {
        int64_t y = windows[x].ops;

        sum_x += x;
        sum_y += y;
        sum_xx += x * x;
        sum_xy += x * y;
        least = y < least ? y : least;
        most = y > most ? y : most;
    }
    if (5 * sum_xx - sum_x * sum_x != 50)
        exit(1);
    slope_50 = 5 * sum_xy - sum_x * sum_y;
    /* 4 steps of slope_50 / 50 are at most a tenth of sum_y / 5; the range at most a fifth of it. */
    return sum_y && 4 * llabs(slope_50) <= sum_y && 25 * (most - least) <= sum_y;
}

static int64_t steady_by_hand(const struct bench_window *windows, size_t count)
{
    for (size_t first = 0; first + 5 <= count; first++)
        if (is_steady(&windows[first]))
            return (int64_t)first;
    return -1;
}

static void test_steady(void)
{
    int found[16] = {0};
    bool same = true;

    for (int trial = 0; trial < 20000; trial++) {
        struct bench_window windows[12];
        size_t count = (size_t)random_below(13);
        int64_t noise = 1 + random_below(60), drift = random_below(21) - 10, by_hand;

        for (size_t index = 0; index < count; index++)
            windows[index] = (struct bench_window){200 + random_below(noise) + (int64_t)index * drift, 0};
        by_hand = steady_by_hand(windows, count);
        found[by_hand + 1]++;
        same = same && results_steady(windows, count, 1) == by_hand;
    }
    tap_ok(same, "steady states are found where a calculation by hand finds them");
    tap_ok(found[0] && found[1] && found[2] && found[8], "some are never steady, some at once, some late");
}

static void test_steady_edges(void)
{
    static const struct {
        int64_t ops[5];
        bool steady;
        const char *what;
    } cases[] = {
        {{100, 100, 100, 100, 100}, true, "all the same"},  {{0, 0, 0, 0, 0}, false, "nothing done"},
        {{110, 90, 100, 110, 90}, true, "a range of 20 %"}, {{111, 90, 99, 110, 90}, false, "a range of 21 %"},
        {{95, 98, 99, 103, 105}, true, "a rise of 10 %"},   {{95, 97, 100, 103, 105}, false, "a rise of more"},
        {{105, 103, 100, 97, 95}, false, "a fall of more"},
    };

    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        struct bench_window windows[5];

        for (int window = 0; window < 5; window++)
            windows[window] = (struct bench_window){cases[index].ops[window], 0};
        tap_ok((results_steady(windows, 5, SECOND) == 0) == cases[index].steady, "%s", cases[index].what);
    }
}

/* -- what Mobibench can tell of -- */

static void test_mobibench(void)
{
    struct bench_job other = job;

    tap_ok(!mobibench_lacks(&other), "random writes with fsync");
    other.file.access = ACCESS_MIXED;
    tap_ok(mobibench_lacks(&other) != NULL, "mixed reads and writes");
    other = job;
    other.file.record = 512;
    tap_ok(mobibench_lacks(&other) != NULL, "half a KB");
    other = job;
    other.file.after_every = 2;
    tap_ok(mobibench_lacks(&other) != NULL, "fsync after every second record");
    other = job;
    other.file.mode.after = AFTER_RANGE;
    tap_ok(mobibench_lacks(&other) != NULL, "sync_file_range");
    other.workload = BENCH_POSTMARK;
    tap_ok(mobibench_lacks(&other) != NULL, "PostMark");
    other.workload = BENCH_SQLITE;
    other.sqlite.op = SQLITE_OP_DELETE;
    tap_ok(!mobibench_lacks(&other), "deletes");
    other.sqlite.op = SQLITE_OP_SELECT;
    tap_ok(mobibench_lacks(&other) != NULL, "selects");
}

/* -- printing -- */

/* One repetition of a single operation, one of no time, one of no operation at all, and an invalid one; names that
 * would do harm. */
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
    else if (!strcmp(what, "mobibench"))
        failed = results_print_mobibench(stdout, &results);
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
    test_steady();
    test_steady_edges();
    test_mobibench();
    return tap_done();
}
