#include "ioreplay/run.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/errors.h"
#include "ioreplay/order.h"
#include "ioreplay/stop.h"

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

const char *const replay_mode_names[REPLAY_MODES] = {
    [REPLAY_AS_RECORDED] = "as_recorded", [REPLAY_AS_FAST] = "as_fast", [REPLAY_SCALED] = "scaled"};

struct workers {
    struct replay_run *run;
    struct replay_order order;
    struct worker *each;
    uint32_t made;
    pthread_t main;
    int64_t start_ns;    /* CLOCK_MONOTONIC, published by `go` */
    atomic_uint go;      /* 0: wait; 1: the start is known, or the replay is stopping */
    atomic_uint ready;   /* waiting threads */
    atomic_uint working; /* threads that have not ended */
    atomic_bool stopping;
};

/* Aligned to cache lines of its own. */
struct worker {
    alignas(128) struct workers *workers;
    pthread_t thread;
    uint32_t number;
    atomic_uint done;
    atomic_bool ended;
    struct replay_caller caller;
};

/* -- one thread --------------------------------------------------------------------------------------------------- */

static bool is_stopping(struct workers *workers)
{
    return atomic_load_explicit(&workers->stopping, memory_order_relaxed);
}

static int64_t scaled(int64_t ts_ns, int64_t scale_ppm)
{
    int64_t whole = ts_ns / scale_ppm, rest = ts_ns % scale_ppm, due_ns;

    if (__builtin_mul_overflow(whole, INT64_C(1000000), &due_ns))
        return MOST_NS;
    return due_ns + (int64_t)((double)rest * 1e6 / (double)scale_ppm);
}

