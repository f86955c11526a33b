#include "extmap/extmap.h"
#include "procmon/procmon.h"

enum {
    BUSY_NS = 1000000000, /* a process that worked is read at every tick for this long */
    LIST_NS = 1000000000, /* longest time between two listings of /proc */
    LIST_SHARE = 500,     /* listings more often than that use at most 1/LIST_SHARE of the time */
    MOST = 64,            /* processes read at a tick */
    IDLE_MOST = 16,       /* of which idle, while many are busy */
    NAME_BYTES = 64,
};

struct process {
    int32_t pid;
    bool denied, unreadable, ended;
    struct text stat, io;
    char name[NAME_BYTES];
};

/* A process in the order of process IDs, and the time until which it counts as busy. */
struct entry {
    struct process *process;
    int64_t busy_until_ns;
};

struct processes {
    int64_t interval_ns, list_ns;
    DIR *proc;
    struct entry *entries;
    size_t count, capacity;
    size_t next_busy, next_idle; /* index of the next process to read */
    struct packages packages;
    uint64_t denied, unreadable, late;
};

/* -- list of processes -------------------------------------------------------------------------------------------- */

struct processes *processes_open(int64_t interval_ns)
{
    struct processes *processes = zeroed(1, sizeof *processes);
    processes->interval_ns = interval_ns;
    /* Only Android has this file, and only root may read it. */
    packages_read(&processes->packages, PACKAGES_LIST);
    processes->proc = opendir("/proc");
    if (!processes->proc)
        print_note("/proc: cannot be listed (%s); no processes are sampled", strerror(errno));
    return processes;
}

static struct process *new_process(int32_t pid)
{
    struct process *process = zeroed(1, sizeof *process);
    process->pid = pid;
    process->stat = text_of(format("/proc/%d/stat", (int)pid));
    process->io = text_of(format("/proc/%d/io", (int)pid));
    return process;
}

/* Write the last reading of a process and free it. */
static void drop(struct output *out, struct process *process)
{
    text_end(out, &process->stat);
    text_end(out, &process->io);
    free(process);
}

/* Return the next process in /proc; 0: the end. */
static int32_t next_listed(DIR *proc)
{
    const struct dirent *entry;
    while ((entry = readdir(proc)))
        if (*entry->d_name >= '1' && *entry->d_name <= '9')
            return (int32_t)strtol(entry->d_name, NULL, 10);
    return 0;
}

static void keep(struct processes *processes, struct entry entry)
{
    if (processes->count == processes->capacity) {
        processes->capacity = processes->capacity ? 2 * processes->capacity : 256;
        processes->entries = grow(processes->entries, processes->capacity, sizeof *processes->entries);
    }
    processes->entries[processes->count++] = entry;
}

/* Add new processes and drop ended ones. Both lists are in the order of process IDs. New processes count as busy,
 * except in the first listing. */
static void list(struct processes *processes, struct output *out, struct tick *tick)
{
    struct entry *old = processes->entries, *before = old, *end = old + processes->count;
    int64_t busy_until_ns = old ? clock_now(CLOCK_RECORD) + BUSY_NS : 0;
    int32_t pid;
    processes->entries = NULL;
    processes->count = processes->capacity = 0;
    rewinddir(processes->proc);
    do {
        pid = next_listed(processes->proc);
        for (; before < end && (!pid || before->process->pid < pid || before->process->ended); before++, tick->ended++)
            drop(out, before->process);
        if (before < end && before->process->pid == pid) {
            keep(processes, *before++);
        } else if (pid) {
            keep(processes, (struct entry){new_process(pid), busy_until_ns});
            tick->began++;
        }
    } while (pid);
    free(old);
}

/* -- reading one process ------------------------------------------------------------------------------------------- */

/* Copy the name of a process. The kernel appends the current work to the name of a kworker (wq_worker_comm); this
 * changes all the time and is cut off. */
static bool name_of(struct span stat, char name[NAME_BYTES])
{
    static const char worker[] = "kworker/", rescuer[] = "kworker/R-";
    const char *open = memchr(stat.at, '(', (size_t)(stat.end - stat.at));
    const char *close = memrchr(stat.at, ')', (size_t)(stat.end - stat.at));
    if (!open || !close || close < open || close - open > NAME_BYTES)
        return false;
    snprintf(name, NAME_BYTES, "%.*s", (int)(close - open - 1), open + 1);
    if (!strncmp(name, worker, strlen(worker)) && strncmp(name, rescuer, strlen(rescuer)) != 0)
        name[strcspn(name, "+-")] = '\0';
    return true;
}

