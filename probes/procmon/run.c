#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "common/command.h"
#include "procmon/procmon.h"

enum {
    PATIENCE_S = 10,
    FREE_SHARE = 4,             /* 1/FREE_SHARE of the descriptors is not used for sampled files */
    DESCRIPTORS_MOST = 1 << 20, /* kept open */
};

struct run {
    const struct request *request;
    struct output out;
    struct files *files;
    struct processes *processes; /* NULL: not sampled */
    int timer, end, signals;     /* of ticks; of the requested end or the grace period */
    sigset_t before;             /* signal mask at the start of procmon */
    struct rlimit descriptors;
    int64_t interval_ns, began_ns, flushed_ns;
    int percent;
    pid_t child;                     /* the command while it runs, else 0 */
    bool is_terminated;              /* SIGTERM was sent to the command */
    uint64_t ticks, missed, skipped; /* since the last tick */
};

/* -- a tick -------------------------------------------------------------------------------------------------------- */

static int64_t cpu_time(void)
{
    return clock_now(CLOCK_PROCESS_CPUTIME_ID);
}

static void show_progress(struct run *run, int64_t now_ns)
{
    bool terminal = isatty(STDERR_FILENO);
    int64_t past_ns = now_ns - run->began_ns, all_ns = run->request->time_ns;
    if (run->request->quiet || !all_ns)
        return;
    int percent = past_ns < all_ns ? (int)(100 * past_ns / all_ns) : 100;
    if (percent <= run->percent)
        return;
    run->percent = percent;
    fprintf(stderr, "%sprocmon: %d %% of %.4g s%s", terminal ? "\r" : "", percent, (double)all_ns / (double)SECOND_NS,
            terminal && percent < 100 ? "" : "\n");
}

/* Flush once a second, so that a kill or a full disk costs at most the last second. Everything is written before the
 * first tick. */
static void flush(struct run *run, int64_t ts_ns)
{
    if (ts_ns < run->flushed_ns + SECOND_NS)
        return;
    run->out.failed |= record_flush(run->out.record) < 0;
    run->flushed_ns = ts_ns;
    if (run->began_ns)
        show_progress(run, clock_now(CLOCK_RECORD));
}

/* Read everything that is due, or everything. */
static void sample(struct run *run, int64_t ts_ns, bool all)
{
    int64_t now_ns = clock_now(CLOCK_RECORD);
    struct tick tick = {.ts_ns = ts_ns, .late_ns = now_ns - ts_ns};
    tick.missed = run->skipped < UINT32_MAX ? (uint32_t)run->skipped : UINT32_MAX;
    files_read(run->files, &run->out, all);
    if (run->processes)
        processes_read(run->processes, &run->out, all, &tick);
    tick.took_ns = clock_now(CLOCK_RECORD) - now_ns;
    tick.cpu_ns = cpu_time();
    tick_write(&run->out, &tick);
    run->missed += run->skipped;
    run->skipped = 0;
    flush(run, ts_ns);
}

/* -- the loop ------------------------------------------------------------------------------------------------------ */

