/* Times, order and results of operations in a replay. */
#define _GNU_SOURCE
#include "ioreplay/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/rng.h"
#include "common/tests/tap.h"
#include "ioreplay/flags.h"
#include "ioreplay/results.h"
#include "ioreplay/shapes.h"
#include "ioreplay/stop.h"
#include "ioreplay/transfer.h"

#define MS INT64_C(1000000)

/* -- flags -------------------------------------------------------------------------------------------------------- */

static const struct {
    int64_t generic;
    int expected;
} flags[] = {
    {0, O_RDONLY},
    {01, O_WRONLY},
    {02, O_RDWR},
    {01102, O_RDWR | O_CREAT | O_TRUNC},
    {0302, O_RDWR | O_CREAT | O_EXCL},
    {02001, O_WRONLY | O_APPEND},
    {010001, O_WRONLY | O_DSYNC},
    {04010001, O_WRONLY | O_SYNC},
    {040002, O_RDWR | O_DIRECT},
    {0200000, O_DIRECTORY},
    {0400000, O_NOFOLLOW},
    {01000000, O_NOATIME},
    {020200002, O_TMPFILE | O_RDWR},
    {0100000, 0},  /* O_LARGEFILE */
    {02024000, 0}, /* O_CLOEXEC, FASYNC, O_NONBLOCK */
};

static void test_flags(void)
{
    for (size_t index = 0; index < sizeof flags / sizeof *flags; index++)
        tap_ok(replay_open_flags(flags[index].generic) == (flags[index].expected | O_LARGEFILE), "flags 0%" PRIo64,
               flags[index].generic);
}

/* -- results ------------------------------------------------------------------------------------------------------ */

#define UNKNOWN RECORD_NULL_INT64

static const struct {
    enum replay_call call;
    int failed;
    int64_t recorded, result;
    enum replay_divergence expected;
} results[] = {
    {CALL_READ, 0, 4096, 4096, DIVERGENCE_NONE},
    {CALL_READ, 0, 4096, 0, DIVERGENCE_BYTES},
    {CALL_READ, 0, 0, 4096, DIVERGENCE_BYTES},
    {CALL_READ, 0, 4096, -EIO, DIVERGENCE_FAILED},
    {CALL_READ, 0, UNKNOWN, 4096, DIVERGENCE_UNKNOWN},
    {CALL_READ, 0, UNKNOWN, -EIO, DIVERGENCE_FAILED},
    {CALL_READ, -1, UNKNOWN, 4096, DIVERGENCE_UNKNOWN},
    {CALL_READ, -1, UNKNOWN, -EIO, DIVERGENCE_UNKNOWN},
    {CALL_LSEEK, 0, 10, 11, DIVERGENCE_BYTES},
    {CALL_OPEN, 0, 0, 0, DIVERGENCE_NONE},
    {CALL_OPEN, 0, UNKNOWN, 0, DIVERGENCE_NONE},
    {CALL_OPEN, 1, -ENOENT, -ENOENT, DIVERGENCE_NONE},
    {CALL_OPEN, 1, -ENOENT, -EACCES, DIVERGENCE_ERROR},
    {CALL_OPEN, 1, -ENOENT, 0, DIVERGENCE_SUCCEEDED},
    {CALL_OPEN, 1, UNKNOWN, 0, DIVERGENCE_SUCCEEDED},
    {CALL_OPEN, 1, UNKNOWN, -ENOENT, DIVERGENCE_UNKNOWN},
    {CALL_OPEN, 0, 0, -EMFILE, DIVERGENCE_FAILED},
    {CALL_GETDENTS, 0, 120, 96, DIVERGENCE_NONE},
    {CALL_GETDENTS, 0, 120, -ENOTDIR, DIVERGENCE_FAILED},
};

static void test_results(void)
{
    for (size_t index = 0; index < sizeof results / sizeof *results; index++) {
        struct replay_operation operation = {
            .call = results[index].call, .failed = (int8_t)results[index].failed, .result = results[index].recorded};

        tap_ok(replay_compare(&operation, results[index].result) == results[index].expected,
               "%s: recorded %d %" PRId64 ", now %" PRId64 ": %s", replay_shapes[results[index].call].name,
               results[index].failed, results[index].recorded, results[index].result,
               replay_divergence_names[results[index].expected]);
    }
}

/* In sendfile and similar calls only sides that are files count. */
static void test_moved(void)
{
    struct replay_operation operation = {.call = CALL_SENDFILE, .descriptor = 1, .descriptor2 = 2};

    tap_ok(replay_moves(&operation) == MOVES_BOTH, "between files bytes are read and written");
    operation.descriptor2 = REPLAY_NONE;
    tap_ok(replay_moves(&operation) == MOVES_READ, "to a socket they are read");
    operation = (struct replay_operation){.call = CALL_SPLICE, .descriptor = REPLAY_NONE, .descriptor2 = 2};
    tap_ok(replay_moves(&operation) == MOVES_WRITTEN, "from a pipe they are written");
}

