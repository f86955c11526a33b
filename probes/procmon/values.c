#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/files.h"
#include "common/topology.h"
#include "procmon/procmon.h"

/* Files are looked for again: CPUs and disks come and go. */
#define SEARCH_NS    (10 * SECOND_NS)
#define VALUES_MOST  4096
#define NUMBERS_MOST 2

/* Files in the directories that `directories` (glob(7)) matches. */
struct pattern {
    enum group group;
    const char *directories, *file, *name, *scope, *unit;
    int64_t period_ns;
    const char *fields[NUMBERS_MOST]; /* what the numbers in it are called; NULL: the only one, as the file */
};

#define F2FS(file, unit)                                                                                               \
    {                                                                                                                  \
        GROUP_FILESYSTEM, "/sys/fs/f2fs/*", file, "f2fs", "device", unit, SECOND_NS,                                   \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }
#define EXT4(file, unit)                                                                                               \
    {                                                                                                                  \
        GROUP_FILESYSTEM, "/sys/fs/ext4/*", file, "ext4", "device", unit, SECOND_NS,                                   \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }
/* Each is a query to the device, which must not be asked often. */
#define UFS(directory, file)                                                                                           \
    {                                                                                                                  \
        GROUP_HEALTH, "/sys/bus/platform/drivers/*ufs*/*/" directory, file, "ufs", "system", "code", 60 * SECOND_NS,   \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }

static const struct pattern patterns[] = {
    {GROUP_FREQUENCY,
     "/sys/devices/system/cpu/cpu[0-9]*/cpufreq",
     "scaling_cur_freq",
     "cpufreq",
     "cpu",
     "kHz",
     SECOND_NS / 10,
     {NULL}},
    {GROUP_THERMAL, "/sys/class/thermal/thermal_zone*", "temp", "thermal", "system", "m°C", SECOND_NS, {NULL}},
    F2FS("dirty_segments", "segments"),
    F2FS("free_segments", "segments"),
    F2FS("lifetime_write_kbytes", "kB"),
    F2FS("gc_foreground_calls", "count"),
    F2FS("gc_background_calls", "count"),
    F2FS("moved_blocks_foreground", "blocks"),
    F2FS("moved_blocks_background", "blocks"),
    F2FS("cp_foreground_calls", "count"),
    F2FS("cp_background_calls", "count"),
    F2FS("avg_vblocks", "blocks"),
    F2FS("unusable", "blocks"),
    EXT4("lifetime_write_kbytes", "kB"),
    EXT4("session_write_kbytes", "kB"),
    EXT4("delayed_allocation_blocks", "blocks"),
    UFS("health_descriptor", "eol_info"),
    UFS("health_descriptor", "life_time_estimation_a"),
    UFS("health_descriptor", "life_time_estimation_b"),
    UFS("attributes", "wb_avail_buf"),
    UFS("attributes", "wb_cur_buf"),
    UFS("attributes", "wb_life_time_est"),
    UFS("attributes", "wb_flush_status"),
    UFS("flags", "wb_enable"),
    {GROUP_HEALTH, "/sys/bus/mmc/devices/*", "pre_eol_info", "mmc", "system", "code", 60 * SECOND_NS, {NULL}},
    {GROUP_HEALTH,
     "/sys/bus/mmc/devices/*",
     "life_time",
     "mmc",
     "system",
     "code",
     60 * SECOND_NS,
     {"life_time_a", "life_time_b"}},
};

#define NR_PATTERNS (sizeof patterns / sizeof *patterns)

struct value {
    const struct pattern *of;
    char *path, *instance;
    int file; /* -1: gone, or it cannot be read */
    bool failed;
    int64_t due_ns;
    struct about about;
    struct series series[NUMBERS_MOST];
};

struct values {
    const char *root;
    const bool *groups;
    struct value *list;
    size_t count;
    int64_t search_ns;
    uint64_t unreadable, crowded;
};

/* -- finding them -------------------------------------------------------------------------------------------------- */

/* The last part of a path. */
static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* What stands for the directory `path`, for the caller to free: cpu7 is CPU 7, and a zone has a type. */
static char *instance_of(const struct pattern *pattern, const char *path)
{
    char *above = strndup(path, (size_t)(name_of(path) - 1 - path)), *name = NULL, *type = NULL;

    if (!above)
        exit(-complain("no memory left"));
    if (pattern->group == GROUP_FREQUENCY) {
        name = format("%s", name_of(above) + strlen("cpu"));
    } else if (pattern->group == GROUP_THERMAL) {
        char *file = format("%s/type", path);

        type = file_line(AT_FDCWD, file);
        name = format("%s%s%s", name_of(path), type ? " " : "", type ? type : "");
        free(file);
    } else {
        bool is_part = pattern->group == GROUP_HEALTH && !strncmp(pattern->name, "ufs", 3);

        name = format("%s", is_part ? name_of(above) : name_of(path));
    }
    free(type);
    free(above);
    return name;
}

