/* Names of the ways of making writes durable. */
#define _GNU_SOURCE
#include "iobench/modes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/tests/tap.h"

#define RANGE_ALL (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static const struct {
    const char *name;
    enum file_engine engine;
    int open_flags;
    bool dsync;
    enum file_after after;
    unsigned range_flags;
} named[] = {
    {"buffered", ENGINE_PSYNC, 0, false, AFTER_NONE, 0},
    {"osync", ENGINE_PSYNC, O_SYNC, false, AFTER_NONE, 0},
    {"fsync", ENGINE_PSYNC, 0, false, AFTER_FSYNC, 0},
    {"direct", ENGINE_PSYNC, O_DIRECT, false, AFTER_NONE, 0},
    {"direct_osync", ENGINE_PSYNC, O_SYNC | O_DIRECT, false, AFTER_NONE, 0},
    {"mmap", ENGINE_MMAP, 0, false, AFTER_NONE, 0},
    {"mmap_async", ENGINE_MMAP, 0, false, AFTER_MSYNC_ASYNC, 0},
    {"mmap_sync", ENGINE_MMAP, 0, false, AFTER_MSYNC_SYNC, 0},
    {"fdatasync", ENGINE_PSYNC, 0, false, AFTER_FDATASYNC, 0},
    {"fbarrier", ENGINE_PSYNC, 0, false, AFTER_FBARRIER, 0},
    {"fdatabarrier", ENGINE_PSYNC, 0, false, AFTER_FDATABARRIER, 0},
    {"odsync", ENGINE_PSYNC, O_DSYNC, false, AFTER_NONE, 0},
    {"sync_file_range", ENGINE_PSYNC, 0, false, AFTER_RANGE, RANGE_ALL},
    {"rwf_dsync", ENGINE_PSYNC, 0, true, AFTER_NONE, 0},
};

static const struct {
    struct file_mode mode;
    const char *name;
} put_together[] = {
    {{ENGINE_URING, 0, 0, AFTER_NONE, 0}, "io_uring+buffered"},
    {{ENGINE_URING, O_DIRECT, 0, AFTER_NONE, 0}, "io_uring+direct"},
    {{ENGINE_URING, O_DIRECT, 0, AFTER_FDATASYNC, 0}, "io_uring+direct+fdatasync"},
    {{ENGINE_PSYNC, O_DIRECT, 0, AFTER_FSYNC, 0}, "direct+fsync"},
    {{ENGINE_PSYNC, O_DIRECT | O_DSYNC, 0, AFTER_NONE, 0}, "direct+odsync"},
    {{ENGINE_PSYNC, O_SYNC, 0, AFTER_FSYNC, 0}, "osync+fsync"},
    {{ENGINE_PSYNC, 0, 0, AFTER_RANGE, SYNC_FILE_RANGE_WRITE}, "sync_file_range+write"},
    {{ENGINE_PSYNC, O_DIRECT, 0, AFTER_RANGE, RANGE_ALL}, "direct+sync_file_range"},
};

static void test_named(void)
{
    for (size_t index = 0; index < sizeof named / sizeof *named; index++) {
        struct file_mode mode = {0};
        char name[64];
        bool found = mode_by_name(named[index].name, &mode);

        tap_ok(found && mode.engine == named[index].engine && mode.open_flags == named[index].open_flags &&
                   (mode.write_flags != 0) == named[index].dsync && mode.after == named[index].after &&
                   mode.range_flags == named[index].range_flags,
               "%s is what it says", named[index].name);
        mode_name(&mode, name);
        tap_ok(!strcmp(name, named[index].name), "%s is named %s", named[index].name, name);
    }
}

static void test_put_together(void)
{
    for (size_t index = 0; index < sizeof put_together / sizeof *put_together; index++) {
        char name[64];

        mode_name(&put_together[index].mode, name);
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
