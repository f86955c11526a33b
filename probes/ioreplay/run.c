#include "ioreplay/replay.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdalign.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/command.h"

#define SECOND_NS INT64_C(1000000000)

/* Stack for a call in the sandbox. Ten thousand threads must fit in 32 bits of addresses. */
#define STACK_BYTES 196608

/* Time between choosing the start and the start, so that all threads have woken up and sleep until their first
 * operation. */
#define HEAR_NS      2000000
#define HEAR_EACH_NS 20000

#define SHOW_NS (SECOND_NS / 2)

/* Interval of repeated signals to sleeping threads when stopping: a signal just before a sleep is lost. */
#define WAKE_NS (SECOND_NS / 100)

/* A hundred years, longer than any program; sums of it do not overflow. */
#define MOST_NS (INT64_C(36525) * 86400 * SECOND_NS)

/* Signals that interrupt the sleep of a thread, and that notify the main thread of an event. */
#define WAKE SIGUSR1
#define NEWS SIGUSR2

/* Aligned to cache lines of its own. */
struct worker {
    alignas(128) struct replay_run *run;
    pthread_t thread;
    uint32_t number;
    atomic_uint done;
    atomic_bool ended;
    struct replay_buffer buffer;
};

struct workers {
    uint32_t made;
    pthread_t main;
    int64_t start_ns;    /* CLOCK_MONOTONIC, published by `go` */
    atomic_uint go;      /* 0: wait; 1: the start is known, or the replay is stopping */
    atomic_uint ready;   /* waiting threads */
    atomic_uint working; /* threads that have not ended */
    atomic_bool stopping;
    struct worker *each;
};

/* -- signals ------------------------------------------------------------------------------------------------------ */

static sigset_t awaited;
static bool requested;

static void wake(int number)
{
    (void)number;
}

