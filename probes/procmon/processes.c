#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/files.h"
#include "common/procfs.h"
#include "extmap/extmap.h"
#include "extmap/packages.h"
#include "procmon/procmon.h"

enum {
    BUSY_NS = 1000000000, /* so long a process that did something is read at every tick */
    LIST_NS = 1000000000, /* /proc is listed this often at least */
    LIST_SHARE = 500,     /* and more often for at most one part in so many of the time */
    FILES_SHARE = 4,      /* one part in so many of the descriptors is not for processes */
    FILES_MOST = 1 << 20, /* kept open */
    IDLE_SHARE = 4,       /* one part in so many of --most is for processes that do not work, where others crowd it */
    NAME_BYTES = 64,
    TEXT_BYTES = 4096,
};

/* -- what is read of a process ------------------------------------------------------------------------------------- */

struct counter {
    const char *file, *field, *unit;
    bool grows; /* from 0 when the process begins */
};

enum { USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, IO_WAIT, MAJOR_FAULTS, RESIDENT, THREADS, FIRST_IO };

static const struct counter counters[] = {
    [USER] = {"stat", "utime", "ns", true},
    [SYSTEM] = {"stat", "stime", "ns", true},
    [CHILDREN_USER] = {"stat", "cutime", "ns", true},
    [CHILDREN_SYSTEM] = {"stat", "cstime", "ns", true},
    [IO_WAIT] = {"stat", "delayacct_blkio_ticks", "ns", true},
    [MAJOR_FAULTS] = {"stat", "majflt", "count", true},
    [RESIDENT] = {"stat", "rss", "B", false},
    [THREADS] = {"stat", "num_threads", "count", false},
    [FIRST_IO] = {"io", "rchar", "B", true},
    {"io", "wchar", "B", true},
    {"io", "syscr", "count", true},
    {"io", "syscw", "count", true},
    {"io", "read_bytes", "B", true},
    {"io", "write_bytes", "B", true},
    {"io", "cancelled_write_bytes", "B", true},
};

enum { COUNTERS = sizeof counters / sizeof *counters, IO_COUNTERS = COUNTERS - FIRST_IO };

struct process {
    int32_t pid;
    bool chosen, denied, unreadable, fresh, ended;
    int stat, io;    /* -1: opened for each reading */
    int64_t started; /* ticks of the clock since boot */
    char name[NAME_BYTES];
    size_t name_length;
    struct series series[COUNTERS];
};

/* A process in the order of numbers, and when it was last seen to work. */
struct turn {
    struct process *process;
    int64_t busy_until_ns;
};

struct processes {
    const struct asked *asked;
    int64_t interval_ns, began_ns, list_ns;
    DIR *proc;
    struct turn *turns;
    size_t count, room;
    size_t next_busy, next_idle; /* whose turn it is */
    int files_left;
    struct packages packages;
    uint64_t denied, unreadable, late;
};

/* -- which there are ----------------------------------------------------------------------------------------------- */

struct processes *processes_open(const struct asked *asked, int64_t interval_ns)
{
    struct processes *processes = zeroed(1, sizeof *processes);
    struct rlimit limit;

    processes->asked = asked;
    processes->interval_ns = interval_ns;
    processes->began_ns = clock_now(CLOCK_RECORD);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        const rlim_t before = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            limit.rlim_cur = before;
        if (limit.rlim_cur > FILES_MOST)
            limit.rlim_cur = FILES_MOST;
        processes->files_left = (int)(limit.rlim_cur - limit.rlim_cur / FILES_SHARE);
    }
    /* Only Android has it, and only root may read it. */
    packages_read(&processes->packages, PACKAGES_LIST);
    processes->proc = opendir("/proc");
    if (!processes->proc)
        complain("/proc: cannot be listed (%s); no processes are sampled", strerror(errno));
    return processes;
}

