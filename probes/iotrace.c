#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "comms.h"
#include "complain.h"
#include "drain.h"
#include "dynprobes.h"
#include "extmap.h"
#include "opts.h"
#include "presets.h"
#include "record.h"
#include "recording.h"
#include "topology.h"
#include "tracedat.h"
#include "tracefs.h"

#define UNFINISHED "unfinished" /* directory in DIR that holds the parts of a recording until it is packed */

enum { DRAIN_MS = 100, MS_NS = 1000000 };

static const struct record_type *const listing_types[] = {EXTMAP_TYPES};
static const struct record_probe listing_probe = {"iotrace", listing_types,
                                                  sizeof listing_types / sizeof *listing_types};

struct command {
    const char *output, *preset, *clock, *finish;
    struct opt_list devices, lists;
    int64_t seconds, megabytes, buffer_kb;
    bool same_device, cleanup, describe, help;
};

struct session {
    const struct command *command;
    char *const *words; /* the command to run */
    struct topology topology;
    struct selection selection;
    struct instance instance;
    struct drain drain;
    struct comms comms;
    const char **listed;
    dev_t *listed_devs; /* of the filesystems mounted there when the recording began */
    size_t nr_listed;
    char trace_clock[32];
    int dir, parts; /* DIR and DIR/unfinished */
    sigset_t signals, before;
    pid_t child; /* the command while it runs, else 0 */
    int status;  /* of the command, as waitpid has it */
    bool ran;
    int64_t began_ns;
};

enum end { END_NONE, END_CHILD, END_TIME, END_SIZE, END_SIGNAL, END_ERROR };

static const char *const end_names[] = {NULL, "command", "time", "size", "signal", "error"};

/* -- what to trace ------------------------------------------------------------------------------------------------ */

static int trace_argument(struct topology *topology, const char *argument)
{
    kernel_dev dev;
    if (topology_resolve(argument, &dev) < 0)
        return -1;
    if (topology_trace(topology, dev) < 0)
        return complain("%s: no block device %u:%u in /sys/dev/block; give a device or a path on one", argument,
                        DEV_MAJOR(dev), DEV_MINOR(dev));
    return 0;
}

static int choose_devices(struct session *session)
{
    const struct opt_list *devices = &session->command->devices;
    struct topology *topology = &session->topology;
    if (topology_read(topology) < 0)
        return -1;
    for (size_t i = 0; i < devices->count; i++)
        if (trace_argument(topology, devices->items[i]) < 0)
            return -1;
    for (size_t i = 0; !devices->count && i < topology->nr_mounts; i++)
        topology_trace(topology, topology->mounts[i].dev);
    for (size_t i = 0; i < topology->nr_devices; i++)
        if (topology->devices[i].traced)
            return 0;
    return complain("no filesystem of a block device is mounted; name what to trace with --device");
}

static dev_t device_of(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 ? 0 : status.st_dev;
}

static void list_mount(struct session *session, const char *path)
{
    session->listed = grow(session->listed, session->nr_listed + 1, sizeof *session->listed);
    session->listed_devs = grow(session->listed_devs, session->nr_listed + 1, sizeof *session->listed_devs);
    session->listed_devs[session->nr_listed] = device_of(path);
    session->listed[session->nr_listed++] = path;
}

static bool mounted_before(const struct topology *topology, size_t mount)
{
    for (size_t i = 0; i < mount; i++)
        if (topology->mounts[i].dev == topology->mounts[mount].dev && topology->mounts[i].whole)
            return true;
    return false;
}

static void choose_listed(struct session *session)
{
    const struct opt_list *lists = &session->command->lists;
    const struct topology *topology = &session->topology;
    if (strcmp(session->command->preset, "block") == 0 && !lists->count)
        return;
    for (size_t i = 0; i < lists->count; i++)
        if (strcmp(lists->items[i], "none") != 0)
            list_mount(session, lists->items[i]);
    for (size_t i = 0; !lists->count && i < topology->nr_mounts; i++) {
        const struct mounted *mount = &topology->mounts[i];
        if (mount->whole && topology_traces(topology, mount->dev) && !mounted_before(topology, i))
            list_mount(session, mount->path);
    }
}