/* Read the counters of a process. If its name has changed, as after exec, record its task again and write both texts
 * whole: the counters until then belong to the old name. */
static bool read_stat(struct processes *processes, struct output *out, struct process *process, bool *renamed)
{
    int64_t ts_ns = clock_now(CLOCK_RECORD);
    char name[NAME_BYTES];
    struct span now;
    bool is_read = text_load(out, &process->stat, &now);
    process->ended = !is_read && (errno == ENOENT || errno == ESRCH);
    if (process->ended)
        return false;
    if (!is_read || !name_of(now, name)) {
        /* There are no descriptors or memory left, or /proc is mounted with hidepid. */
        processes->unreadable += !process->unreadable;
        process->unreadable = true;
        return false;
    }
    *renamed = !process->stat.number || strcmp(process->name, name) != 0;
    if (*renamed)
        out->failed |= extmap_process(out->record, process->pid, &processes->packages) < 0;
    memcpy(process->name, name, NAME_BYTES);
    return text_take(out, &process->stat, ts_ns, now, *renamed);
}

static bool read_io(struct processes *processes, struct output *out, struct process *process, bool renamed)
{
    int64_t ts_ns = clock_now(CLOCK_RECORD);
    struct span now;
    if (process->denied || process->ended || !process->stat.number)
        return false;
    if (text_load(out, &process->io, &now))
        return text_take(out, &process->io, ts_ns, now, renamed);
    process->denied = errno == EACCES || errno == EPERM;
    processes->denied += process->denied;
    return false;
}

static void read_process(struct processes *processes, struct output *out, struct entry *entry, struct tick *tick)
{
    bool renamed = false, worked = !entry->process->ended && read_stat(processes, out, entry->process, &renamed);
    worked |= read_io(processes, out, entry->process, renamed);
    if (worked)
        entry->busy_until_ns = clock_now(CLOCK_RECORD) + BUSY_NS;
    tick->processes++;
}

/* -- reading all processes ----------------------------------------------------------------------------------------- */

static void read_all(struct processes *processes, struct output *out, struct tick *tick)
{
    for (size_t index = 0; index < processes->count; index++)
        read_process(processes, out, &processes->entries[index], tick);
}

/* Read at most `most` busy processes. The remaining ones are first at the next tick. */
static void read_busy(struct processes *processes, struct output *out, int64_t now_ns, int64_t most, struct tick *tick)
{
    size_t first = processes->next_busy;
    for (size_t step = 0; step < processes->count; step++) {
        size_t index = (first + step) % processes->count;
        struct entry *entry = &processes->entries[index];
        if (entry->busy_until_ns <= now_ns)
            continue;
        if (most-- > 0) {
            read_process(processes, out, entry, tick);
            processes->next_busy = index + 1;
        } else {
            entry->busy_until_ns = now_ns + BUSY_NS;
            processes->late++;
        }
    }
}

/* Read at most `most` idle processes, round-robin. */
static void read_idle(struct processes *processes, struct output *out, int64_t now_ns, int64_t most, struct tick *tick)
{
    for (size_t step = 0; step < processes->count && most > 0; step++) {
        struct entry *entry = &processes->entries[processes->next_idle++ % processes->count];
        if (entry->busy_until_ns > now_ns)
            continue;
        read_process(processes, out, entry, tick);
        most--;
    }
}

/* Read the busy processes, and enough idle ones that each is read once a second. */
static void read_some(struct processes *processes, struct output *out, struct tick *tick)
{
    int64_t now_ns = clock_now(CLOCK_RECORD), most = MOST, second_ns = SECOND_NS;
    int64_t each_ns = processes->interval_ns < second_ns ? processes->interval_ns : second_ns;
    int64_t idle = (int64_t)processes->count * each_ns / second_ns + 1;
    int64_t kept = idle < IDLE_MOST ? idle : IDLE_MOST;
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
        /* Measured in CPU time: on a busy machine, new processes must not stay undetected for longer. */
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
        drop(out, processes->entries[index].process);
    if (processes->denied)
        record_lose(out->record, "denied", "processes without permission to read their I/O", processes->denied);
    if (processes->unreadable)
        record_lose(out->record, "unreadable_process", "processes that could not be read temporarily or at all",
                    processes->unreadable);
    if (processes->late)
        record_lose(out->record, "late", "readings of busy processes that were delayed: more than 64 at once",
                    processes->late);
    packages_release(&processes->packages);
    if (processes->proc)
        closedir(processes->proc);
    free(processes->entries);
    free(processes);
}
