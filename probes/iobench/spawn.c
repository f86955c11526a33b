#include "iobench/bench.h"

#include <poll.h>
#include <setjmp.h>
#include <sys/prctl.h>

#include "common/command.h"

#define MILLISECOND_NS 1000000
#define STACK_BYTES    (1 << 20)

/* The end of the wait for the start is a busy loop, because waking up takes about as long. */
#define AWAKE_NS (MILLISECOND_NS / 5)

static _Thread_local sigjmp_buf rescue;
static _Thread_local volatile sig_atomic_t can_rescue;

/* Recover from SIGBUS: a mapped page that cannot be read, or for which the device is full, must not leave the files of
 * the run behind. */
static void on_bus_error(int number)
{
    if (can_rescue)
        siglongjmp(rescue, 1);
    signal(number, SIG_DFL);
}

static void announce(struct hand *hand, enum phase phase)
{
    ssize_t written;
    atomic_store_explicit(&hand->phase, phase, memory_order_release);
    do
        written = write(hand->spawn->news[1], "", 1);
    while (written < 0 && errno == EINTR);
}

static void wait_at_gate(const struct spawn *spawn)
{
    char byte;
    ssize_t got;
    do
        got = read(spawn->gate[0], &byte, 1);
    while (got < 0 && errno == EINTR);
}

static void wait_for_start(const struct bench_run *run)
{
    int64_t wake_ns = run->start_ns - AWAKE_NS;
    struct timespec wake = {.tv_sec = wake_ns / (1000 * MILLISECOND_NS), .tv_nsec = wake_ns % (1000 * MILLISECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        ;
    while (clock_now(CLOCK_MONOTONIC) < run->start_ns)
        ;
}

static int work_guarded(struct bench_worker *worker)
{
    if (sigsetjmp(rescue, 1)) {
        can_rescue = 0;
        return bench_fail(worker, EIO,
                          "a page of the mapped file cannot be read or has no room on the device (SIGBUS)");
    }
    can_rescue = 1;
    int result = worker->run->job->engine->work(worker);
    can_rescue = 0;
    return result;
}

static int open_worker(struct bench_worker *worker, const struct bench_engine *engine)
{
    if (engine->state_bytes)
        worker->state = zeroed(1, engine->state_bytes);
    return engine->open(worker);
}

static void close_worker(struct bench_worker *worker, const struct bench_engine *engine)
{
    if (!worker->state)
        return;
    engine->close(worker);
    if (engine->state_bytes)
        free(worker->state);
    worker->state = NULL;
}

static void serve(struct hand *hand)
{
    struct bench_worker *worker = hand->worker;
    const struct bench_engine *engine = worker->run->job->engine;
    int opened, worked = 0;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    opened = open_worker(worker, engine);
    if (opened < 0)
        bench_fail(worker, 0, "it could not be prepared");
    announce(hand, PHASE_READY);
    wait_at_gate(hand->spawn);
    if (opened == 0 && atomic_load(&hand->spawn->go)) {
        worker_start(worker);
        wait_for_start(worker->run);
        worked = work_guarded(worker);
    }
    if (worked < 0)
        bench_fail(worker, 0, "its work failed");
    worker_end(worker);
    announce(hand, PHASE_ENDED);
    close_worker(worker, engine);
}

static void *thread_main(void *hand)
{
    serve(hand);
    return NULL;
}

/* PR_SET_PDEATHSIG: a worker must not outlive this program, because its files would not be removed. */
static void process_main(struct hand *hand, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
    close(hand->spawn->gate[1]);
    close(hand->spawn->news[0]);
    serve(hand);
    _exit(0);
}

static int start_process(struct hand *hand)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        return errno;
    if (!child)
        process_main(hand, parent);
    hand->process = child;
    return 0;
}

static int start_thread(struct hand *hand)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!error)
        error = pthread_create(&hand->thread, &attributes, thread_main, hand);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Signals are blocked in workers: the coordinator handles them. */