/* -- memory ------------------------------------------------------------------------------------------------------- */

/* With many threads the buffer is small, but no call needs more than IOV_MAX repetitions of it. */
static void test_buffer(void)
{
    struct replay_operation operation = {.call = CALL_PWRITE, .offset_bytes = 0, .bytes = 16 << 20};
    struct replay_program program = {.operations = &operation,
                                     .nr_operations = 1,
                                     .nr_threads = 1,
                                     .thread_operations = (uint32_t[]){0},
                                     .thread_first = (uint32_t[]){0, 1}};
    struct replay_buffer buffer;
    FILE *file = tmpfile();

    tap_ok(file && replay_buffer_open(&buffer, &program, 0, 4096) == 0 && buffer.capacity * IOV_MAX >= 16 << 20 &&
               buffer.capacity < 16 << 20,
           "a buffer that is smaller than a write, but not too small");
    replay_buffer_prepare(&buffer, &operation);
    tap_ok(replay_transfer(&buffer, &operation, fileno(file), true, 0) == 16 << 20, "it is written whole");
    operation = (struct replay_operation){.call = CALL_PWRITEV, .flags = 2 /* RWF_DSYNC */, .bytes = 10};
    lseek(fileno(file), 16 << 20, SEEK_SET);
    tap_ok(replay_transfer(&buffer, &operation, fileno(file), true, RECORD_NULL_INT64) == 10 &&
               lseek(fileno(file), 0, SEEK_END) == (16 << 20) + 10,
           "with flags, too, it is written at the position");
    replay_buffer_close(&buffer);
    fclose(file);
}

/* -- times and order ---------------------------------------------------------------------------------------------- */

/* Make a program of operations without effect: close of descriptors that are not open. Threads alternate, `step_ns`
 * apart. */
static struct replay_program make(uint32_t threads, uint32_t each, int64_t step_ns)
{
    uint32_t count = threads * each;
    struct replay_program program = {.nr_operations = count, .nr_threads = threads, .nr_descriptors = 1};

    program.operations = calloc(count, sizeof *program.operations);
    program.thread_operations = calloc(count, sizeof *program.thread_operations);
    program.thread_first = calloc(threads + 1, sizeof *program.thread_first);
    program.dependencies = calloc((size_t)count * 2, sizeof *program.dependencies);
    for (uint32_t number = 0; number < count; number++) {
        uint32_t thread = number % threads, index = number / threads;

        program.operations[number] = (struct replay_operation){.ts_ns = number * step_ns,
                                                               .thread = (int32_t)thread,
                                                               .index = index,
                                                               .call = CALL_CLOSE,
                                                               .path = REPLAY_NONE,
                                                               .path2 = REPLAY_NONE,
                                                               .failed = 1,
                                                               .result = -EBADF};
        program.thread_operations[thread * each + index] = number;
    }
    for (uint32_t thread = 0; thread <= threads; thread++)
        program.thread_first[thread] = thread * each;
    return program;
}

static void unmake(struct replay_program *program)
{
    free(program->operations);
    free(program->thread_operations);
    free(program->thread_first);
    free(program->dependencies);
}

static void depend(struct replay_program *program, uint32_t operation, uint32_t after)
{
    program->dependencies[program->nr_dependencies++] = (struct replay_dependency){operation, after};
}

static bool replay(struct replay_run *run, const struct replay_program *program)
{
    struct replay_place place = {0};
    bool right;

    run->program = program;
    right = replay_place_open(&place, program) == 0 && replay_run(run, &place, NULL) == 0;
    replay_place_close(&place);
    return right;
}

static bool in_order(const struct replay_run *run)
{
    const struct replay_program *program = run->program;

    for (uint32_t index = 0; index < program->nr_dependencies; index++) {
        const struct replay_outcome *before = replay_outcome(run, program->dependencies[index].after);

        if (replay_outcome(run, program->dependencies[index].operation)->start_ns <
            before->start_ns + before->latency_ns)
            return false;
    }
    return true;
}

static bool all_done(const struct replay_run *run)
{
    for (uint32_t thread = 0; thread < run->program->nr_threads; thread++)
        if (run->done[thread] != run->program->thread_first[thread + 1] - run->program->thread_first[thread])
            return false;
    return true;
}

static int by_after(const void *one, const void *other)
{
    uint32_t left = ((const struct replay_dependency *)one)->after,
             right = ((const struct replay_dependency *)other)->after;

    return (left > right) - (left < right);
}

