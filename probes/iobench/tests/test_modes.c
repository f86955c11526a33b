/* Names and numbers of the ways of making writes durable. */
#define _GNU_SOURCE
#include "iobench/modes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/tests/tap.h"

#define RANGE_ALL (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static const struct {
    const char *name;
    int mobibench; /* -1: it had none */
    enum file_engine engine;
    int open_flags;
    bool dsync;
    enum file_after after;
    unsigned range_flags;
} named[] = {
    {"buffered", 0, ENGINE_PSYNC, 0, false, AFTER_NONE, 0},
    {"osync", 1, ENGINE_PSYNC, O_SYNC, false, AFTER_NONE, 0},
    {"fsync", 2, ENGINE_PSYNC, 0, false, AFTER_FSYNC, 0},
    {"direct", 3, ENGINE_PSYNC, O_DIRECT, false, AFTER_NONE, 0},
    {"direct_osync", 4, ENGINE_PSYNC, O_SYNC | O_DIRECT, false, AFTER_NONE, 0},
    {"mmap", 5, ENGINE_MMAP, 0, false, AFTER_NONE, 0},
    {"mmap_async", 6, ENGINE_MMAP, 0, false, AFTER_MSYNC_ASYNC, 0},
    {"mmap_sync", 7, ENGINE_MMAP, 0, false, AFTER_MSYNC_SYNC, 0},
    {"fdatasync", 8, ENGINE_PSYNC, 0, false, AFTER_FDATASYNC, 0},
    {"fbarrier", 9, ENGINE_PSYNC, 0, false, AFTER_FBARRIER, 0},
    {"fdatabarrier", 10, ENGINE_PSYNC, 0, false, AFTER_FDATABARRIER, 0},
    {"odsync", -1, ENGINE_PSYNC, O_DSYNC, false, AFTER_NONE, 0},
    {"sync_file_range", -1, ENGINE_PSYNC, 0, false, AFTER_RANGE, RANGE_ALL},
    {"rwf_dsync", -1, ENGINE_PSYNC, 0, true, AFTER_NONE, 0},
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
        tap_ok(mode_mobibench(&mode) == named[index].mobibench, "%s is Mobibench's %d", name, mode_mobibench(&mode));
    }
}

static void test_numbers(void)
{
    for (int number = -1; number <= 11; number++) {
        struct file_mode mode = {0};
        bool found = mode_by_mobibench(number, &mode);

        tap_ok(found == (number >= 0 && number <= 10), "-y %d is %s", number, found ? "there" : "refused");
        if (found)
            tap_ok(mode_mobibench(&mode) == number, "-y %d is found again", number);
    }
}

static void test_put_together(void)
{
    for (size_t index = 0; index < sizeof put_together / sizeof *put_together; index++) {
        char name[64];

        mode_name(&put_together[index].mode, name);
        tap_ok(!strcmp(name, put_together[index].name), "%s is named %s", put_together[index].name, name);
        tap_ok(mode_mobibench(&put_together[index].mode) == -1, "Mobibench had no %s", name);
    }
}

int main(void)
{
    struct file_mode mode = {.after = AFTER_FSYNC};

    test_named();
    test_numbers();
    test_put_together();
    tap_ok(!mode_by_name("sync", &mode) && !mode_by_name("", &mode) && mode.after == AFTER_FSYNC,
           "an unknown name is refused and changes nothing");
    return tap_done();
}