void replay_stop_prepare(void)
{
    struct sigaction waking = {.sa_handler = wake};
    command_end_signals(&awaited);
    sigaddset(&awaited, NEWS);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    sigemptyset(&waking.sa_mask);
    sigaction(WAKE, &waking, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

bool replay_stop_requested(int64_t wait_ns)
{
    struct timespec wait = {.tv_sec = wait_ns / SECOND_NS, .tv_nsec = wait_ns % SECOND_NS};
    int number = sigtimedwait(&awaited, NULL, &wait);
    requested |= number > 0 && number != NEWS;
    return requested;
}

/* -- one thread --------------------------------------------------------------------------------------------------- */

static bool is_stopping(struct workers *workers)
{
    return atomic_load_explicit(&workers->stopping, memory_order_relaxed);
}

int64_t replay_due_ns(const struct replay_run *run, const struct replay_operation *operation)
{
    if (run->mode == REPLAY_AS_FAST)
        return RECORD_NULL_INT64;
    if (run->mode == REPLAY_AS_RECORDED)
        return operation->ts_ns < MOST_NS ? operation->ts_ns : MOST_NS;
    double scaled_ns = (double)operation->ts_ns * 1e6 / (double)run->scale_ppm;
    return scaled_ns < (double)MOST_NS ? (int64_t)scaled_ns : MOST_NS;
}

static void sleep_until(struct workers *workers, int64_t when_ns)
{
    struct timespec when = {.tv_sec = when_ns / SECOND_NS, .tv_nsec = when_ns % SECOND_NS};
    if (clock_now(CLOCK_MONOTONIC) >= when_ns)
        return;
    while (!is_stopping(workers) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

/* Wait for other threads. Returns the waiting time; the clock is read only if there is something to wait for. */
static int64_t wait_for_others(struct replay_run *run, uint32_t operation)
{
    if (replay_order_ready(&run->order, operation))
        return 0;
    int64_t since_ns = clock_now(CLOCK_MONOTONIC);
    while (!is_stopping(run->workers) && !replay_order_ready(&run->order, operation))
        replay_order_sleep(&run->order, operation);
    return clock_now(CLOCK_MONOTONIC) - since_ns;
}

/* Do the next operation. Returns false if it was omitted because the replay is stopping. */
static bool do_next(struct worker *worker, uint32_t number, struct replay_outcome *outcome)
{
    struct replay_run *run = worker->run;
    struct workers *workers = run->workers;
    const struct replay_operation *operation = &run->program->operations[number];
    int64_t due_ns = replay_due_ns(run, operation), start_ns;
    replay_buffer_prepare(&worker->buffer, operation);
    if (due_ns != RECORD_NULL_INT64)
        sleep_until(workers, workers->start_ns + due_ns);
    outcome->waited_ns = wait_for_others(run, number);
    if (is_stopping(workers))
        return false;
    start_ns = clock_now(CLOCK_MONOTONIC);
    outcome->result = replay_do(&run->place, &worker->buffer, operation);
    outcome->latency_ns = clock_now(CLOCK_MONOTONIC) - start_ns;
    outcome->start_ns = start_ns - workers->start_ns;
    return outcome->result != -EINTR || !is_stopping(workers);
}

static void do_all(struct worker *worker)
{
    struct replay_run *run = worker->run;
    const struct replay_program *program = run->program;
    uint32_t first = program->thread_first[worker->number], count = program->thread_first[worker->number + 1] - first;
    sleep_until(run->workers, run->workers->start_ns);
    for (uint32_t index = 0; index < count; index++) {
        uint32_t number = program->thread_operations[first + index];
        if (!do_next(worker, number, &run->outcomes[first + index]))
            return;
        replay_order_ended(&run->order, number);
        atomic_store_explicit(&worker->done, index + 1, memory_order_relaxed);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct workers *workers = worker->run->workers;
    atomic_fetch_add(&workers->ready, 1);
    while (!atomic_load(&workers->go))
        syscall(SYS_futex, &workers->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    do_all(worker);
    atomic_store(&worker->ended, true);
    if (atomic_fetch_sub(&workers->working, 1) == 1)
        pthread_kill(workers->main, NEWS);
    return NULL;
}

/* -- all threads ------------------------------------------------------------------------------------------------ */

static int make_threads(struct replay_run *run)
{
    struct workers *workers = run->workers;
    uint32_t threads = run->program->nr_threads;
    pthread_attr_t attributes;
    int error = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; workers->made < threads && !error; workers->made += !error) {
        struct worker *worker = &workers->each[workers->made];
        atomic_fetch_add(&workers->working, 1);
        error = pthread_create(&worker->thread, &attributes, work, worker);
        if (error)
            atomic_fetch_sub(&workers->working, 1);
    }
    pthread_attr_destroy(&attributes);
    if (!error)
        return 0;
    run->result = -error;
    return print_error("thread %" PRIu32 " of %" PRIu32
                       " could not be made: %s; see ulimit -u and -v, and threads-max and "
                       "pid_max in /proc/sys/kernel",
                       workers->made + 1, threads, strerror(error));
}

static void release(struct workers *workers)
{
    atomic_store(&workers->go, 1);
    syscall(SYS_futex, &workers->go, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void stop(struct workers *workers)
{
    atomic_store(&workers->stopping, true);
    for (uint32_t number = 0; number < workers->made; number++)
        if (!atomic_load(&workers->each[number].ended))
            pthread_kill(workers->each[number].thread, WAKE);
}

static void watch(struct replay_run *run, void (*show)(int64_t done, int64_t all))
{
    struct workers *workers = run->workers;
    while (atomic_load(&workers->working)) {
        if (replay_stop_requested(is_stopping(workers) ? WAKE_NS : SHOW_NS)) {
            run->interrupted = true;
            stop(workers);
        } else if (show) {
            int64_t done = 0;
            for (uint32_t number = 0; number < workers->made; number++)
                done += atomic_load_explicit(&workers->each[number].done, memory_order_relaxed);
            show(done, run->program->nr_operations);
        }
    }
}

static void begin(struct replay_run *run)
{
    struct workers *workers = run->workers;
    while (atomic_load(&workers->ready) < workers->made)
        usleep(1000);
    run->ts_ns = -clock_offset(CLOCK_MONOTONIC);
    run->realtime_ns = clock_offset(CLOCK_REALTIME);
    workers->start_ns = clock_now(CLOCK_MONOTONIC) + HEAR_NS + (int64_t)workers->made * HEAR_EACH_NS;
    run->ts_ns += workers->start_ns;
    run->realtime_ns += run->ts_ns;
    release(workers);
}

static int64_t ns_between(const struct timeval *after, const struct timeval *before)
{
    return (after->tv_sec - before->tv_sec) * SECOND_NS + (after->tv_usec - before->tv_usec) * INT64_C(1000);
}

static void gather(struct replay_run *run)
{
    for (uint32_t number = 0; number < run->workers->made; number++) {
        struct worker *worker = &run->workers->each[number];
        pthread_join(worker->thread, NULL);
        run->done[number] = atomic_load(&worker->done);
        const struct replay_outcome *last = run->outcomes + run->program->thread_first[number] + run->done[number] - 1;
        if (run->done[number] && last->start_ns + last->latency_ns > run->duration_ns)
            run->duration_ns = last->start_ns + last->latency_ns;
    }
}

int replay_run(struct replay_run *run, void (*show)(int64_t done, int64_t all))
{
    struct rusage before, after;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    int failed = make_threads(run);
    getrusage(RUSAGE_SELF, &before);
    if (failed) {
        stop(run->workers);
        release(run->workers);
    } else {
        begin(run);
    }
    watch(run, failed ? NULL : show);
    getrusage(RUSAGE_SELF, &after);
    run->cpu_user_ns = ns_between(&after.ru_utime, &before.ru_utime);
    run->cpu_system_ns = ns_between(&after.ru_stime, &before.ru_stime);
    gather(run);
    return failed;
}

/* The outcomes are touched: otherwise operations would pay for page faults of their outcomes. */
void replay_run_make(struct replay_run *run)
{
    const struct replay_program *program = run->program;
    size_t most = replay_buffer_most(program), outcomes = program->nr_operations + (size_t)1;
    run->place.program = program;
    run->place.descriptors = replay_descriptors_make(program->nr_descriptors);
    run->place.mappings = replay_mappings_make(program);
    replay_order_make(&run->order, program);
    run->outcomes = grow(NULL, outcomes, sizeof *run->outcomes);
    memset(run->outcomes, 0xff, outcomes * sizeof *run->outcomes);
    run->done = zeroed(program->nr_threads, sizeof *run->done);
    run->workers = zeroed(1, sizeof *run->workers);
    run->workers->main = pthread_self();
    run->workers->each = aligned(alignof(struct worker), program->nr_threads * sizeof(struct worker));
    for (uint32_t number = 0; number < program->nr_threads; number++) {
        struct worker *worker = &run->workers->each[number];
        worker->run = run;
        worker->number = number;
        replay_buffer_open(&worker->buffer, program, number, most);
    }
}

const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation)
{
    const struct replay_operation *of = &run->program->operations[operation];
    if (of->index >= run->done[of->thread])
        return NULL;
    return &run->outcomes[run->program->thread_first[of->thread] + of->index];
}