/* -- where to write ----------------------------------------------------------------------------------------------- */

static int open_output(struct session *session)
{
    const char *path = session->command->output;
    struct stat status;
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return complain("%s: %s; the directory to record into cannot be made", path, strerror(errno));
    session->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (session->dir < 0 || fstat(session->dir, &status) < 0)
        return complain("%s: %s", path, strerror(errno));
    if (!session->command->same_device &&
        topology_traces(&session->topology, KERNEL_DEV(major(status.st_dev), minor(status.st_dev))))
        return complain(
            "%s lies on a traced device, where writing would be traced, too; record elsewhere (tmpfs), name "
            "other devices with --device, or say --allow-same-device",
            path);
    if (faccessat(session->dir, "trace.dat", F_OK, 0) == 0)
        return complain("%s: holds a recording already; give a new directory", path);
    if (mkdirat(session->dir, UNFINISHED, 0777) < 0)
        return errno == EEXIST ? complain("%s: holds a recording that was not ended; put it together with iotrace "
                                          "--finish, or give a new directory",
                                          path)
                               : complain("%s/" UNFINISHED ": %s", path, strerror(errno));
    session->parts = openat(session->dir, UNFINISHED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return session->parts < 0 ? complain("%s/" UNFINISHED ": %s", path, strerror(errno)) : 0;
}

/* A path that leads to `name` in directory `dir` whatever that is called. */
static char *path_in(int dir, const char *name)
{
    return format("/proc/self/fd/%d/%s", dir, name);
}

static int save(int dir, const char *name, const char *data, size_t size)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int result = fd < 0 ? -1 : write_all(fd, data, size);
    if (result < 0)
        complain("%s: %s; it cannot be written", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return result;
}

static int save_recording(int dir, const struct contents *begin, const struct outcome *outcome)
{
    struct contents text;
    FILE *out = open_memstream(&text.data, &text.size);
    if (!out)
        return complain("no memory left");
    fwrite(begin->data, 1, begin->size, out);
    recording_outcome(out, outcome);
    fclose(out);
    int result = save(dir, "recording.json.new", text.data, text.size);
    free(text.data);
    if (result == 0 && renameat(dir, "recording.json.new", dir, "recording.json") < 0)
        result = complain("recording.json: %s", strerror(errno));
    return result;
}

/* -- start -------------------------------------------------------------------------------------------------------- */

static int set_clock(struct session *session)
{
    const char *wanted[] = {session->command->clock ? session->command->clock : "mono", "mono", "boot", "global"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (file_command(session->instance.dir, "trace_clock", wanted[i], 0) == 0)
            break;
    struct contents clock;
    if (file_read(session->instance.dir, "trace_clock", &clock) < 0)
        return complain("tracefs: trace_clock: %s", strerror(errno));
    trace_clock_name(clock.data, session->trace_clock, sizeof session->trace_clock);
    int result = save(session->parts, "clock", clock.data, clock.size);
    free(clock.data);
    if (session->command->clock && strcmp(session->command->clock, session->trace_clock) != 0)
        complain("this kernel has no trace clock %s; %s is used", session->command->clock, session->trace_clock);
    return result;
}

static int set_buffer(struct session *session)
{
    char *size = format("%" PRId64, session->command->buffer_kb);
    int result = file_command(session->instance.dir, "buffer_size_kb", size, 0);
    if (result < 0)
        complain("tracefs: %s KiB of buffer for each of %u CPUs: %s; give less with --buffer", size,
                 session->instance.nr_cpus, strerror(errno));
    free(size);
    /* Only then does the kernel note in the pages how many events it had to overwrite. */
    if (result == 0 && file_command(session->instance.dir, "trace_options", "overwrite", 0) < 0)
        result = complain("tracefs: option overwrite: %s", strerror(errno));
    return result;
}

static int save_system(struct session *session)
{
    struct utsname name;
    uname(&name);
    char *text = format("%s %s %s %s", name.sysname, name.nodename, name.release, name.machine);
    int result = save(session->parts, "uname", text, strlen(text));
    free(text);
    return result < 0 ? -1 : save(session->parts, "instance", session->instance.name, strlen(session->instance.name));
}

static int save_head(struct session *session)
{
    struct contents text = comms_text(&session->comms);
    int result = tracedat_head(session->parts, session->instance.tracefs, session->selection.events,
                               session->selection.nr_events, &text);
    free(text.data);
    return result;
}

static int save_begin(struct session *session)
{
    struct contents begin;
    struct recording recording = {
        .topology = &session->topology,
        .selection = &session->selection,
        .preset = session->command->preset,
        .trace_clock = session->trace_clock,
        .instance = session->instance.name,
        .buffer_kb = session->command->buffer_kb,
        .command = session->words,
        .listed = session->listed,
        .nr_listed = session->nr_listed,
    };
    FILE *out = open_memstream(&begin.data, &begin.size);
    if (!out)
        return complain("no memory left");
    recording_begin(out, &recording);
    fclose(out);
    int result = save(session->parts, "recording", begin.data, begin.size);
    if (result == 0)
        result = save_recording(session->dir, &begin, NULL);
    free(begin.data);
    return result;
}

static int enable_events(struct session *session)
{
    struct selection *selection = &session->selection;
    for (size_t i = 0; i < selection->nr_events; i++)
        if (instance_enable(&session->instance, &selection->events[i]) < 0)
            return complain("tracefs: event %s/%s: %s", selection->events[i].system, selection->events[i].name,
                            strerror(errno));
    return 0;
}

static int page_bytes(int tracefs, size_t *bytes)
{
    struct contents header;
    struct page_layout layout;
    if (file_read(tracefs, "events/header_page", &header) < 0 || page_layout_parse(header.data, &layout) < 0)
        return complain("tracefs/events/header_page cannot be read");
    free(header.data);
    *bytes = layout.bytes;
    return 0;
}

static int prepare(struct session *session)
{
    const struct needs needs = {&session->topology, session->nr_listed > 0, session->command->same_device};
    size_t bytes;
    selection_make(&session->selection, session->instance.tracefs, preset_parse(session->command->preset), &needs);
    if (strcmp(session->command->preset, "block") != 0)
        dynprobes_define(session->instance.tracefs, &session->topology, &session->selection);
    if (set_clock(session) < 0 || set_buffer(session) < 0 || save_system(session) < 0)
        return -1;
    comms_add_running(&session->comms);
    if (enable_events(session) < 0 || save_head(session) < 0 || save_begin(session) < 0)
        return -1;
    return page_bytes(session->instance.tracefs, &bytes) < 0
               ? -1
               : drain_open(&session->drain, &session->instance, session->parts, bytes);
}

/* -- while it runs ------------------------------------------------------------------------------------------------ */

struct limits {
    int64_t deadline_ns; /* CLOCK_RECORD */
    uint64_t bytes;
};

static const struct limits no_limits = {INT64_MAX, UINT64_MAX};

static void show_progress(const struct session *session)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%.1f s, %.1f MB ", (double)(clock_now(CLOCK_RECORD) - session->began_ns) / 1e9,
                (double)session->drain.written / 1e6);
}

