#include "iobench/bench.h"

#include <sys/uio.h>

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif

#define RANGE_ALL (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static const struct {
    const char *name;
    struct file_mode mode;
} modes[] = {
    {"buffered", {false, 0, 0, AFTER_NONE, 0}},
    {"osync", {false, O_SYNC, 0, AFTER_NONE, 0}},
    {"fsync", {false, 0, 0, AFTER_FSYNC, 0}},
    {"direct", {false, O_DIRECT, 0, AFTER_NONE, 0}},
    {"direct_osync", {false, O_SYNC | O_DIRECT, 0, AFTER_NONE, 0}},
    {"mmap", {true, 0, 0, AFTER_NONE, 0}},
    {"mmap_async", {true, 0, 0, AFTER_MSYNC_ASYNC, 0}},
    {"mmap_sync", {true, 0, 0, AFTER_MSYNC_SYNC, 0}},
    {"fdatasync", {false, 0, 0, AFTER_FDATASYNC, 0}},
    {"fbarrier", {false, 0, 0, AFTER_FBARRIER, 0}},
    {"fdatabarrier", {false, 0, 0, AFTER_FDATABARRIER, 0}},
    {"odsync", {false, O_DSYNC, 0, AFTER_NONE, 0}},
    {"sync_file_range", {false, 0, 0, AFTER_RANGE, RANGE_ALL}},
    {"rwf_dsync", {false, 0, RWF_DSYNC, AFTER_NONE, 0}},
};
#define NR_MODES (int)(sizeof modes / sizeof *modes)

const struct mode_range_flag mode_range_flags[MODE_RANGE_FLAGS] = {
    {"wait_before", SYNC_FILE_RANGE_WAIT_BEFORE},
    {"write", SYNC_FILE_RANGE_WRITE},
    {"wait_after", SYNC_FILE_RANGE_WAIT_AFTER},
};

static int find(const struct file_mode *mode)
{
    for (int index = 0; index < NR_MODES; index++) {
        const struct file_mode *known = &modes[index].mode;
        if (known->mapped == mode->mapped && known->open_flags == mode->open_flags &&
            known->write_flags == mode->write_flags && known->after == mode->after &&
            known->range_flags == mode->range_flags)
            return index;
    }
    return -1;
}

bool mode_by_name(const char *name, struct file_mode *mode)
{
    for (int index = 0; index < NR_MODES; index++)
        if (!strcmp(modes[index].name, name)) {
            *mode = modes[index].mode;
            return true;
        }
    return false;
}

static void add_word(char name[MODE_NAME], const char *word)
{
    size_t length = strlen(name);
    snprintf(name + length, MODE_NAME - length, "%s%s", length ? "+" : "", word);
}

static void add_range(char name[MODE_NAME], unsigned flags)
{
    add_word(name, "sync_file_range");
    if (flags == RANGE_ALL)
        return;
    for (int index = 0; index < MODE_RANGE_FLAGS; index++)
        if (flags & mode_range_flags[index].flag)
            add_word(name, mode_range_flags[index].word);
}

static void add_after(char name[MODE_NAME], const struct file_mode *mode)
{
    bool of_mapping = mode->after == AFTER_MSYNC_ASYNC || mode->after == AFTER_MSYNC_SYNC;
    struct file_mode alone = {.mapped = of_mapping, .after = mode->after};
    if (mode->after == AFTER_NONE)
        return;
    if (mode->after == AFTER_RANGE)
        add_range(name, mode->range_flags);
    else
        add_word(name, modes[find(&alone)].name);
}

void mode_name(const struct file_mode *mode, const struct bench_engine *engine, char name[MODE_NAME])
{
    int known = find(mode);
    *name = '\0';
    if (engine->mode_word)
        add_word(name, engine->mode_word);
    if (known >= 0) {
        add_word(name, modes[known].name);
        return;
    }
    if (mode->open_flags & O_DIRECT)
        add_word(name, "direct");
    if ((mode->open_flags & O_SYNC) == O_SYNC)
        add_word(name, "osync");
    else if (mode->open_flags & O_DSYNC)
        add_word(name, "odsync");
    if (mode->write_flags & RWF_DSYNC)
        add_word(name, "rwf_dsync");
    add_after(name, mode);
}