static int start_all(struct spawn *spawn)
{
    sigset_t signals, before;
    int error = 0;
    command_end_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    for (int32_t index = 0; index < spawn->run->nr_workers && !error; index++) {
        struct hand *hand = &spawn->hands[index];
        hand->spawn = spawn;
        hand->worker = &spawn->run->workers[index];
        error = spawn->run->job->processes ? start_process(hand) : start_thread(hand);
        hand->running = !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int nr_running(const struct spawn *spawn)
{
    int running = 0;
    while (running < spawn->run->nr_workers && spawn->hands[running].running)
        running++;
    return running;
}

int spawn_start(struct spawn *spawn, struct bench_run *run)
{
    struct sigaction action = {.sa_handler = on_bus_error};
    spawn->run = run;
    spawn->news[0] = spawn->news[1] = spawn->gate[0] = spawn->gate[1] = -1;
    if (pipe2(spawn->news, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(spawn->gate, O_CLOEXEC) < 0)
        return print_error("no pipe for workers: %s", strerror(errno));
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    files_allow_most(); /* every worker has some */
    int error = start_all(spawn);
    return error ? print_error("only %d of %d workers can be started: %s; ask for fewer", nr_running(spawn),
                               run->nr_workers, strerror(error))
                 : 0;
}

static struct hand *hand_of(struct spawn *spawn, pid_t process)
{
    for (int32_t index = 0; index < spawn->run->nr_workers; index++)
        if (spawn->hands[index].running && spawn->hands[index].process == process)
            return &spawn->hands[index];
    return NULL;
}

static void bury(struct hand *hand, int status)
{
    hand->running = false;
    worker_died(hand->worker);
    if (WIFSIGNALED(status))
        bench_fail(hand->worker, 0, "its process was ended by signal %d (%s)", WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        bench_fail(hand->worker, 0, "its process ended with status %d", WEXITSTATUS(status));
    atomic_store(&hand->phase, PHASE_ENDED);
}

static void bury_dead(struct spawn *spawn, int flags)
{
    int status;
    pid_t process;
    while ((process = waitpid(-1, &status, flags)) > 0 || (process < 0 && errno == EINTR)) {
        struct hand *hand = hand_of(spawn, process);
        if (process > 0 && hand)
            bury(hand, status);
    }
}

static bool all_reached(const struct spawn *spawn, enum phase phase)
{
    for (int32_t index = 0; index < spawn->run->nr_workers; index++) {
        const struct hand *hand = &spawn->hands[index];
        if (hand->running && atomic_load_explicit(&hand->phase, memory_order_acquire) < (int)phase)
            return false;
    }
    return true;
}

static void drain_news(const struct spawn *spawn)
{
    char bytes[BENCH_WORKERS];
    while (read(spawn->news[0], bytes, sizeof bytes) > 0)
        ;
}

bool spawn_wait(struct spawn *spawn, enum phase phase, int64_t until_ns)
{
    struct pollfd news = {.fd = spawn->news[0], .events = POLLIN};
    int64_t wait_ns = until_ns - clock_now(CLOCK_MONOTONIC);
    if (all_reached(spawn, phase))
        return true;
    if (wait_ns > 100 * MILLISECOND_NS)
        wait_ns = 100 * MILLISECOND_NS;
    if (poll(&news, 1, wait_ns > 0 ? (int)((wait_ns + MILLISECOND_NS - 1) / MILLISECOND_NS) : 0) > 0)
        drain_news(spawn);
    if (spawn->run->job->processes)
        bury_dead(spawn, WNOHANG);
    return all_reached(spawn, phase);
}

void spawn_release(struct spawn *spawn, bool go)
{
    atomic_store(&spawn->go, go);
    close(spawn->gate[1]);
}

void spawn_gather(struct spawn *spawn)
{
    if (spawn->run->job->processes)
        bury_dead(spawn, 0);
    else
        for (int32_t index = 0; index < spawn->run->nr_workers; index++)
            if (spawn->hands[index].running)
                pthread_join(spawn->hands[index].thread, NULL);
    close(spawn->gate[0]);
    close(spawn->news[0]);
    close(spawn->news[1]);
}
