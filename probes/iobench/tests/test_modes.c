/* Names of the modes of durable writes. tests/bench/test_iobench_modes.py tests what they do. */
#include "iobench/modes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/tests/tap.h"

#define RANGE_ALL (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static const struct bench_engine psync = {.name = "psync"}, uring = {.name = "io_uring", .mode_word = "io_uring"};

static const char *const named[] = {"buffered",     "osync",      "fsync",           "direct",    "direct_osync",
                                    "mmap",         "mmap_async", "mmap_sync",       "fdatasync", "fbarrier",
                                    "fdatabarrier", "odsync",     "sync_file_range", "rwf_dsync"};

static const struct {
    const struct bench_engine *engine;
    struct file_mode mode;
    const char *name;
} put_together[] = {
    {&uring, {false, 0, 0, AFTER_NONE, 0}, "io_uring+buffered"},
    {&uring, {false, O_DIRECT, 0, AFTER_NONE, 0}, "io_uring+direct"},
    {&uring, {false, O_DIRECT, 0, AFTER_FDATASYNC, 0}, "io_uring+direct+fdatasync"},
    {&psync, {false, O_DIRECT, 0, AFTER_FSYNC, 0}, "direct+fsync"},
    {&psync, {false, O_DIRECT | O_DSYNC, 0, AFTER_NONE, 0}, "direct+odsync"},
    {&psync, {false, O_SYNC, 0, AFTER_FSYNC, 0}, "osync+fsync"},
    {&psync, {false, 0, 0, AFTER_RANGE, SYNC_FILE_RANGE_WRITE}, "sync_file_range+write"},
    {&psync, {false, O_DIRECT, 0, AFTER_RANGE, RANGE_ALL}, "direct+sync_file_range"},
};

static void test_named(void)
{
    for (size_t index = 0; index < sizeof named / sizeof *named; index++) {
        struct file_mode mode = {0};
        char name[64] = "";

        if (mode_by_name(named[index], &mode))
            mode_name(&mode, &psync, name);
        tap_ok(!strcmp(name, named[index]), "%s is named %s", named[index], name);
    }
}

static void test_put_together(void)
{
    for (size_t index = 0; index < sizeof put_together / sizeof *put_together; index++) {
        char name[64];

        mode_name(&put_together[index].mode, put_together[index].engine, name);
        tap_ok(!strcmp(name, put_together[index].name), "%s is named %s", put_together[index].name, name);
    }
}

int main(void)
{
    struct file_mode mode = {.after = AFTER_FSYNC};

    test_named();
    test_put_together();
    tap_ok(!mode_by_name("sync", &mode) && !mode_by_name("", &mode) && mode.after == AFTER_FSYNC,
           "an unknown name is refused and changes nothing");
    return tap_done();
}