/* Waits for a signal, for at most DRAIN_MS and not beyond the deadline. */
static int wait_signal(const struct session *session, int64_t deadline_ns)
{
    int64_t rest = deadline_ns - clock_now(CLOCK_RECORD), most = (int64_t)DRAIN_MS * MS_NS;
    struct timespec wait = {0, (long)(rest < 0 ? 0 : rest < most ? rest : most)};
    return sigtimedwait(&session->signals, NULL, &wait);
}

/* Drains the buffers until `child` ends (unless 0), a limit is reached or a signal comes. */
static enum end pump(struct session *session, pid_t child, int *status, const struct limits *limits)
{
    for (;;) {
        int64_t most = drain_pages(&session->drain);
        if (most < 0)
            return END_ERROR;
        if (child && waitpid(child, status, WNOHANG) == child)
            return END_CHILD;
        if (session->drain.written >= limits->bytes)
            return END_SIZE;
        if (clock_now(CLOCK_RECORD) >= limits->deadline_ns)
            return END_TIME;
        show_progress(session);
        /* A buffer that fills by a quarter in one round may be full before the next. */
        bool hurry = most > session->command->buffer_kb * 1024 / 4;
        int signal = wait_signal(session, hurry ? 0 : limits->deadline_ns);
        if (signal > 0 && signal != SIGCHLD)
            return END_SIGNAL;
    }
}

