#include <glob.h>

#include "procmon/procmon.h"

/* Files are searched again because CPUs and disks come and go. */
#define SEARCH_NS (10 * SECOND_NS)

#define TICK   0
#define SECOND SECOND_NS
#define MINUTE (60 * SECOND_NS)

/* The files to read (glob(7)), and how often. */
static const struct pattern {
    enum group group;
    int64_t period_ns;
    const char *paths;
} patterns[] = {
    {GROUP_CPU, TICK, "/proc/stat"},
    {GROUP_MEMORY, TICK, "/proc/meminfo"},
    {GROUP_MEMORY, TICK, "/proc/vmstat"},
    {GROUP_DISK, TICK, "/proc/diskstats"},
    {GROUP_NET, TICK, "/proc/net/dev"},
    {GROUP_PRESSURE, TICK, "/proc/pressure/cpu"},
    {GROUP_PRESSURE, TICK, "/proc/pressure/io"},
    {GROUP_PRESSURE, TICK, "/proc/pressure/memory"},
    {GROUP_FREQUENCY, SECOND / 10, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"},
    {GROUP_THERMAL, MINUTE, "/sys/class/thermal/thermal_zone*/type"},
    {GROUP_THERMAL, SECOND, "/sys/class/thermal/thermal_zone*/temp"},
    {GROUP_FILESYSTEM, MINUTE, "/sys/class/block/*/dev"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/dirty_segments"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/free_segments"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/lifetime_write_kbytes"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/gc_foreground_calls"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/gc_background_calls"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/moved_blocks_foreground"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/moved_blocks_background"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/cp_foreground_calls"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/cp_background_calls"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/avg_vblocks"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/f2fs/*/unusable"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/ext4/*/lifetime_write_kbytes"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/ext4/*/session_write_kbytes"},
    {GROUP_FILESYSTEM, SECOND, "/sys/fs/ext4/*/delayed_allocation_blocks"},
    /* Each of these is a query to the device, so they are read rarely. */
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/health_descriptor/eol_info"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/health_descriptor/life_time_estimation_[ab]"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/attributes/wb_avail_buf"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/attributes/wb_cur_buf"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/attributes/wb_life_time_est"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/attributes/wb_flush_status"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/platform/drivers/*ufs*/*/flags/wb_enable"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/mmc/devices/*/pre_eol_info"},
    {GROUP_HEALTH, MINUTE, "/sys/bus/mmc/devices/*/life_time"},
};

struct file {
    struct text text;
    const struct pattern *of;
    int64_t due_ns;
    bool failed;
};

struct files {
    const bool *groups;
    struct file *list;
    size_t count;
    int64_t search_ns;
    uint64_t unreadable;
};

struct files *files_open(const bool groups[GROUPS])
{
    struct files *files = zeroed(1, sizeof *files);
    files->groups = groups;
    return files;
}

static bool is_known(const struct files *files, const char *path)
{
    size_t index = 0;
    while (index < files->count && strcmp(files->list[index].text.path, path))
        index++;
    return index < files->count;
}

static void search_pattern(struct files *files, const struct pattern *pattern)
{
    glob_t matched;
    if (glob(pattern->paths, 0, NULL, &matched) != 0)
        return;
    for (size_t index = 0; index < matched.gl_pathc; index++) {
        if (is_known(files, matched.gl_pathv[index]))
            continue;
        files->list = grow(files->list, files->count + 1, sizeof *files->list);
        files->list[files->count++] =
            (struct file){.text = text_of(format("%s", matched.gl_pathv[index])), .of = pattern};
    }
    globfree(&matched);
}

/* A file that cannot be read is tried again, because it may return. */
static void read_file(struct files *files, struct file *file, struct output *out)
{
    int64_t ts_ns = clock_now(CLOCK_RECORD);
    struct span now;
    if (text_load(out, &file->text, &now)) {
        text_take(out, &file->text, ts_ns, now, false);
    } else {
        files->unreadable += !file->failed;
        file->failed = true;
    }
}

void files_read(struct files *files, struct output *out, bool all)
{
    int64_t now_ns = clock_now(CLOCK_RECORD);
    if (now_ns >= files->search_ns) {
        for (size_t index = 0; index < sizeof patterns / sizeof *patterns; index++)
            if (files->groups[patterns[index].group])
                search_pattern(files, &patterns[index]);
        files->search_ns = now_ns + SEARCH_NS;
    }
    for (size_t index = 0; index < files->count; index++) {
        struct file *file = &files->list[index];
        if (!all && now_ns < file->due_ns)
            continue;
        read_file(files, file, out);
        file->due_ns = now_ns + file->of->period_ns;
    }
}

void files_close(struct files *files, struct output *out)
{
    for (size_t index = 0; index < files->count; index++)
        text_end(out, &files->list[index].text);
    if (files->unreadable)
        record_lose(out->record, "unreadable", "files of /proc and /sys could not be read", files->unreadable);
    free(files->list);
    free(files);
}