static int prepare(struct run *run)
{
    sigset_t signals;
    command_end_signals(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &run->before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    run->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    run->timer = timerfd_create(CLOCK_RECORD, TFD_CLOEXEC | TFD_NONBLOCK);
    run->end = timerfd_create(CLOCK_RECORD, TFD_CLOEXEC | TFD_NONBLOCK);
    if (run->signals < 0 || run->timer < 0 || run->end < 0)
        return print_error("no timer for ticks: %s", strerror(errno));
    return 0;
}

/* Set a timer to `at_ns`, and then to every `each_ns` (0: once). */
static int set_timer(int timer, int64_t at_ns, int64_t each_ns)
{
    const struct itimerspec times = {{each_ns / SECOND_NS, each_ns % SECOND_NS},
                                     {at_ns / SECOND_NS, at_ns % SECOND_NS}};
    return timerfd_settime(timer, TFD_TIMER_ABSTIME, &times, NULL);
}

/* Count ticks from now, because the first reading of everything may take longer than a tick. */
static int begin_ticks(struct run *run)
{
    int64_t time_ns = run->request->time_ns;
    run->began_ns = clock_now(CLOCK_RECORD);
    if (set_timer(run->timer, run->began_ns + run->interval_ns, run->interval_ns) < 0 ||
        (time_ns && set_timer(run->end, run->began_ns + time_ns, 0) < 0))
        return print_error("no timer for ticks: %s", strerror(errno));
    return 0;
}

/* Start the command with procmon's original limit of open files; procmon has raised its own. */
static int start_command(struct run *run)
{
    struct rlimit own;
    getrlimit(RLIMIT_NOFILE, &own);
    setrlimit(RLIMIT_NOFILE, &run->descriptors);
    run->child = command_start(run->request->words, &run->before);
    setrlimit(RLIMIT_NOFILE, &own);
    return run->child ? 0 : -1;
}

/* Return whether the command has ended. It is not reaped, so that its counters can still be read. */
static bool has_ended(const struct run *run)
{
    siginfo_t about = {0};
    return run->child && waitid(P_PID, (id_t)run->child, &about, WEXITED | WNOWAIT | WNOHANG) == 0 && about.si_pid;
}

/* End the command, or the run if there is no command. Returns true if the run ends: without a command, at a second
 * request by a signal, or when the grace period is over. */
static bool end_command(struct run *run)
{
    if (!run->child || run->is_terminated)
        return true;
    kill(run->child, SIGTERM);
    run->is_terminated = true;
    return set_timer(run->end, clock_now(CLOCK_RECORD) + PATIENCE_S * SECOND_NS, 0) < 0;
}

/* Handle pending signals. Returns whether they end the run. */
static bool take_signals(struct run *run)
{
    struct signalfd_siginfo came;
    bool end = false;
    while (read(run->signals, &came, sizeof came) == (ssize_t)sizeof came)
        if (came.ssi_signo != SIGCHLD)
            end |= end_command(run);
    return end || has_ended(run);
}

/* Return how often the timer expired since the last call. */
static uint64_t take_timer(int timer)
{
    uint64_t expired;
    return read(timer, &expired, sizeof expired) == (ssize_t)sizeof expired ? expired : 0;
}

static void take_tick(struct run *run)
{
    uint64_t expired = take_timer(run->timer);
    if (!expired || run->out.failed)
        return;
    run->ticks += expired;
    run->skipped = expired - 1;
    sample(run, run->began_ns + (int64_t)run->ticks * run->interval_ns, false);
}

/* Count the ticks skipped before the end. The last one is not skipped: the final reading replaces it. */
static void count_skipped(struct run *run)
{
    uint64_t expired = take_timer(run->timer);
    run->skipped += expired ? expired - 1 : 0;
}

static void loop(struct run *run)
{
    struct pollfd waits[] = {{run->timer, POLLIN, 0}, {run->end, POLLIN, 0}, {run->signals, POLLIN, 0}};
    bool end = false;
    while (!end) {
        if (poll(waits, sizeof waits / sizeof *waits, -1) < 0 && errno != EINTR)
            break;
        end = take_signals(run) || (take_timer(run->end) && end_command(run));
        if (!end)
            take_tick(run);
        /* End a command that is no longer sampled. */
        if (!end && run->out.failed && !run->is_terminated)
            end = end_command(run);
    }
}

/* -- begin and end ------------------------------------------------------------------------------------------------- */

static void reap(struct run *run)
{
    int status;
    if (!run->child)
        return;
    if (waitpid(run->child, &status, WNOHANG) != run->child)
        print_error("%s: process %d goes on after SIGTERM", run->request->words[0], (int)run->child);
    else if (WIFSIGNALED(status) && !run->is_terminated)
        print_error("%s: ended by signal %d", run->request->words[0], WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status))
        print_error("%s: ended with status %d", run->request->words[0], WEXITSTATUS(status));
}

static int finish(struct run *run, int result)
{
    struct record *record = run->out.record;
    files_close(run->files, &run->out);
    if (run->processes)
        processes_close(run->processes, &run->out);
    if (run->missed)
        record_lose(record, "missed", "ticks were missed: the machine was too busy, or asleep", run->missed);
    free(run->out.bytes);
    return record_close(record) < 0 ? -1 : result;
}

/* Sample into the open file. */
static int sample_all(struct run *run)
{
    const struct request *request = run->request;
    sample(run, clock_now(CLOCK_RECORD), true);
    int result = begin_ticks(run) < 0 || (request->words[0] && start_command(run) < 0) ? -1 : 0;
    if (result == 0)
        loop(run);
    count_skipped(run);
    if (!run->out.failed)
        sample(run, clock_now(CLOCK_RECORD), true);
    show_progress(run, clock_now(CLOCK_RECORD));
    reap(run);
    return result;
}

/* Raise the limit of descriptors to its maximum. Returns how many may be used for sampled files. */
static int raise_limit(struct rlimit *before)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, before);
    files_allow_most();
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur > DESCRIPTORS_MOST)
        limit.rlim_cur = DESCRIPTORS_MOST;
    return (int)(limit.rlim_cur - limit.rlim_cur / FREE_SHARE);
}

int procmon_run(const struct request *request)
{
    struct run run = {
        .request = request, .interval_ns = SECOND_NS / request->hz, .timer = -1, .end = -1, .signals = -1};
    int result = -1;
    if (request->words[0] && !command_is_runnable(request->words[0]))
        return print_error("%s: no such program; the command cannot be run", request->words[0]);
    run.out.descriptors = raise_limit(&run.descriptors);
    /* Signals are queued from here on: one that comes while the file is created still leaves a complete file. */
    if (prepare(&run) == 0)
        run.out.record = record_open(request->output, &procmon_probe);
    if (run.out.record) {
        run.files = files_open(request->groups);
        run.processes = request->groups[GROUP_PROCESS] ? processes_open(run.interval_ns) : NULL;
        result = finish(&run, sample_all(&run));
    }
    close_file(run.timer);
    close_file(run.end);
    close_file(run.signals);
    return result;
}