static void child_begins(const struct session *session)
{
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &session->before, NULL);
}

static void sync_mount(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    syncfs(fd);
    close(fd);
}

/* Unmounted meanwhile, the path leads into another filesystem, whose files are none of ours. */
static bool is_mounted(const struct session *session, size_t listed)
{
    return device_of(session->listed[listed]) == session->listed_devs[listed];
}

static int list_files(const struct session *session, const char *name)
{
    char *path = path_in(session->dir, name);
    struct record *out = record_open(path, &listing_probe);
    int result = out ? extmap_tasks(out) : -1;
    for (size_t i = 0; out && result == 0 && i < session->nr_listed; i++)
        if (is_mounted(session, i))
            result = extmap_tree(session->listed[i], out);
    if (out && record_close(out) < 0)
        result = -1;
    free(path);
    return result;
}

/* What a listing makes the kernel say of each file it writes itself, and it would be most of the trace. */
static void leave_out(const struct session *session, pid_t lister)
{
    for (size_t i = 0; session->nr_listed && i < session->selection.nr_events; i++)
        if (event_tells_extents(&session->selection.events[i]))
            instance_leave_out(&session->instance, &session->selection.events[i], lister);
}

/* The process that lists: begins when `go` is closed at its other end. */
static void list_as_child(const struct session *session, const char *name, const int go[2])
{
    char nothing;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    child_begins(session);
    close(go[1]);
    while (read(go[0], &nothing, 1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < session->nr_listed; i++)
        if (is_mounted(session, i))
            sync_mount(session->listed[i]);
    _exit(list_files(session, name) < 0);
}

/* Lists in a process of its own, so that the buffers are drained meanwhile. A listing that fails is no reason to end:
 * it has said why, and the trace stands without it. */
static enum end list_beside(struct session *session, const char *name)
{
    int status, go[2] = {-1, -1};
    fflush(NULL);
    pid_t child = pipe2(go, O_CLOEXEC) < 0 ? -1 : fork();
    if (child == 0)
        list_as_child(session, name, go);
    if (child > 0)
        leave_out(session, child);
    for (int end = 0; end < 2; end++)
        if (go[end] >= 0)
            close(go[end]);
    if (child < 0) {
        complain("%s: no process can be started to list files: %s", name, strerror(errno));
        return END_NONE;
    }
    enum end end = pump(session, child, &status, &no_limits);
    if (end != END_CHILD) {
        kill(child, SIGTERM);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        complain("%s: the listing was broken off and is not whole", name);
    }
    leave_out(session, 0);
    return end == END_CHILD ? END_NONE : end;
}

/* Whether execvp would find a program: asked before anything is recorded. */
static bool is_runnable(const char *word)
{
    if (strchr(word, '/'))
        return access(word, X_OK) == 0;
    const char *path = getenv("PATH");
    char *places = format("%s", path ? path : "/bin:/usr/bin");
    bool found = false;
    for (char *rest, *place = strtok_r(places, ":", &rest); place && !found; place = strtok_r(NULL, ":", &rest)) {
        char *program = format("%s/%s", place, word);
        found = access(program, X_OK) == 0;
        free(program);
    }
    free(places);
    return found;
}

/* Starts the command. A pipe that exec closes tells whether it began. */
static int start_command(struct session *session)
{
    int failed[2], error = 0;
    if (pipe2(failed, O_CLOEXEC) < 0)
        return complain("pipe: %s", strerror(errno));
    session->child = fork();
    if (session->child == 0) {
        child_begins(session);
        execvp(session->words[0], session->words);
        error = errno;
        write_all(failed[1], &error, sizeof error);
        _exit(127);
    }
    close(failed[1]);
    if (session->child < 0)
        error = errno;
    else if (read(failed[0], &error, sizeof error) < (ssize_t)sizeof error)
        error = 0;
    close(failed[0]);
    if (error == 0)
        return 0;
    if (session->child > 0)
        waitpid(session->child, NULL, 0);
    session->child = 0;
    return complain("%s: %s; the command cannot be run", session->words[0], strerror(error));
}

static enum end run(struct session *session)
{
    const struct command *command = session->command;
    if (file_command(session->instance.dir, "tracing_on", "1", 0) < 0) {
        complain("tracefs: tracing_on: %s", strerror(errno));
        return END_ERROR;
    }
    enum end end = list_beside(session, "before.rec");
    if (end != END_NONE)
        return end;
    session->began_ns = clock_now(CLOCK_RECORD);
    if (session->words[0] && start_command(session) < 0)
        return END_ERROR;
    const struct limits limits = {
        command->seconds ? session->began_ns + command->seconds * 1000 * MS_NS : INT64_MAX,
        command->megabytes ? (uint64_t)command->megabytes * 1000000 : UINT64_MAX,
    };
    end = pump(session, session->child, &session->status, &limits);
    if (end == END_CHILD) {
        session->child = 0;
        session->ran = true;
    }
    if (end != END_ERROR) {
        enum end broken = list_beside(session, "after.rec");
        end = broken == END_ERROR ? broken : end;
    }
    return end;
}

/* The command outlives the recording only where it ignores SIGTERM. */
static void end_command(struct session *session)
{
    if (!session->child)
        return;
    kill(session->child, SIGTERM);
    sigprocmask(SIG_SETMASK, &session->before, NULL);
    while (waitpid(session->child, &session->status, 0) < 0 && errno == EINTR)
        ;
    session->child = 0;
    session->ran = true;
}

/* -- end ---------------------------------------------------------------------------------------------------------- */

struct results {
    struct cpu_result *cpus;
    struct contents *texts;
    unsigned nr_cpus;
};

static struct results read_results(const struct instance *instance, unsigned nr_cpus)
{
    struct results results = {grow(NULL, nr_cpus, sizeof *results.cpus), grow(NULL, nr_cpus, sizeof *results.texts),
                              nr_cpus};
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        results.cpus[cpu] = (struct cpu_result){0};
        results.texts[cpu] = (struct contents){NULL, 0};
        results.cpus[cpu].known =
            instance && instance_stats(instance, cpu, &results.cpus[cpu].stats, &results.texts[cpu]) == 0;
    }
    return results;
}