static int open_of(int32_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static struct process *new_process(int32_t pid)
{
    struct process *process = zeroed(1, sizeof *process);

    process->pid = pid;
    process->stat = process->io = -1;
    process->fresh = true;
    return process;
}

static struct about about_counter(const struct process *process, size_t index)
{
    const struct counter *counter = &counters[index];

    return (struct about){
        .scope = "process",
        .file = counter->file,
        .field = {counter->field, counter->field + strlen(counter->field)},
        .unit = counter->unit,
        .instance = {process->name, process->name + process->name_length},
        .pid = process->pid,
        .from_zero = true,
    };
}

static void end_series(struct output *out, struct process *process)
{
    for (size_t index = 0; index < COUNTERS; index++) {
        struct about about = about_counter(process, index);

        series_end(out, &process->series[index], &about);
    }
}

/* Writes what is known of a process for the last time. */
static void drop(struct processes *processes, struct output *out, struct process *process)
{
    int files[] = {process->stat, process->io};

    end_series(out, process);
    for (size_t index = 0; index < 2; index++)
        if (files[index] >= 0) {
            close(files[index]);
            processes->files_left++;
        }
    free(process);
}

/* The next process that /proc lists; 0: there is none. */
static int32_t next_listed(DIR *proc)
{
    const struct dirent *entry;

    while ((entry = readdir(proc)))
        if (*entry->d_name >= '1' && *entry->d_name <= '9')
            return (int32_t)strtol(entry->d_name, NULL, 10);
    return 0;
}

static void keep(struct processes *processes, struct turn turn)
{
    if (processes->count == processes->room) {
        processes->room = processes->room ? 2 * processes->room : 256;
        processes->turns = grow(processes->turns, processes->room, sizeof *processes->turns);
    }
    processes->turns[processes->count++] = turn;
}

/* Adds those that are new, and drops those that have ended. Both are in the order of their numbers. One that is new
 * works, but for those that were there before. */
static void list(struct processes *processes, struct output *out, struct tick *tick)
{
    struct turn *old = processes->turns, *before = old, *end = old + processes->count;
    int64_t busy_until_ns = old ? clock_now(CLOCK_RECORD) + BUSY_NS : 0;
    int32_t pid;

    processes->turns = NULL;
    processes->count = processes->room = 0;
    rewinddir(processes->proc);
    do {
        pid = next_listed(processes->proc);
        for (; before < end && (!pid || before->process->pid < pid || before->process->ended); before++, tick->ended++)
            drop(processes, out, before->process);
        if (before < end && before->process->pid == pid) {
            keep(processes, *before++);
        } else if (pid) {
            keep(processes, (struct turn){new_process(pid), busy_until_ns});
            tick->began++;
        }
    } while (pid);
    free(old);
}

/* -- reading one --------------------------------------------------------------------------------------------------- */

/* Reads a file of a process, which is kept open where that may be. Returns false with errno set. */
static bool read_file(struct processes *processes, const struct process *process, int *kept, const char *name,
                      char bytes[TEXT_BYTES], struct span *text)
{
    int file = *kept >= 0 ? *kept : open_of(process->pid, name), error;
    ssize_t length = file < 0 ? -1 : pread(file, bytes, TEXT_BYTES, 0);

    error = length ? errno : ESRCH;
    if (*kept < 0 && length > 0 && processes->files_left > 0) {
        *kept = file;
        processes->files_left--;
    } else if (file >= 0 && file != *kept) {
        close(file);
    }
    *text = (struct span){bytes, bytes + (length > 0 ? length : 0)};
    errno = error;
    return length > 0;
}

static bool is_called(const struct process *process, const char *command, const char *asked)
{
    const char *slash = strrchr(command, '/');
    char pid[16];

    snprintf(pid, sizeof pid, "%d", (int)process->pid);
    return !strcmp(asked, pid) || !strcmp(asked, process->name) || !strcmp(asked, command) ||
           (slash && !strcmp(asked, slash + 1));
}

/* Whether a process is one of those asked for. */
static bool is_chosen(const struct asked *asked, const struct process *process)
{
    char path[64], command[1024];

    if (!asked->processes.count && !asked->users.count)
        return true;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process->pid);
    if (procfs_read(path, command, sizeof command) < 0)
        *command = '\0';
    for (size_t index = 0; index < asked->processes.count; index++)
        if (is_called(process, command, asked->processes.items[index]))
            return true;
    for (size_t index = 0; index < asked->users.count; index++)
        if (extmap_user(process->pid) == strtol(asked->users.items[index], NULL, 10))
            return true;
    return false;
}

/* What a process is called. The kernel writes behind the name of a worker what it works on, which changes all the time
 * (wq_worker_comm). */
static struct span name_of(struct span told)
{
    static const char worker[] = "kworker/", rescuer[] = "kworker/R-";
    struct span name = told;

    if (span_length(name) >= NAME_BYTES)
        name.end = name.at + NAME_BYTES - 1;
    if (span_begins(name, worker) && !span_begins(name, rescuer))
        for (const char *at = name.at; at < name.end; at++)
            if (*at == '+' || *at == '-')
                name.end = at;
    return name;
}

