/* Names of the modes of durable writes. */
#define _GNU_SOURCE
#include "iobench/modes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/tests/tap.h"

#define RANGE_ALL (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static const struct bench_engine psync = {.name = "psync"}, uring = {.name = "io_uring", .mode_word = "io_uring"};

static const struct {
    const char *name;
    bool mapped;
    int open_flags;
    bool dsync;
    enum file_after after;
    unsigned range_flags;
} named[] = {
    {"buffered", false, 0, false, AFTER_NONE, 0},
    {"osync", false, O_SYNC, false, AFTER_NONE, 0},
    {"fsync", false, 0, false, AFTER_FSYNC, 0},
    {"direct", false, O_DIRECT, false, AFTER_NONE, 0},
    {"direct_osync", false, O_SYNC | O_DIRECT, false, AFTER_NONE, 0},
    {"mmap", true, 0, false, AFTER_NONE, 0},
    {"mmap_async", true, 0, false, AFTER_MSYNC_ASYNC, 0},
    {"mmap_sync", true, 0, false, AFTER_MSYNC_SYNC, 0},
    {"fdatasync", false, 0, false, AFTER_FDATASYNC, 0},
    {"fbarrier", false, 0, false, AFTER_FBARRIER, 0},
    {"fdatabarrier", false, 0, false, AFTER_FDATABARRIER, 0},
    {"odsync", false, O_DSYNC, false, AFTER_NONE, 0},
    {"sync_file_range", false, 0, false, AFTER_RANGE, RANGE_ALL},
    {"rwf_dsync", false, 0, true, AFTER_NONE, 0},
};

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
        char name[64];
        bool found = mode_by_name(named[index].name, &mode);

        tap_ok(found && mode.mapped == named[index].mapped && mode.open_flags == named[index].open_flags &&
                   (mode.write_flags != 0) == named[index].dsync && mode.after == named[index].after &&
                   mode.range_flags == named[index].range_flags,
               "%s is what it says", named[index].name);
        mode_name(&mode, &psync, name);
        tap_ok(!strcmp(name, named[index].name), "%s is named %s", named[index].name, name);
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
