/* Times of operations, and which of them count. */
#include "iobench/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/tests/tap.h"
#include "iobench/workers.h"

#define SECOND_NS INT64_C(1000000000)

static struct bench_job job;
static struct bench_run run;
static struct bench_worker worker;
static struct bench_tally parts[NR_PARTS];

/* Make a run of one worker that began in the past, so that the test does not have to wait. */
static void make(const struct bench_job *asked)
{
    job = *asked;
    memset(&run, 0, sizeof run);
    memset(&worker, 0, sizeof worker);
    memset(parts, 0, sizeof parts);
    run.job = &job;
    run.workers = &worker;
    run.nr_workers = 1;
    run.start_ns = clock_now(CLOCK_MONOTONIC) - SECOND_NS / 1000;
    run.measure_ns = run.start_ns;
    run.deadline_ns = INT64_MAX;
    worker.run = &run;
    worker.parts = parts;
    worker.job = &job;
    worker.ops_asked = job.ops;
    worker.limit = INT64_MAX;
}

static int count_all(void)
{
    int64_t due_ns;
    int count = 0;

    while (bench_next(&worker, &due_ns)) {
        bench_count(&worker, PART_OP, due_ns, due_ns + 5, 10);
        count++;
    }
    return count;
}

/* -- when an operation is due ------------------------------------------------------------------------------------- */

static const struct pace {
    int64_t rate, threads;
    int32_t index;
    int64_t number, expected_ns;
} paces[] = {
    {1, 1, 0, 0, 0},
    {1, 1, 0, 7, 7 * SECOND_NS},
    {1000, 4, 0, 0, 0},
    {1000, 4, 3, 0, 3000000},
    {1000, 4, 3, 1, 7000000},
    {3, 1, 0, 1, 333333333},
    {3, 1, 0, 2, 666666666},
    {3, 1, 0, 3, SECOND_NS},
    {3, 1, 0, 3000000000, INT64_C(1000000000) * SECOND_NS}, /* not one nanosecond late after 32 years */
    {7, 2, 1, 349999999, INT64_C(99999999857142857)},
    {1000000, 32, 31, INT64_C(1000000000), INT64_C(32000000031000)},
    {999999937, 1, 0, 999999937, SECOND_NS},
};

static void test_paces(void)
{
    for (size_t index = 0; index < sizeof paces / sizeof *paces; index++) {
        const struct pace *pace = &paces[index];
        int64_t due_ns = 0;

        make(&(struct bench_job){.rate = pace->rate, .threads = pace->threads});
        run.start_ns = run.measure_ns = -pace->expected_ns;
        worker.index = pace->index;
        worker.begun = pace->number;
        worker_start(&worker);
        tap_ok(bench_next(&worker, &due_ns) && due_ns == 0,
               "operation %" PRId64 " of worker %" PRId32 " of %" PRId64 " at %" PRId64 "/s is due %" PRId64 " ns late",
               pace->number, pace->index, pace->threads, pace->rate, due_ns);
    }
}

static void test_due_without_rate(void)
{
    int64_t before_ns, due_ns = 0;

    make(&(struct bench_job){.threads = 1});
    before_ns = clock_now(CLOCK_MONOTONIC);
    tap_ok(bench_next(&worker, &due_ns) && due_ns >= before_ns && due_ns <= clock_now(CLOCK_MONOTONIC),
           "without a rate an operation is due now");
}

/* -- limits
 * --------------------------------------------------------------------------------------------------------- */

static void test_limits(void)
{
    int64_t due_ns;

    make(&(struct bench_job){.threads = 1, .ops = 5});
    tap_ok(count_all() == 5 && worker.parts[PART_OP].ops == 5 && worker.parts[PART_OP].bytes == 50, "5 operations");
    make(&(struct bench_job){.threads = 1, .ops = 5});
    atomic_store(&run.stopping, true);
    tap_ok(count_all() == 0, "none when the run is stopping");
    make(&(struct bench_job){.threads = 1});
    run.deadline_ns = clock_now(CLOCK_MONOTONIC);
    tap_ok(count_all() == 0, "none after the deadline");
    make(&(struct bench_job){.threads = 1, .rate = 1});
    run.start_ns += 3600 * SECOND_NS;
    run.deadline_ns = run.start_ns;
    worker_start(&worker);
    tap_ok(!bench_next(&worker, &due_ns), "none that is due after the deadline, without waiting for it");
}

static void test_first_and_last_interval(void)
{
    make(&(struct bench_job){.threads = 1, .ops = 4, .rate = 500});
    worker_start(&worker);
    count_all();
    worker_end(&worker);
    tap_ok(worker.started_ns == run.measure_ns && worker.ended_ns - worker.started_ns >= 4 * SECOND_NS / 500,
           "four operations at 500/s take 8 ms, not 6");
}

/* -- windows
 * -------------------------------------------------------------------------------------------------------- */

static void test_windows(void)
{
    static const int64_t ends[] = {0, 9, 10, 35, 34, 40, 1000};
    static const int64_t expected[] = {2, 1, 0, 2};
    struct bench_window windows[4] = {0};
    bool right = true;

    make(&(struct bench_job){.threads = 1, .interval_ns = 10});
    worker.windows = windows;
    worker.room_windows = 4;
    worker.measuring = true;
    worker.window_end_ns = run.measure_ns;
    for (size_t index = 0; index < sizeof ends / sizeof *ends; index++)
        bench_count(&worker, PART_OP, run.measure_ns, run.measure_ns + ends[index], 3);
    bench_count(&worker, PART_SYNC, run.measure_ns, run.measure_ns, 3);
    for (size_t index = 0; index < 4; index++)
        right = right && windows[index].ops == expected[index] && windows[index].bytes == 3 * expected[index];
    tap_ok(right && worker.nr_windows == 4, "windows hold what ended in them, and nothing that has no room");
    tap_ok(worker.parts[PART_OP].ops == 7 && worker.parts[PART_SYNC].ops == 1, "which is counted nonetheless");
}

static void test_log(void)
{
    struct bench_logged log[2] = {0};

    make(&(struct bench_job){.threads = 1, .log_ops = true});
    worker.log = log;
    worker.room_logged = 2;
    worker.measuring = true;
    for (int64_t number = 0; number < 3; number++)
        bench_count(&worker, PART_WRITE, number, 2 * number + 1, number);
    tap_ok(worker.nr_logged == 2 && worker.log_lost == 1, "what has no room in the log is counted as lost");
    tap_ok(log[1].start_ns == 1 && log[1].latency_ns == 2 && log[1].bytes == 1 && log[1].part == PART_WRITE,
           "an operation is logged as it was");
}

static void test_failure(void)
{
    make(&(struct bench_job){.threads = 1});
    tap_ok(bench_fail(&worker, 5, "the %s one", "first") == -1 && bench_fail(&worker, 6, "the second one") == -1 &&
               worker.error == 5 && !strcmp(worker.message, "the first one") && atomic_load(&run.stopping),
           "the first failure is the one that is told, and stops all");
}

int main(void)
{
    test_paces();
    test_due_without_rate();
    test_limits();
    test_first_and_last_interval();
    test_windows();
    test_log();
    test_failure();
    return tap_done();
}