static void free_results(struct results *results)
{
    for (unsigned cpu = 0; cpu < results->nr_cpus; cpu++)
        free(results->texts[cpu].data);
    free(results->texts);
    free(results->cpus);
}

static void remove_parts(int dir, int parts, unsigned nr_cpus)
{
    static const char *const names[] = {"head", "clock", "uname", "instance", "recording", "trace.dat"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(parts, names[i], 0);
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        char name[16];
        snprintf(name, sizeof name, "cpu%u", cpu);
        unlinkat(parts, name, 0);
    }
    unlinkat(dir, UNFINISHED, AT_REMOVEDIR);
}

static int pack_trace(int dir, int parts, const struct results *results)
{
    int fd = openat(parts, "trace.dat", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return complain("trace.dat: %s; it cannot be written", strerror(errno));
    int result = tracedat_pack(parts, fd, results->texts);
    close(fd);
    if (result == 0 && renameat(parts, "trace.dat", dir, "trace.dat") < 0)
        result = complain("trace.dat: %s", strerror(errno));
    if (result < 0)
        unlinkat(parts, "trace.dat", 0);
    return result;
}

static void summarize(const char *path, const struct outcome *outcome)
{
    uint64_t events = 0;
    int64_t lost = lost_events(outcome->cpus, outcome->nr_cpus);
    for (unsigned cpu = 0; cpu < outcome->nr_cpus; cpu++)
        events += outcome->cpus[cpu].events;
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (lost < 0)
        complain("%" PRIu64 " events in %s/trace.dat, an unknown number lost; ended by: %s", events, path,
                 outcome->stopped_by);
    else
        complain("%" PRIu64 " events in %s/trace.dat, %" PRId64 " lost; ended by: %s", events, path, lost,
                 outcome->stopped_by);
}

/* Puts trace.dat and recording.json together from the parts and removes these. */
static int pack(const char *path, int dir, int parts, struct results *results, const char *stopped_by,
                const int *command_status)
{
    struct contents begin;
    for (unsigned cpu = 0; cpu < results->nr_cpus; cpu++)
        results->cpus[cpu].events = tracedat_events(parts, cpu);
    const struct outcome outcome = {stopped_by, command_status, results->cpus, results->nr_cpus};
    if (file_read(parts, "recording", &begin) < 0)
        return complain("%s/" UNFINISHED "/recording: %s", path, strerror(errno));
    int result = pack_trace(dir, parts, results);
    if (result == 0)
        result = save_recording(dir, &begin, &outcome);
    free(begin.data);
    if (result == 0) {
        remove_parts(dir, parts, results->nr_cpus);
        summarize(path, &outcome);
    }
    return result;
}

/* Stops tracing and takes what the buffers still hold. The instance is removed whatever else fails. */
static int stop(struct session *session, enum end end)
{
    file_command(session->instance.dir, "tracing_on", "0", 0);
    int result = end == END_ERROR || drain_rest(&session->drain) < 0 ? -1 : 0;
    struct results results = read_results(&session->instance, session->instance.nr_cpus);
    comms_add_running(&session->comms);
    comms_add_saved(&session->comms, session->instance.tracefs);
    save_head(session);
    drain_close(&session->drain);
    instance_remove(&session->instance);
    end_command(session);
    int status = WIFSIGNALED(session->status) ? -WTERMSIG(session->status) : WEXITSTATUS(session->status);
    if (pack(session->command->output, session->dir, session->parts, &results, end_names[end],
             session->ran ? &status : NULL) < 0)
        result = -1;
    free_results(&results);
    return result;
}

/* Removes what no live iotrace uses. Returns how many instances had to be left, or -1. */
static int clean(int tracefs)
{
    int left = instances_clean(tracefs);
    if (!instances_live(tracefs))
        dynprobes_remove(tracefs);
    return left;
}

/* -- commands ----------------------------------------------------------------------------------------------------- */

static void block_signals(struct session *session)
{
    struct sigaction hang_up;
    sigemptyset(&session->signals);
    sigaddset(&session->signals, SIGCHLD);
    sigaddset(&session->signals, SIGTERM);
    /* Also where the shell has it ignored, as in scripts for what they run in the background. */
    sigaddset(&session->signals, SIGINT);
    /* nohup means it. */
    if (sigaction(SIGHUP, NULL, &hang_up) < 0 || hang_up.sa_handler != SIG_IGN)
        sigaddset(&session->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &session->signals, &session->before);
    signal(SIGPIPE, SIG_IGN);
}

static int begin(struct session *session, int tracefs)
{
    if (session->words[0] && !is_runnable(session->words[0]))
        return complain("%s: no such program; the command cannot be run", session->words[0]);
    if (choose_devices(session) < 0)
        return -1;
    choose_listed(session);
    if (open_output(session) < 0)
        return -1;
    if (instance_create(&session->instance, tracefs) < 0) {
        remove_parts(session->dir, session->parts, 0);
        return -1;
    }
    if (prepare(session) == 0)
        return 0;
    drain_close(&session->drain);
    instance_remove(&session->instance);
    remove_parts(session->dir, session->parts, session->instance.nr_cpus);
    unlinkat(session->dir, "recording.json", 0);
    return -1;
}

static void release(struct session *session)
{
    topology_free(&session->topology);
    selection_free(&session->selection);
    comms_free(&session->comms);
    free(session->listed);
    free(session->listed_devs);
    if (session->dir >= 0)
        close(session->dir);
    if (session->parts >= 0)
        close(session->parts);
}

static int record(const struct command *command, char *const *words)
{
    struct session session = {.command = command, .words = words, .dir = -1, .parts = -1, .drain.pipe = {-1, -1}};
    int tracefs = tracefs_open(), result = -1;
    if (tracefs < 0)
        return -1;
    block_signals(&session);
    clean(tracefs);
    if (begin(&session, tracefs) == 0)
        result = stop(&session, run(&session));
    release(&session);
    clean(tracefs);
    close(tracefs);
    return result;
}

/* Takes from the instance that a killed recorder left what had not been written, and removes it. */
static int adopt(int parts, const char *name, struct results *results)
{
    struct instance instance;
    struct drain drain;
    size_t bytes;
    int tracefs = tracefs_open(), result = 0;
    if (tracefs < 0 || instance_adopt(&instance, tracefs, name) < 0) {
        *results = read_results(NULL, tracedat_cpus(parts));
    } else {
        file_command(instance.dir, "tracing_on", "0", 0);
        if (page_bytes(tracefs, &bytes) < 0 || drain_open(&drain, &instance, parts, bytes) < 0)
            result = -1;
        else {
            result = drain_rest(&drain);
            drain_close(&drain);
        }
        *results = read_results(&instance, instance.nr_cpus);
        instance_remove(&instance);
    }
    if (tracefs >= 0) {
        clean(tracefs);
        close(tracefs);
    }
    return result;
}

static int finish(const char *path)
{
    struct results results;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int parts = dir < 0 ? -1 : openat(dir, UNFINISHED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *name = parts < 0 ? NULL : file_line(parts, "instance");
    int result = -1;
    if (!name)
        complain("%s: holds no recording that was broken off", path);
    else if (instance_is_live(name))
        complain("%s: is being recorded; end that iotrace first", path);
    else {
        result = adopt(parts, name, &results);
        if (pack(path, dir, parts, &results, "killed", NULL) < 0)
            result = -1;
        free_results(&results);
    }
    free(name);
    if (parts >= 0)
        close(parts);
    if (dir >= 0)
        close(dir);
    return result;
}

static int cleanup(void)
{
    int tracefs = tracefs_open();
    if (tracefs < 0)
        return -1;
    int left = clean(tracefs);
    close(tracefs);
    return left == 0 ? 0 : -1;
}

static int describe(void)
{
    struct json json = {stdout, false};
    json_open(&json, NULL, '{');
    json_string(&json, "probe", "iotrace");
    json_string(&json, "version", PROBE_VERSION);
    json_string(&json, "trace.dat", "trace-cmd.dat version 6");
    recording_describe(&json);
    fputs(",\n\"before.rec and after.rec\": ", stdout);
    if (record_describe(stdout, &listing_probe) < 0)
        return -1;
    json_close(&json, '}');
    putchar('\n');
    return fflush(stdout) == 0 ? 0 : complain("standard output: %s", strerror(errno));
}

static const char about[] =
    "Records what the kernel's tracepoints say of block devices and of the filesystems on them into\n"
    "DIR: trace.dat (trace-cmd report and KernelShark open it), recording.json (devices, mounts,\n"
    "clocks, losses), before.rec and after.rec (which file has which blocks, and all threads, at the\n"
    "start and at the end). It records until COMMAND ends, a limit is reached, or SIGINT, SIGTERM or\n"
    "SIGHUP comes. It uses a trace instance of its own and leaves all other tracing alone. Needs root.";

static const char more[] =
    "Presets: block: requests and bios; block+fs: also what maps blocks to files and who dirtied\n"
    "pages, for the filesystems that are mounted on the devices; block+fs+syscalls: also the calls.\n"
    "A device is traced with those it lies on (whole disk, dm slaves) and those that lie on it.\n"
    "Where files are listed, their filesystems are synced before each listing. DIR needs room for the\n"
    "trace twice.\n"
    "\n"
    "Killed with SIGKILL, iotrace leaves an instance that its next start removes, and DIR/unfinished;\n"
    "--finish DIR first saves what the instance still holds, and writes trace.dat.\n"
    "\n"
    "examples:\n"
    "  iotrace -o /dev/shm/run --device /data -- am start -W com.example/.Main\n"
    "  iotrace -o /dev/shm/run --device 8:0 --time 60\n"
    "  trace-cmd report /dev/shm/run/trace.dat\n"
    "\n"
    "Exit status: 0 when everything was recorded and packed, with losses counted; else 1.";

int main(int argc, char **argv)
{
    struct command command = {.preset = "block+fs", .buffer_kb = 16384};
    const struct opt table[] = {
        {'o', "output", "DIR", "record into DIR, which is made; not on a traced device", OPT_TEXT, &command.output, 0,
         0},
        {0, "preset", "NAME", "block, block+fs (the default) or block+fs+syscalls", OPT_TEXT, &command.preset, 0, 0},
        {0, "device", "PATH", "trace this device (path or MAJ:MIN) or that of a file; default: all mounted", OPT_LIST,
         &command.devices, 0, 0},
        {0, "list", "DIR", "list the files of this mount point; none: no files; default: all that are traced", OPT_LIST,
         &command.lists, 0, 0},
        {0, "time", "S", "end after S seconds", OPT_NUMBER, &command.seconds, 1, 100000000},
        {0, "size", "MB", "end after MB megabytes of trace", OPT_NUMBER, &command.megabytes, 1, 100000000},
        {0, "buffer", "KB", "ring buffer of each CPU; default: 16384", OPT_NUMBER, &command.buffer_kb, 8, 4194304},
        {0, "clock", "NAME", "mono (the default), or boot, which goes on in suspend", OPT_TEXT, &command.clock, 0, 0},
        {0, "allow-same-device", NULL, "allow DIR to lie on a traced device", OPT_FLAG, &command.same_device, 0, 0},
        {0, "finish", "DIR", "pack what a killed iotrace left in DIR, and do nothing else", OPT_TEXT, &command.finish,
         0, 0},
        {0, "cleanup", NULL, "remove what dead iotraces left in tracefs, and do nothing else", OPT_FLAG,
         &command.cleanup, 0, 0},
        {0, "describe", NULL, "print what is in the files as JSON and do nothing else", OPT_FLAG, &command.describe, 0,
         0},
        {'h', "help", NULL, "print this text and do nothing else", OPT_FLAG, &command.help, 0, 0},
    };
    const struct opts opts = {"-o DIR [OPTION...] [-- COMMAND...]", about, more, table, sizeof table / sizeof *table};
    int first = opts_parse(&opts, argc, argv), result;
    if (first < 0)
        result = -1;
    else if (command.help)
        result = opts_help(stdout, &opts, "iotrace");
    else if (command.describe)
        result = describe();
    else if (command.cleanup)
        result = cleanup();
    else if (command.finish)
        result = finish(command.finish);
    else if (!command.output)
        result = complain("name the directory to record into: -o DIR; --help tells more");
    else if (preset_parse(command.preset) < 0)
        result = complain("%s: no preset; give block, block+fs or block+fs+syscalls", command.preset);
    else if (command.clock && strcmp(command.clock, "mono") != 0 && strcmp(command.clock, "boot") != 0)
        result = complain("%s: no clock; give mono or boot", command.clock);
    else
        result = record(&command, argv + first);
    opts_release(&opts);
    return result < 0 ? 1 : 0;
}