/* Begins anew where a process has another name, as after exec: what it did until then was done under the old one. */
static void rename_process(struct processes *processes, struct output *out, struct process *process, struct span name)
{
    process->name_length = span_length(name);
    memcpy(process->name, name.at, process->name_length);
    process->name[process->name_length] = '\0';
    process->chosen = is_chosen(processes->asked, process);
    if (!process->chosen)
        return;
    out->failed |= extmap_process(out->record, process->pid, &processes->packages) < 0;
    for (size_t index = 0; index < COUNTERS; index++) {
        struct series *series = &process->series[index];
        struct about about = about_counter(process, index);

        *series = (struct series){.known = false, .ts_ns = series->ts_ns, .value = series->value};
        if (series->ts_ns)
            series_read(out, series, &about, series->ts_ns, series->value);
    }
}

/* Takes the readings of one moment. Returns whether the process has worked since the last. */
static bool take(struct output *out, struct process *process, int64_t ts_ns, const int64_t *values, size_t first,
                 size_t count)
{
    bool worked = false;

    for (size_t index = first; index < first + count; index++) {
        struct about about = about_counter(process, index);
        struct series *series = &process->series[index];

        worked |= counters[index].grows && series->known && series->value != values[index - first];
        series_read(out, series, &about, ts_ns, values[index - first]);
    }
    return worked;
}

/* A process that began while others were sampled had used nothing then. */
static void begin_at_zero(const struct processes *processes, struct output *out, struct process *process)
{
    int64_t began_ns = process->started * (SECOND_NS / sysconf(_SC_CLK_TCK));

    if (began_ns < processes->began_ns)
        return;
    for (size_t index = 0; index < COUNTERS; index++) {
        struct about about = about_counter(process, index);

        if (counters[index].grows)
            series_read(out, &process->series[index], &about, began_ns, 0);
    }
}

/* Reads the stat file of a process, and whether that has ended: its number may be that of another now. */
static bool take_stat(struct processes *processes, struct process *process, char bytes[TEXT_BYTES],
                      struct text_stat *stat)
{
    struct span text;
    bool is_there =
        read_file(processes, process, &process->stat, "stat", bytes, &text) || (errno != ENOENT && errno != ESRCH);
    bool is_read = is_there && text_stat(text, stat);

    process->ended = !is_there || (is_read && process->started && process->started != stat->started);
    /* No descriptors or memory left, or /proc is mounted so that those of others cannot be read. */
    processes->unreadable += is_there && !is_read && !process->unreadable;
    process->unreadable |= is_there && !is_read;
    return is_read && !process->ended;
}

static bool read_stat(struct processes *processes, struct output *out, struct process *process, bool *worked)
{
    char bytes[TEXT_BYTES];
    int64_t ts_ns = clock_now(CLOCK_RECORD), tick_ns = SECOND_NS / sysconf(_SC_CLK_TCK);
    struct text_stat stat;

    if (!take_stat(processes, process, bytes, &stat))
        return false;
    const int64_t values[FIRST_IO] = {
        [USER] = stat.user * tick_ns,
        [SYSTEM] = stat.system * tick_ns,
        [CHILDREN_USER] = stat.children_user * tick_ns,
        [CHILDREN_SYSTEM] = stat.children_system * tick_ns,
        [IO_WAIT] = stat.io_wait * tick_ns,
        [MAJOR_FAULTS] = stat.major_faults,
        [RESIDENT] = stat.resident * sysconf(_SC_PAGESIZE),
        [THREADS] = stat.threads,
    };
    struct span name = name_of(stat.name);
    bool renamed = process->name_length != span_length(name) || memcmp(process->name, name.at, span_length(name)) != 0;

    process->started = stat.started;
    if (renamed && process->chosen) {
        take(out, process, ts_ns, values, 0, FIRST_IO);
        end_series(out, process);
    }
    if (renamed)
        rename_process(processes, out, process, name);
    if (process->chosen && process->fresh)
        begin_at_zero(processes, out, process);
    process->fresh = false;
    if (!process->chosen)
        return false;
    *worked |= take(out, process, ts_ns, values, 0, FIRST_IO);
    return true;
}