/* The device that the kernel calls `disk`, as filesystems call their directories in sysfs; 0: there is none. */
static uint32_t device_called(const char *root, const char *disk)
{
    char *path = format("%s/sys/class/block/%s/dev", root, disk), *line = file_line(AT_FDCWD, path);
    unsigned int major, minor;
    uint32_t dev = line && sscanf(line, "%u:%u", &major, &minor) == 2 ? KERNEL_DEV(major, minor) : 0;

    free(line);
    free(path);
    return dev;
}

static struct value *find(struct values *values, const char *path)
{
    for (size_t index = 0; index < values->count; index++)
        if (!strcmp(values->list[index].path, path))
            return &values->list[index];
    return NULL;
}

static void add(struct values *values, const struct pattern *pattern, const char *directory)
{
    char *path = format("%s/%s", directory, pattern->file);
    struct value *value = find(values, path);

    if (value && value->file < 0) {
        value->file = open(path, O_RDONLY | O_CLOEXEC);
    } else if (!value && values->count < VALUES_MOST) {
        int file = open(path, O_RDONLY | O_CLOEXEC);

        if (file >= 0 || errno != ENOENT) {
            values->list = grow(values->list, values->count + 1, sizeof *values->list);
            value = &values->list[values->count++];
            *value = (struct value){.of = pattern, .path = path, .file = file};
            value->instance = instance_of(pattern, directory);
            value->about = (struct about){.scope = pattern->scope, .file = pattern->name, .unit = pattern->unit};
            value->about.instance = (struct span){value->instance, value->instance + strlen(value->instance)};
            value->about.pid = RECORD_NULL_INT32;
            if (pattern->group == GROUP_FILESYSTEM)
                value->about.dev = device_called(values->root, value->instance);
            values->unreadable += value->failed = file < 0;
            return;
        }
    } else if (!value) {
        values->crowded++;
    }
    free(path);
}

static void search(struct values *values)
{
    for (size_t index = 0; index < NR_PATTERNS; index++) {
        char *directories =
            values->groups[patterns[index].group] ? format("%s%s", values->root, patterns[index].directories) : NULL;
        glob_t found;

        if (directories && glob(directories, 0, NULL, &found) == 0) {
            for (size_t number = 0; number < found.gl_pathc; number++)
                add(values, &patterns[index], found.gl_pathv[number]);
            globfree(&found);
        }
        free(directories);
    }
}

struct values *values_open(const char *root, const bool groups[GROUPS])
{
    struct values *values = zeroed(1, sizeof *values);

    values->root = root;
    values->groups = groups;
    return values;
}

/* -- reading them -------------------------------------------------------------------------------------------------- */

static struct about about_number(const struct value *value, size_t index)
{
    struct about about = value->about;
    const char *field = value->of->fields[index] ? value->of->fields[index] : value->of->file;

    about.field = (struct span){field, field + strlen(field)};
    return about;
}

static void end_value(struct value *value, struct output *out)
{
    for (size_t index = 0; index < NUMBERS_MOST; index++) {
        struct about about = about_number(value, index);

        series_end(out, &value->series[index], &about);
    }
}

static void read_value(struct values *values, struct value *value, struct output *out)
{
    char text[256];
    int64_t ts_ns = clock_now(CLOCK_RECORD), number;
    ssize_t length = pread(value->file, text, sizeof text, 0);
    struct span rest = {text, text + (length > 0 ? length : 0)};

    if (length < 0) {
        end_value(value, out);
        close(value->file);
        value->file = -1;
        values->unreadable += !value->failed;
        value->failed = true;
    }
    for (size_t index = 0; index < NUMBERS_MOST; index++) {
        if ((index && !value->of->fields[index]) || !text_number(&rest, &number))
            return;
        struct about about = about_number(value, index);

        series_read(out, &value->series[index], &about, ts_ns, number);
    }
}

void values_read(struct values *values, struct output *out, bool all)
{
    int64_t now_ns = clock_now(CLOCK_RECORD);

    if (now_ns >= values->search_ns) {
        search(values);
        values->search_ns = now_ns + SEARCH_NS;
    }
    for (size_t index = 0; index < values->count; index++) {
        struct value *value = &values->list[index];

        if (value->file < 0 || (!all && now_ns < value->due_ns))
            continue;
        read_value(values, value, out);
        value->due_ns = now_ns + value->of->period_ns;
    }
}

void values_close(struct values *values, struct output *out)
{
    for (size_t index = 0; index < values->count; index++) {
        struct value *value = &values->list[index];

        end_value(value, out);
        if (value->file >= 0)
            close(value->file);
        free(value->path);
        free(value->instance);
    }
    if (values->unreadable)
        record_lose(out->record, "unreadable_value", "files of /sys could not be read", values->unreadable);
    if (values->crowded)
        record_lose(out->record, "crowded_values", "files of /sys beyond 4,096 were not sampled", values->crowded);
    free(values->list);
    free(values);
}
