#include "extmap/extmap.h"

#include <ctype.h>

struct task_row {
    int64_t started_ns, listed_ns, oom_score_adj;
    int32_t pid, tid, uid;
    struct record_string comm, cmdline, package, serves;
};

static const struct record_field task_fields[] = {
    RECORD_FIELD(task_row, started_ns, true, "ns", "Start of the thread, to a clock tick."),
    RECORD_FIELD(task_row, listed_ns, false, "ns", "When this was read."),
    RECORD_FIELD(task_row, oom_score_adj, true, NULL,
                 "OOM score adjustment of the process; null except for its first thread."),
    RECORD_FIELD(task_row, pid, false, NULL, "Process (thread group)."),
    RECORD_FIELD(task_row, tid, false, NULL, "Thread."),
    RECORD_FIELD(task_row, uid, true, NULL, "User (the real one)."),
    RECORD_FIELD(task_row, comm, true, NULL, "Name of the thread."),
    RECORD_FIELD(task_row, cmdline, true, NULL,
                 "Command line of the process, its arguments separated by spaces; null for kernel threads."),
    RECORD_FIELD(task_row, package, true, NULL, "Android package, by packages.list."),
    RECORD_FIELD(task_row, serves, true, NULL, "Device through which the process performs I/O for other processes."),
};

const struct record_type task_type = RECORD_TYPE("task", "tasks", "A thread that was running.", task_fields);

enum { FLAGS = 9, START = 22 }; /* fields of /proc/PID/stat (Documentation/filesystems/proc.rst) */

/* Flags of a thread, the same since Linux 2.6.30 (include/linux/sched.h). */
#define PF_EXITING 0x4
#define PF_KTHREAD 0x200000

/* Return a number in a thread's stat file, or -1. `after_name` is the text after the name; field 3 follows it. */
static int64_t stat_number(const char *after_name, int wanted)
{
    const char *field = after_name;
    for (int number = 3; field && number < wanted; number++)
        field = strchr(field + 1, ' ');
    return field ? strtoll(field, NULL, 10) : -1;
}

