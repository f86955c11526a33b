#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "complain.h"
#include "procmon.h"

enum { PATIENCE_S = 10 };

struct run {
    const struct asked *asked;
    struct output out;
    struct tables *tables;
    struct values *values;
    struct processes *processes; /* NULL: not sampled */
    int timer, signals;
    sigset_t before; /* the mask when procmon began */
    struct rlimit files;
    int64_t interval_ns, began_ns, flushed_ns;
    int64_t give_up_ns; /* when the command must have ended; 0: nothing has told it to */
    int percent;
    pid_t child;                     /* the command while it runs, else 0 */
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
    int percent = run->asked->time_ns ? (int)(100 * (now_ns - run->began_ns) / run->asked->time_ns) : 0;

    if (run->asked->quiet || !run->asked->time_ns || percent <= run->percent || percent > 100)
        return;
    run->percent = percent;
    fprintf(stderr, "%sprocmon: %d %% of %.4g s%s", terminal ? "\r" : "", percent,
            (double)run->asked->time_ns / (double)SECOND_NS, terminal && percent < 100 ? "" : "\n");
}

/* Reads everything that is due, or `all`. */
static void sample(struct run *run, int64_t ts_ns, bool all)
{
    int64_t now_ns = clock_now(CLOCK_RECORD);
    struct tick tick = {.ts_ns = ts_ns, .late_ns = now_ns - ts_ns};

    tick.missed = run->skipped < UINT32_MAX ? (uint32_t)run->skipped : UINT32_MAX;
    tables_read(run->tables, &run->out);
    values_read(run->values, &run->out, all);
    if (run->processes)
        processes_read(run->processes, &run->out, all, &tick);
    tick.took_ns = clock_now(CLOCK_RECORD) - now_ns;
    tick.cpu_ns = cpu_time();
    tick_write(&run->out, &tick);
    run->missed += run->skipped;
    run->skipped = 0;
    /* What a kill or a cut may cost. */
    if (now_ns >= run->flushed_ns + SECOND_NS) {
        run->out.failed |= record_flush(run->out.record) < 0;
        run->flushed_ns = now_ns;
        show_progress(run, now_ns);
    }
}

/* -- the loop ------------------------------------------------------------------------------------------------------ */

static int prepare(struct run *run)
{
    struct sigaction hang_up;
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    /* nohup means it. */
    if (sigaction(SIGHUP, NULL, &hang_up) < 0 || hang_up.sa_handler != SIG_IGN)
        sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &run->before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL);
    run->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    run->timer = timerfd_create(CLOCK_RECORD, TFD_CLOEXEC | TFD_NONBLOCK);
    return run->signals < 0 || run->timer < 0 ? complain("no timer for ticks: %s", strerror(errno)) : 0;
}

/* Ticks count from here: the first reading of everything may take longer than one. */
static int begin_ticks(struct run *run)
{
    const struct timespec each = {run->interval_ns / SECOND_NS, run->interval_ns % SECOND_NS};

    run->began_ns = clock_now(CLOCK_RECORD);
    const int64_t first_ns = run->began_ns + run->interval_ns;
    const struct itimerspec ticks = {each, {first_ns / SECOND_NS, first_ns % SECOND_NS}};
    if (timerfd_settime(run->timer, TFD_TIMER_ABSTIME, &ticks, NULL) < 0)
        return complain("no timer for ticks: %s", strerror(errno));
    return 0;
}

/* The command has as many files as procmon had, which takes more for itself. */
static int start_command(struct run *run)
{
    struct rlimit own;

    getrlimit(RLIMIT_NOFILE, &own);
    setrlimit(RLIMIT_NOFILE, &run->files);
    run->child = command_start(run->asked->words, &run->before);
    setrlimit(RLIMIT_NOFILE, &own);
    return run->child ? 0 : -1;
}

/* Whether the command has ended; what it used can still be read. */
static bool has_ended(const struct run *run)
{
    siginfo_t about = {0};

    return run->child && waitid(P_PID, (id_t)run->child, &about, WEXITED | WNOWAIT | WNOHANG) == 0 && about.si_pid;
}