static void read_io(struct processes *processes, struct output *out, struct process *process, bool *worked)
{
    char bytes[TEXT_BYTES];
    int64_t ts_ns = clock_now(CLOCK_RECORD), values[IO_COUNTERS];
    struct span text, line, word;
    size_t index = 0;

    if (process->denied)
        return;
    if (!read_file(processes, process, &process->io, "io", bytes, &text)) {
        process->denied = errno == EACCES || errno == EPERM;
        processes->denied += process->denied;
        return;
    }
    while (index < IO_COUNTERS && text_line(&text, &line) && text_word(&line, &word) &&
           text_number(&line, &values[index]))
        index++;
    if (index == IO_COUNTERS)
        *worked |= take(out, process, ts_ns, values, FIRST_IO, IO_COUNTERS);
}

static void read_process(struct processes *processes, struct output *out, struct turn *turn, struct tick *tick)
{
    bool worked = false;

    if (!turn->process->ended && read_stat(processes, out, turn->process, &worked))
        read_io(processes, out, turn->process, &worked);
    if (worked || (turn->process->chosen && processes->asked->processes.count))
        turn->busy_until_ns = clock_now(CLOCK_RECORD) + BUSY_NS;
    tick->processes++;
}

/* -- reading them -------------------------------------------------------------------------------------------------- */

static void read_all(struct processes *processes, struct output *out, struct tick *tick)
{
    for (size_t index = 0; index < processes->count; index++)
        read_process(processes, out, &processes->turns[index], tick);
}

/* Reads at most so many of those that work. The others have the first turns at the next tick. */
static void read_busy(struct processes *processes, struct output *out, int64_t now_ns, int64_t most, struct tick *tick)
{
    size_t first = processes->next_busy;

    for (size_t step = 0; step < processes->count; step++) {
        size_t index = (first + step) % processes->count;
        struct turn *turn = &processes->turns[index];

        if (turn->busy_until_ns <= now_ns)
            continue;
        if (most-- > 0) {
            read_process(processes, out, turn, tick);
            processes->next_busy = index + 1;
        } else {
            turn->busy_until_ns = now_ns + BUSY_NS;
            processes->late++;
        }
    }
}

/* Reads at most so many of those that do not work, one after the other. */
static void read_idle(struct processes *processes, struct output *out, int64_t now_ns, int64_t most, struct tick *tick)
{
    for (size_t step = 0; step < processes->count && most > 0; step++) {
        struct turn *turn = &processes->turns[processes->next_idle++ % processes->count];

        if (turn->busy_until_ns > now_ns)
            continue;
        read_process(processes, out, turn, tick);
        most--;
    }
}

/* Those that work, and so many of the others that each has its turn once a second. */
static void read_some(struct processes *processes, struct output *out, struct tick *tick)
{
    int64_t now_ns = clock_now(CLOCK_RECORD), most = processes->asked->most, second_ns = SECOND_NS;
    int64_t each_ns = processes->interval_ns < second_ns ? processes->interval_ns : second_ns;
    int64_t idle = (int64_t)processes->count * each_ns / second_ns + 1;
    int64_t kept = idle < most / IDLE_SHARE ? idle : most / IDLE_SHARE;

    read_busy(processes, out, now_ns, most - kept, tick);
    most -= tick->processes;
    read_idle(processes, out, now_ns, idle < most ? idle : most, tick);
}

void processes_read(struct processes *processes, struct output *out, bool all, struct tick *tick)
{
    int64_t now_ns = clock_now(CLOCK_RECORD);

    if (!processes->proc)
        return;
    if (all || now_ns >= processes->list_ns) {
        /* By the time on a CPU: where others have it, processes that are new must not stay unseen for that. */
        int64_t began_ns = clock_now(CLOCK_PROCESS_CPUTIME_ID), wait_ns;

        list(processes, out, tick);
        wait_ns = LIST_SHARE * (clock_now(CLOCK_PROCESS_CPUTIME_ID) - began_ns);
        processes->list_ns = now_ns + (wait_ns < LIST_NS ? wait_ns : LIST_NS);
    }
    if (all)
        read_all(processes, out, tick);
    else
        read_some(processes, out, tick);
}

void processes_close(struct processes *processes, struct output *out)
{
    for (size_t index = 0; index < processes->count; index++)
        drop(processes, out, processes->turns[index].process);
    if (processes->denied)
        record_lose(out->record, "denied", "processes whose I/O may not be read", processes->denied);
    if (processes->unreadable)
        record_lose(out->record, "unreadable_process", "processes could not be read for a time, or at all",
                    processes->unreadable);
    if (processes->late)
        record_lose(out->record, "late", "readings of processes that worked were put off: more than --most at once",
                    processes->late);
    packages_release(&processes->packages);
    if (processes->proc)
        closedir(processes->proc);
    free(processes->turns);
    free(processes);
}
