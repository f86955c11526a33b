/* Flags, results and due times of operations in a replay. tests/replay/test_ioreplay.py tests whole replays. */
#include "ioreplay/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/tests/tap.h"
#include "ioreplay/flags.h"
#include "ioreplay/results.h"
#include "ioreplay/shapes.h"
#include "ioreplay/transfer.h"

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

/* -- times --------------------------------------------------------------------------------------------------------- */

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

int main(void)
{
    test_flags();
    test_results();
    test_buffer();
    test_scales();
    return tap_done();
}