/* Return the start of a thread in ns of CLOCK_RECORD. */
static int64_t start_time(const char *after_name)
{
    int64_t ticks = stat_number(after_name, START);
    return ticks < 0 ? RECORD_NULL_INT64 : ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

static int32_t real_user(const char *status)
{
    const char *found = strstr(status, "\nUid:");
    return found ? (int32_t)strtoul(found + strlen("\nUid:"), NULL, 10) : RECORD_NULL_INT32;
}

static int64_t oom_score_adj(const char *pid)
{
    char path[64], value[16];
    snprintf(path, sizeof path, "/proc/%.20s/oom_score_adj", pid);
    return procfs_read(path, value, sizeof value) > 0 ? strtol(value, NULL, 10) : RECORD_NULL_INT64;
}

/* Read the arguments of a process as one line. Returns its length, 0 if there are none. */
static size_t read_cmdline(const char *pid, char *buffer, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    long length = procfs_read(path, buffer, size);
    while (length > 0 && !buffer[length - 1])
        length--;
    for (long index = 0; index < length; index++)
        if (!buffer[index])
            buffer[index] = ' ';
    if (length >= 0)
        buffer[length] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Devices through which a process performs I/O for other processes: Linux fs/fuse/dev.c, fs/fuse/cuse.c,
 * drivers/block/ublk_drv.c (one device each), fs/cachefiles/daemon.c. */
static const char *const serving[] = {"/dev/fuse", "/dev/cuse", "/dev/ublkc", "/dev/cachefiles"};

/* Return the device of `serving` that the process has open, or NULL if there is none or it cannot be read. */
static const char *served_device(const char *pid)
{
    char path[64], target[32];
    const struct dirent *entry;
    const char *found = NULL;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *descriptors = opendir(path);
    if (!descriptors)
        return NULL;
    while (!found && (entry = readdir(descriptors))) {
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        for (size_t index = 0; index < sizeof serving / sizeof *serving; index++)
            if (!strncmp(target, serving[index], strlen(serving[index])))
                found = serving[index];
    }
    closedir(descriptors);
    return found;
}

struct process {
    const char *pid, *serves; /* `serves` is from `served_device` */
    char cmdline[RECORD_TEXT_BYTES];
    const struct packages *packages;
    /* Record its threads even while they exit. They have no command line and no open files, so that a listing of all
     * would state that they serve no other process. */
    bool may_exit;
};

static void read_process(struct process *process, const char *pid, const struct packages *packages)
{
    process->pid = pid;
    process->serves = served_device(pid);
    process->packages = packages;
    process->may_exit = false;
    if (!read_cmdline(pid, process->cmdline, sizeof process->cmdline))
        process->cmdline[0] = '\0';
}

static int record_task(struct record *out, const struct process *process, const char *tid)
{
    int64_t flags = 0;
    struct task_row row = {
        .started_ns = RECORD_NULL_INT64,
        .listed_ns = clock_now(CLOCK_RECORD),
        .pid = (int32_t)strtol(process->pid, NULL, 10),
        .tid = (int32_t)strtol(tid, NULL, 10),
        .uid = RECORD_NULL_INT32,
        .oom_score_adj = RECORD_NULL_INT64,
    };
    struct record_text texts[] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, record_text(process->serves)};
    char path[96], stat[1024], status[4096];
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/stat", process->pid, tid);
    if (procfs_read(path, stat, sizeof stat) <= 0)
        return 0; /* ended */
    const char *name = strchr(stat, '(');
    const char *name_end = strrchr(stat, ')');
    if (name && name_end && name < name_end) {
        texts[0] = (struct record_text){name + 1, (size_t)(name_end - name - 1)};
        row.started_ns = start_time(name_end + 1);
        flags = stat_number(name_end + 1, FLAGS);
    }
    if (flags > 0 && flags & PF_EXITING && !process->may_exit)
        return 0;
    if (!(flags & PF_KTHREAD))
        texts[1] = record_text(process->cmdline);
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/status", process->pid, tid);
    if (procfs_read(path, status, sizeof status) > 0)
        row.uid = real_user(status);
    if (row.tid == row.pid)
        row.oom_score_adj = oom_score_adj(process->pid);
    if (row.uid >= 0)
        texts[2] = record_text(packages_of(process->packages, (unsigned int)row.uid, texts[1].bytes));
    return record_add(out, &task_type, &row, texts);
}

static int record_process(struct record *out, const char *pid, const struct packages *packages)
{
    char path[64];
    struct process process;
    const struct dirent *entry;
    int failed = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *threads = opendir(path);
    if (!threads)
        return 0; /* ended */
    read_process(&process, pid, packages);
    while (!failed && (entry = readdir(threads)))
        if (isdigit((unsigned char)entry->d_name[0]))
            failed = record_task(out, &process, entry->d_name);
    closedir(threads);
    return failed;
}

int extmap_process(struct record *out, int32_t pid, const struct packages *packages)
{
    char number[16];
    struct process process;
    snprintf(number, sizeof number, "%d", (int)pid);
    read_process(&process, number, packages);
    process.may_exit = true;
    return record_task(out, &process, number);
}

int extmap_tasks(struct record *out)
{
    struct packages packages = {0};
    const struct dirent *entry;
    DIR *processes = opendir("/proc");
    int failed = 0;
    if (!processes)
        return print_error("/proc: cannot be listed (%s)", strerror(errno));
    /* Only Android has this file, and only root may read it. */
    packages_read(&packages, PACKAGES_LIST);
    while (!failed && (entry = readdir(processes)))
        if (isdigit((unsigned char)entry->d_name[0]))
            failed = record_process(out, entry->d_name, &packages);
    closedir(processes);
    packages_release(&packages);
    return failed ? -1 : record_flush(out);
}