/* Add up to two dependencies of each operation on earlier ones, some much earlier. */
static void depend_at_random(struct replay_program *program, struct rng *rng)
{
    for (uint32_t number = 1; number < program->nr_operations; number++)
        for (int choice = 0; choice < 2; choice++) {
            uint32_t near = number < 300 ? number : 300, after = number - 1 - (uint32_t)rng_below(rng, near);

            if (program->operations[after].thread != program->operations[number].thread)
                depend(program, number, after);
        }
    qsort(program->dependencies, program->nr_dependencies, sizeof *program->dependencies, by_after);
}

static void test_random_order(void)
{
    struct replay_program program = make(120, 60, 0);
    struct replay_run run = {.mode = REPLAY_AS_FAST};
    struct rng rng;

    rng_seed(&rng, 1, 0);
    depend_at_random(&program, &rng);
    tap_ok(replay(&run, &program) && all_done(&run) && in_order(&run) && !run.interrupted,
           "%" PRIu32 " operations of 120 threads keep %" PRIu32 " orders", program.nr_operations,
           program.nr_dependencies);
    replay_run_free(&run);
    unmake(&program);
}

/* Each operation depends on the previous one, which is done by another thread. */
static void test_chain(void)
{
    struct replay_program program = make(100, 50, 0);
    struct replay_run run = {.mode = REPLAY_AS_FAST};
    int64_t waited_ns = 0;

    for (uint32_t number = 1; number < program.nr_operations; number++)
        depend(&program, number, number - 1);
    tap_ok(replay(&run, &program) && all_done(&run) && in_order(&run), "a chain through 100 threads");
    for (uint32_t number = 0; number < program.nr_operations; number++)
        waited_ns += replay_outcome(&run, number)->waited_ns;
    tap_ok(waited_ns > 0 && replay_outcome(&run, 0)->waited_ns == 0, "what waited is told, and only that");
    replay_run_free(&run);
    unmake(&program);
}

static bool never_early(const struct replay_run *run)
{
    for (uint32_t number = 0; number < run->program->nr_operations; number++)
        if (replay_outcome(run, number)->start_ns < replay_due_ns(run, &run->program->operations[number]))
            return false;
    return true;
}

static void test_times(void)
{
    struct replay_program program = make(5, 20, MS / 2);
    struct replay_run run = {.mode = REPLAY_AS_RECORDED};
    struct replay_tally tally;

    tap_ok(replay(&run, &program) && all_done(&run) && never_early(&run), "nothing begins before it is due");
    tap_ok(run.duration_ns >= program.operations[99].ts_ns && run.ts_ns > 0 && run.realtime_ns > run.ts_ns,
           "the last one ends after it was due");
    replay_tally_make(&tally, &run);
    tap_ok(tally.done == 100 && tally.diverged == 0 && tally.divergences[DIVERGENCE_NONE] == 100,
           "what came of them is summed up");
    replay_run_free(&run);
    run = (struct replay_run){.mode = REPLAY_SCALED, .scale_ppm = 2500000};
    tap_ok(replay(&run, &program) && never_early(&run) && run.duration_ns >= program.operations[99].ts_ns * 2 / 5,
           "nor when it is scaled");
    replay_run_free(&run);
    unmake(&program);
}

static const struct {
    int64_t ts_ns, scale_ppm, expected_ns;
} scales[] = {
    {0, 2500000, 0},
    {1000000000, 2500000, 400000000},
    {1000000000, 500000, 2000000000},
    {7, 1000000, 7},
    {INT64_MAX, 1000000, INT64_C(36525) * 86400 * 1000000000},
    {INT64_MAX, 1000, INT64_C(36525) * 86400 * 1000000000},
    {INT64_C(3600000000000), INT64_C(1000000000000), 3600000},
};

static void test_scales(void)
{
    for (size_t index = 0; index < sizeof scales / sizeof *scales; index++) {
        struct replay_run run = {.mode = REPLAY_SCALED, .scale_ppm = scales[index].scale_ppm};
        struct replay_operation operation = {.ts_ns = scales[index].ts_ns};

        tap_ok(replay_due_ns(&run, &operation) == scales[index].expected_ns, "%" PRId64 " ns scaled by %" PRId64 " ppm",
               scales[index].ts_ns, scales[index].scale_ppm);
    }
}

/* The signal is pending before the threads start: they must not sleep an hour for operations they do not do. */
static void test_stop(void)
{
    struct replay_program program = make(20, 3, 3600 * 1000 * MS);
    struct replay_run run = {.mode = REPLAY_AS_RECORDED};

    depend(&program, 21, 2);
    kill(getpid(), SIGTERM);
    tap_ok(replay(&run, &program) && run.interrupted && !all_done(&run), "a signal ends a replay that sleeps");
    replay_run_free(&run);
    unmake(&program);
}

int main(void)
{
    replay_stop_prepare();
    test_flags();
    test_results();
    test_moved();
    test_buffer();
    test_scales();
    test_times();
    test_random_order();
    test_chain();
    test_stop();
    return tap_done();
}