/* Ends the command, or where there is none, the run. Returns whether that is the end. */
static bool end_command(struct run *run)
{
    if (!run->child || run->give_up_ns)
        return true;
    kill(run->child, SIGTERM);
    run->give_up_ns = clock_now(CLOCK_RECORD) + PATIENCE_S * SECOND_NS;
    return false;
}

/* Takes in the signals that have come. Returns whether they end the run. */
static bool take_signals(struct run *run)
{
    struct signalfd_siginfo came;
    bool end = false;

    while (read(run->signals, &came, sizeof came) == (ssize_t)sizeof came)
        if (came.ssi_signo != SIGCHLD)
            end |= end_command(run);
    return end || has_ended(run);
}

/* Takes in a tick, if there was one. Returns whether it is the last. */
static bool take_tick(struct run *run)
{
    uint64_t expired;
    int64_t ts_ns;

    if (read(run->timer, &expired, sizeof expired) != (ssize_t)sizeof expired)
        return false;
    run->ticks += expired;
    run->skipped = expired - 1;
    ts_ns = run->began_ns + (int64_t)run->ticks * run->interval_ns;
    if (run->asked->time_ns && ts_ns - run->began_ns >= run->asked->time_ns && end_command(run))
        return true;
    sample(run, ts_ns, false);
    return run->give_up_ns && ts_ns >= run->give_up_ns;
}

/* Counts the ticks that the end came before; the last reading stands for the latest. */
static void count_skipped(struct run *run)
{
    uint64_t expired;

    if (read(run->timer, &expired, sizeof expired) == (ssize_t)sizeof expired)
        run->skipped += expired - 1;
}

static void loop(struct run *run)
{
    struct pollfd waits[] = {{run->timer, POLLIN, 0}, {run->signals, POLLIN, 0}};
    bool end = false;

    while (!end && !run->out.failed) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        end = take_signals(run) || take_tick(run);
    }
}

/* -- beginning and end --------------------------------------------------------------------------------------------- */

static void reap(struct run *run)
{
    int status;

    if (!run->child)
        return;
    if (waitpid(run->child, &status, WNOHANG) != run->child)
        complain("%s: process %d goes on after SIGTERM", run->asked->words[0], (int)run->child);
    else if (WIFSIGNALED(status) && !run->give_up_ns)
        complain("%s: ended by signal %d", run->asked->words[0], WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status))
        complain("%s: ended with status %d", run->asked->words[0], WEXITSTATUS(status));
}

static int finish(struct run *run, int result)
{
    struct record *record = run->out.record;

    tables_close(run->tables, &run->out);
    values_close(run->values, &run->out);
    if (run->processes)
        processes_close(run->processes, &run->out);
    if (run->missed)
        record_lose(record, "missed", "ticks were missed: the machine was too busy, or asleep", run->missed);
    return record_close(record) < 0 ? -1 : result;
}

int procmon_run(const struct asked *asked)
{
    struct run run = {.asked = asked, .interval_ns = asked->interval_ns, .timer = -1, .signals = -1};
    int result = -1;

    if (asked->words[0] && !command_is_runnable(asked->words[0]))
        return complain("%s: no such program; the command cannot be run", asked->words[0]);
    getrlimit(RLIMIT_NOFILE, &run.files);
    run.out.record = record_open(asked->output, &procmon_probe);
    if (!run.out.record)
        return -1;
    run.tables = tables_open("", asked->groups);
    run.values = values_open("", asked->groups);
    run.processes = asked->groups[GROUP_PROCESS] ? processes_open(asked, run.interval_ns) : NULL;
    if (prepare(&run) == 0) {
        run.flushed_ns = clock_now(CLOCK_RECORD);
        sample(&run, run.flushed_ns, true);
        result = begin_ticks(&run) < 0 || (asked->words[0] && start_command(&run) < 0) ? -1 : 0;
        if (result == 0)
            loop(&run);
        count_skipped(&run);
        sample(&run, clock_now(CLOCK_RECORD), true);
        show_progress(&run, run.began_ns + asked->time_ns);
        reap(&run);
    }
    if (run.timer >= 0)
        close(run.timer);
    if (run.signals >= 0)
        close(run.signals);
    return finish(&run, result);
}
