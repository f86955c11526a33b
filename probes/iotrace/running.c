#include <sys/prctl.h>

#include "common/command.h"
#include "iotrace/iotrace.h"

enum { DRAIN_MS = 100, MS_NS = 1000000, PATIENCE_S = 10 };

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

/* Wait for a signal, at most DRAIN_MS and not beyond the deadline. */
static int wait_signal(const struct session *session, int64_t deadline_ns)
{
    int64_t rest = deadline_ns - clock_now(CLOCK_RECORD), most = (int64_t)DRAIN_MS * MS_NS;
    struct timespec wait = {0, (long)(rest < 0 ? 0 : rest < most ? rest : most)};
    return sigtimedwait(&session->signals, NULL, &wait);
}

/* Drain the buffers, and end the segment when it is due. The segment then has everything before this moment. */
static int64_t drain(struct session *session)
{
    int64_t segment_ns = session->asked->segment_seconds * 1000 * MS_NS;
    if (!segment_ns)
        return drain_pages(&session->drain);
    int64_t now_ns = clock_now(CLOCK_RECORD), end_ns = session_trace_ns(session);
    int64_t most = drain_now(&session->drain);
    if (most < 0 || now_ns < session->segment_ns)
        return most;
    session->segment_ns = now_ns + segment_ns;
    return session_end_segment(session, end_ns) < 0 ? -1 : most;
}

/* Drain the buffers until `child` ends (unless 0), a limit is reached or a signal arrives. */
static enum end pump(struct session *session, pid_t child, int *status, const struct limits *limits)
{
    for (;;) {
        int64_t most = drain(session);
        if (most < 0)
            return END_ERROR;
        if (child && waitpid(child, status, WNOHANG) == child)
            return END_CHILD;
        if (session->drain.written >= limits->bytes)
            return END_SIZE;
        if (clock_now(CLOCK_RECORD) >= limits->deadline_ns)
            return END_TIME;
        show_progress(session);
        /* A buffer that fills by a quarter in one round may overflow before the next. */
        bool hurry = most > session->asked->buffer_kb * 1024 / 4;
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

/* Exclude extent events of a listing: it writes the same data itself, and they would be most of the trace. */
static void leave_out(const struct session *session, pid_t lister)
{
    for (size_t i = 0; session->listing.nr && i < session->selection.nr_events; i++)
        if (event_has_extents(&session->selection.events[i]))
            instance_leave_out(&session->instance, &session->selection.events[i], lister);
}

static void child_of_session(const struct session *session)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    child_begins(session);
}

/* Run the listing process. It starts when the other end of `go` is closed. */
static void list_as_child(const struct session *session, const char *name, const int go[2])
{
    char nothing;
    child_of_session(session);
    close(go[1]);
    while (read(go[0], &nothing, 1) < 0 && errno == EINTR)
        ;
    _exit(listing_write(&session->listing, session->output.dir, name) < 0);
}

/* Drain the buffers until the child ends, or end it at a signal or an error. Returns END_NONE if it ended itself. */
static enum end pump_beside(struct session *session, pid_t child)
{
    int status;
    enum end end = pump(session, child, &status, &no_limits);
    if (end == END_CHILD)
        return END_NONE;
    kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return end;
}

/* List files in a separate process while this one drains the buffers. A failed listing has printed its error and does
 * not end the recording. */
static enum end list_beside(struct session *session, const char *name)
{
    int go[2] = {-1, -1};
    fflush(NULL);
    pid_t child = pipe2(go, O_CLOEXEC) < 0 ? -1 : fork();
    if (child == 0)
        list_as_child(session, name, go);
    if (child > 0)
        leave_out(session, child);
    for (int end = 0; end < 2; end++)
        close_file(go[end]);
    if (child < 0) {
        print_error("%s: no process can be started to list files: %s", name, strerror(errno));
        return END_NONE;
    }
    enum end end = pump_beside(session, child);
    if (end != END_NONE)
        print_error("%s: the listing was interrupted and is incomplete", name);
    return end;
}

/* Sync the listed filesystems in a separate process while this one drains the buffers. The window thus contains the
 * writeback of data that the workload left in memory. */
static enum end sync_beside(struct session *session)
{
    if (!session->listing.nr)
        return END_NONE;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        child_of_session(session);
        listing_sync(&session->listing);
        _exit(0);
    }
    if (child < 0) {
        print_error("no process can be started to sync the filesystems: %s", strerror(errno));
        return END_NONE;
    }
    enum end end = pump_beside(session, child);
    if (end != END_NONE)
        print_error("the last sync was interrupted; after.rec is not written");
    return end;
}