int64_t replay_due_ns(const struct replay_run *run, const struct replay_operation *operation)
{
    int64_t due_ns = operation->ts_ns;

    if (run->mode == REPLAY_AS_FAST)
        return RECORD_NULL_INT64;
    if (run->mode == REPLAY_SCALED)
        due_ns = scaled(due_ns, run->scale_ppm);
    return due_ns < MOST_NS ? due_ns : MOST_NS;
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
static int64_t wait_for_others(struct workers *workers, uint32_t operation)
{
    int64_t since_ns;

    if (replay_order_ready(&workers->order, operation))
        return 0;
    since_ns = clock_now(CLOCK_MONOTONIC);
    while (!is_stopping(workers) && !replay_order_ready(&workers->order, operation))
        replay_order_sleep(&workers->order, operation);
    return clock_now(CLOCK_MONOTONIC) - since_ns;
}

/* Do the next operation. Returns false if it was omitted because the replay is stopping. */
static bool do_next(struct worker *worker, uint32_t number, struct replay_outcome *outcome)
{
    struct workers *workers = worker->workers;
    const struct replay_operation *operation = &workers->run->program->operations[number];
    int64_t due_ns = replay_due_ns(workers->run, operation), start_ns;

    replay_buffer_prepare(&worker->caller.buffer, operation);
    if (due_ns != RECORD_NULL_INT64)
        sleep_until(workers, workers->start_ns + due_ns);
    outcome->waited_ns = wait_for_others(workers, number);
    if (is_stopping(workers))
        return false;
    start_ns = clock_now(CLOCK_MONOTONIC);
    outcome->result = replay_do(&worker->caller, operation);
    outcome->latency_ns = clock_now(CLOCK_MONOTONIC) - start_ns;
    outcome->start_ns = start_ns - workers->start_ns;
    return outcome->result != -EINTR || !is_stopping(workers);
}

static void do_all(struct worker *worker)
{
    struct workers *workers = worker->workers;
    const struct replay_program *program = workers->run->program;
    uint32_t first = program->thread_first[worker->number], count = program->thread_first[worker->number + 1] - first;

    sleep_until(workers, workers->start_ns);
    for (uint32_t index = 0; index < count; index++) {
        uint32_t number = program->thread_operations[first + index];

        if (!do_next(worker, number, &workers->run->outcomes[first + index]))
            return;
        replay_order_ended(&workers->order, number);
        atomic_store_explicit(&worker->done, index + 1, memory_order_relaxed);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct workers *workers = worker->workers;

    atomic_fetch_add(&workers->ready, 1);
    while (!atomic_load(&workers->go))
        syscall(SYS_futex, &workers->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    do_all(worker);
    atomic_store(&worker->ended, true);
    if (atomic_fetch_sub(&workers->working, 1) == 1)
        pthread_kill(workers->main, REPLAY_NEWS);
    return NULL;
}

/* -- all threads ------------------------------------------------------------------------------------------------ */

static int make_threads(struct workers *workers)
{
    uint32_t threads = workers->run->program->nr_threads;
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
    workers->run->result = -error;
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
            pthread_kill(workers->each[number].thread, REPLAY_WAKE);
}

static uint64_t count_done(const struct workers *workers)
{
    uint64_t done = 0;

    for (uint32_t number = 0; number < workers->made; number++)
        done += atomic_load_explicit(&workers->each[number].done, memory_order_relaxed);
    return done;
}

static void watch(struct workers *workers, void (*show)(uint64_t done, uint64_t all))
{
    while (atomic_load(&workers->working)) {
        if (replay_stop_requested(is_stopping(workers) ? WAKE_NS : SHOW_NS)) {
            workers->run->interrupted = true;
            stop(workers);
        } else if (show) {
            show(count_done(workers), workers->run->program->nr_operations);
        }
    }
}

static void begin(struct workers *workers)
{
    struct replay_run *run = workers->run;

    while (atomic_load(&workers->ready) < workers->made)
        usleep(1000);
    run->ts_ns = -clock_offset(CLOCK_MONOTONIC);
    run->realtime_ns = clock_offset(CLOCK_REALTIME);
    workers->start_ns = clock_now(CLOCK_MONOTONIC) + HEAR_NS + (int64_t)workers->made * HEAR_EACH_NS;
    run->ts_ns += workers->start_ns;
    run->realtime_ns += run->ts_ns;
    release(workers);
}

static int64_t ns_of(const struct timeval *time)
{
    return (int64_t)time->tv_sec * SECOND_NS + (int64_t)time->tv_usec * 1000;
}

static void measure(struct replay_run *run, const struct rusage *before)
{
    struct rusage after;

    getrusage(RUSAGE_SELF, &after);
    run->cpu_user_ns = ns_of(&after.ru_utime) - ns_of(&before->ru_utime);
    run->cpu_system_ns = ns_of(&after.ru_stime) - ns_of(&before->ru_stime);
}

static void gather(struct workers *workers)
{
    struct replay_run *run = workers->run;

    for (uint32_t number = 0; number < workers->made; number++) {
        const struct replay_outcome *outcomes = run->outcomes + run->program->thread_first[number];

        pthread_join(workers->each[number].thread, NULL);
        run->done[number] = atomic_load(&workers->each[number].done);
        if (run->done[number]) {
            const struct replay_outcome *last = &outcomes[run->done[number] - 1];

            if (last->start_ns + last->latency_ns > run->duration_ns)
                run->duration_ns = last->start_ns + last->latency_ns;
        }
    }
}

static int run_workers(struct workers *workers, void (*show)(uint64_t done, uint64_t all))
{
    struct rusage before;
    int failed = make_threads(workers);

    getrusage(RUSAGE_SELF, &before);
    if (failed) {
        stop(workers);
        release(workers);
    } else {
        begin(workers);
    }
    watch(workers, failed ? NULL : show);
    measure(workers->run, &before);
    gather(workers);
    return failed;
}

/* Allocate touched memory: otherwise operations would pay for page faults of their outcomes. */
static void *touched(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory)
        memset(memory, 0xff, bytes);
    return memory;
}

static int make_workers(struct workers *workers, const struct replay_place *place)
{
    const struct replay_program *program = workers->run->program;
    size_t bytes = (program->nr_threads + (size_t)1) * sizeof *workers->each;

    workers->each = aligned_alloc(alignof(struct worker), bytes);
    if (!workers->each)
        return -1;
    memset(workers->each, 0, bytes);
    for (uint32_t number = 0; number < program->nr_threads; number++) {
        struct worker *worker = &workers->each[number];

        worker->workers = workers;
        worker->number = number;
        worker->caller.place = place;
        if (replay_buffer_open(&worker->caller.buffer, program, number, place->most_buffer))
            return -1;
    }
    return 0;
}

static int take_memory(struct workers *workers, const struct replay_place *place)
{
    struct replay_run *run = workers->run;
    const struct replay_program *program = run->program;

    run->outcomes = touched((program->nr_operations + (size_t)1) * sizeof *run->outcomes);
    run->done = calloc(program->nr_threads + (size_t)1, sizeof *run->done);
    if (!run->outcomes || !run->done || replay_order_make(&workers->order, program))
        return -1;
    return make_workers(workers, place);
}

static void free_memory(struct workers *workers)
{
    for (uint32_t number = 0; workers->each && number < workers->run->program->nr_threads; number++)
        replay_buffer_close(&workers->each[number].caller.buffer);
    replay_order_free(&workers->order);
    free(workers->each);
}

int replay_run(struct replay_run *run, const struct replay_place *place, void (*show)(uint64_t done, uint64_t all))
{
    struct workers workers = {.run = run, .main = pthread_self()};
    int failed = take_memory(&workers, place);

    if (failed) {
        run->result = -ENOMEM;
        print_error("no memory for %" PRIu32 " threads and the results of %" PRIu32 " operations",
                    run->program->nr_threads, run->program->nr_operations);
    } else {
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        failed = run_workers(&workers, show);
    }
    free_memory(&workers);
    return failed;
}

const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation)
{
    const struct replay_operation *of = &run->program->operations[operation];

    if (of->index >= run->done[of->thread])
        return NULL;
    return &run->outcomes[run->program->thread_first[of->thread] + of->index];
}

void replay_run_free(struct replay_run *run)
{
    free(run->outcomes);
    free(run->done);
    run->outcomes = NULL;
    run->done = NULL;
}