/* Store a moment of the window. With another clock than these two its time is unknown. */
static void save_moment(struct session *session, int64_t *moment_ns)
{
    if (strcmp(session->trace_clock, "mono") != 0 && strcmp(session->trace_clock, "boot") != 0)
        return;
    *moment_ns = session_trace_ns(session);
    output_save_window(&session->output, &session->window);
}

static bool are_names_probed(const struct session *session)
{
    for (size_t i = 0; i < session->selection.nr_events; i++)
        if (strcmp(session->selection.events[i].name, "name_found") == 0)
            return true;
    return false;
}

/* Start to read names in a separate process, which reads them at once because the kernel merges pending events. Its
 * system calls are excluded from the trace. It must not hold the buffers, the instance and the lock of the recording
 * after the end of iotrace. */
static void begin_names(struct session *session)
{
    if (session->asked->preset == PRESET_BLOCK)
        return;
    int *unneeded = zeroed(2 * (size_t)session->drain.nr_cpus + 2, sizeof *unneeded);
    size_t nr = 0;
    unneeded[nr++] = session->output.parts;
    unneeded[nr++] = session->instance.held;
    for (unsigned cpu = 0; cpu < session->drain.nr_cpus; cpu++) {
        unneeded[nr++] = session->drain.cpus[cpu].raw;
        unneeded[nr++] = session->drain.cpus[cpu].out;
    }
    names_begin(&session->names, &session->topology, session->output.dir, are_names_probed(session), unneeded, nr);
    free(unneeded);
    for (size_t i = 0; session->names.reader && i < session->selection.nr_events; i++)
        if (event_call_part(&session->selection.events[i]) != NO_CALL)
            instance_leave_out(&session->instance, &session->selection.events[i], session->names.reader);
}

static int start_command(struct session *session)
{
    session->child = session->command_pid = command_start(session->asked->words, &session->before);
    return session->child ? 0 : -1;
}

/* Run the command, or wait, until it ends, a limit is reached or a signal arrives. */
static enum end run_window(struct session *session)
{
    const struct asked *asked = session->asked;
    if (session_begin_calls(session) < 0)
        return END_ERROR;
    session->began_ns = clock_now(CLOCK_RECORD);
    if (asked->words[0] && start_command(session) < 0)
        return END_ERROR;
    const struct limits limits = {
        asked->seconds ? session->began_ns + asked->seconds * 1000 * MS_NS : INT64_MAX,
        asked->megabytes ? (uint64_t)asked->megabytes * 1000000 : UINT64_MAX,
    };
    enum end end = pump(session, session->child, &session->status, &limits);
    if (end == END_CHILD) {
        session->child = 0;
        session->ran = true;
    }
    return end;
}

enum end session_run(struct session *session)
{
    if (file_command(session->instance.dir, "tracing_on", "1", 0) < 0) {
        print_error("tracefs: tracing_on: %s", strerror(errno));
        return END_ERROR;
    }
    begin_names(session);
    enum end end = list_beside(session, "before.rec");
    save_moment(session, &session->window.start_ns);
    leave_out(session, 0);
    bool lists = end == END_NONE; /* otherwise it ended during the first listing, and the window has no length */
    if (lists) {
        end = run_window(session);
        lists = end != END_ERROR && session_end_calls(session) == 0;
    }
    enum end after = lists ? sync_beside(session) : END_NONE;
    save_moment(session, &session->window.end_ns);
    if (lists && after == END_NONE)
        after = list_beside(session, "after.rec");
    return after == END_ERROR ? after : end;
}

/* A command that ignores SIGTERM is left running: saving the recording is more important. */
void session_end_command(struct session *session)
{
    if (!session->child)
        return;
    int64_t deadline_ns = clock_now(CLOCK_RECORD) + (int64_t)PATIENCE_S * 1000 * MS_NS;
    kill(session->child, SIGTERM);
    while (waitpid(session->child, &session->status, WNOHANG) == 0) {
        int signal = wait_signal(session, deadline_ns);
        if ((signal > 0 && signal != SIGCHLD) || clock_now(CLOCK_RECORD) >= deadline_ns) {
            print_error("%s: process %d goes on after SIGTERM", session->asked->words[0], (int)session->child);
            return;
        }
    }
    session->child = 0;
    session->ran = true;
}
