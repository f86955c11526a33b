#define _GNU_SOURCE
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
#include "common/complain.h"
#include "ioreplay/order.h"
#include "ioreplay/stop.h"

#define SECOND_NS INT64_C(1000000000)

/* What a thread needs below a call of the sandbox. There may be ten thousand in 32 bits of addresses. */
#define STACK_BYTES 196608

/* Between the choice of the start and the start, so that all threads have heard of it and sleep until they are due. */
#define HEAR_NS      2000000
#define HEAR_EACH_NS 20000

#define SHOW_NS (SECOND_NS / 2)

/* How often threads that may be asleep are told to stop: a signal that comes just before the sleep is lost. */
#define WAKE_NS (SECOND_NS / 100)

/* No program is as long, and sums of it are still numbers: a hundred years. */
#define MOST_NS (INT64_C(36525) * 86400 * SECOND_NS)

const char *const replay_mode_names[REPLAY_MODES] = {
    [REPLAY_AS_RECORDED] = "as_recorded", [REPLAY_AS_FAST] = "as_fast", [REPLAY_SCALED] = "scaled"};

struct crew {
    struct replay_run *run;
    struct replay_order order;
    struct worker *workers;
    uint32_t made;
    pthread_t main;
    int64_t start_ns;    /* CLOCK_MONOTONIC, behind `go` */
    atomic_uint go;      /* 0: wait; 1: the start is known, or the replay is stopping */
    atomic_uint ready;   /* threads that wait */
    atomic_uint working; /* threads that have not ended */
    atomic_bool stopping;
};

/* Each has cache lines of its own. */
struct worker {
    alignas(128) struct crew *crew;
    pthread_t thread;
    uint32_t number;
    atomic_uint done;
    atomic_bool ended;
    struct replay_caller caller;
};

/* -- one thread --------------------------------------------------------------------------------------------------- */

static bool is_stopping(struct crew *crew)
{
    return atomic_load_explicit(&crew->stopping, memory_order_relaxed);
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

static void sleep_until(struct crew *crew, int64_t when_ns)
{
    struct timespec when = {.tv_sec = when_ns / SECOND_NS, .tv_nsec = when_ns % SECOND_NS};

    if (clock_now(CLOCK_MONOTONIC) >= when_ns)
        return;
    while (!is_stopping(crew) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

/* Returns how long it waited. The clock is read only where there is something to wait for. */
static int64_t wait_for_others(struct crew *crew, uint32_t operation)
{
    int64_t since_ns;

    if (replay_order_ready(&crew->order, operation))
        return 0;
    since_ns = clock_now(CLOCK_MONOTONIC);
    while (!is_stopping(crew) && !replay_order_ready(&crew->order, operation))
        replay_order_sleep(&crew->order, operation);
    return clock_now(CLOCK_MONOTONIC) - since_ns;
}

/* Returns whether it was done, and not left because the replay is stopping. */
static bool do_next(struct worker *worker, uint32_t number, struct replay_outcome *outcome)
{
    struct crew *crew = worker->crew;
    const struct replay_operation *operation = &crew->run->program->operations[number];
    int64_t due_ns = replay_due_ns(crew->run, operation), start_ns;

    replay_buffer_prepare(&worker->caller.buffer, operation);
    if (due_ns != RECORD_NULL_INT64)
        sleep_until(crew, crew->start_ns + due_ns);
    outcome->waited_ns = wait_for_others(crew, number);
    if (is_stopping(crew))
        return false;
    start_ns = clock_now(CLOCK_MONOTONIC);
    outcome->result = replay_do(&worker->caller, operation);
    outcome->latency_ns = clock_now(CLOCK_MONOTONIC) - start_ns;
    outcome->start_ns = start_ns - crew->start_ns;
    return outcome->result != -EINTR || !is_stopping(crew);
}

static void do_all(struct worker *worker)
{
    struct crew *crew = worker->crew;
    const struct replay_program *program = crew->run->program;
    uint32_t first = program->thread_first[worker->number], count = program->thread_first[worker->number + 1] - first;

    sleep_until(crew, crew->start_ns);
    for (uint32_t index = 0; index < count; index++) {
        uint32_t number = program->thread_operations[first + index];

        if (!do_next(worker, number, &crew->run->outcomes[first + index]))
            return;
        replay_order_ended(&crew->order, number);
        atomic_store_explicit(&worker->done, index + 1, memory_order_relaxed);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct crew *crew = worker->crew;

    atomic_fetch_add(&crew->ready, 1);
    while (!atomic_load(&crew->go))
        syscall(SYS_futex, &crew->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    do_all(worker);
    atomic_store(&worker->ended, true);
    if (atomic_fetch_sub(&crew->working, 1) == 1)
        pthread_kill(crew->main, REPLAY_NEWS);
    return NULL;
}

/* -- all of them -------------------------------------------------------------------------------------------------- */

static int make_threads(struct crew *crew)
{
    uint32_t threads = crew->run->program->nr_threads;
    pthread_attr_t attributes;
    int error = 0;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; crew->made < threads && !error; crew->made += !error) {
        struct worker *worker = &crew->workers[crew->made];

        atomic_fetch_add(&crew->working, 1);
        error = pthread_create(&worker->thread, &attributes, work, worker);
        if (error)
            atomic_fetch_sub(&crew->working, 1);
    }
    pthread_attr_destroy(&attributes);
    if (!error)
        return 0;
    crew->run->result = -error;
    return complain("thread %" PRIu32 " of %" PRIu32
                    " could not be made: %s; see ulimit -u and -v, and threads-max and "
                    "pid_max in /proc/sys/kernel",
                    crew->made + 1, threads, strerror(error));
}

static void release(struct crew *crew)
{
    atomic_store(&crew->go, 1);
    syscall(SYS_futex, &crew->go, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void stop(struct crew *crew)
{
    atomic_store(&crew->stopping, true);
    for (uint32_t number = 0; number < crew->made; number++)
        if (!atomic_load(&crew->workers[number].ended))
            pthread_kill(crew->workers[number].thread, REPLAY_WAKE);
}

static uint64_t count_done(const struct crew *crew)
{
    uint64_t done = 0;

    for (uint32_t number = 0; number < crew->made; number++)
        done += atomic_load_explicit(&crew->workers[number].done, memory_order_relaxed);
    return done;
}

static void watch(struct crew *crew, void (*show)(uint64_t done, uint64_t all))
{
    while (atomic_load(&crew->working)) {
        if (replay_stop_asked(is_stopping(crew) ? WAKE_NS : SHOW_NS)) {
            crew->run->interrupted = true;
            stop(crew);
        } else if (show) {
            show(count_done(crew), crew->run->program->nr_operations);
        }
    }
}

static void begin(struct crew *crew)
{
    struct replay_run *run = crew->run;

    while (atomic_load(&crew->ready) < crew->made)
        usleep(1000);
    run->ts_ns = -clock_offset(CLOCK_MONOTONIC);
    run->realtime_ns = clock_offset(CLOCK_REALTIME);
    crew->start_ns = clock_now(CLOCK_MONOTONIC) + HEAR_NS + (int64_t)crew->made * HEAR_EACH_NS;
    run->ts_ns += crew->start_ns;
    run->realtime_ns += run->ts_ns;
    release(crew);
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

static void gather(struct crew *crew)
{
    struct replay_run *run = crew->run;

    for (uint32_t number = 0; number < crew->made; number++) {
        const struct replay_outcome *outcomes = run->outcomes + run->program->thread_first[number];

        pthread_join(crew->workers[number].thread, NULL);
        run->done[number] = atomic_load(&crew->workers[number].done);
        if (run->done[number]) {
            const struct replay_outcome *last = &outcomes[run->done[number] - 1];

            if (last->start_ns + last->latency_ns > run->duration_ns)
                run->duration_ns = last->start_ns + last->latency_ns;
        }
    }
}

static int run_crew(struct crew *crew, void (*show)(uint64_t done, uint64_t all))
{
    struct rusage before;
    int failed = make_threads(crew);

    getrusage(RUSAGE_SELF, &before);
    if (failed) {
        stop(crew);
        release(crew);
    } else {
        begin(crew);
    }
    watch(crew, failed ? NULL : show);
    measure(crew->run, &before);
    gather(crew);
    return failed;
}

/* Memory that was never touched would cost the first operation whose outcome lies in a page a fault after it was due.
 */
static void *touched(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory)
        memset(memory, 0xff, bytes);
    return memory;
}

static int make_workers(struct crew *crew, const struct replay_place *place)
{
    const struct replay_program *program = crew->run->program;
    size_t bytes = (program->nr_threads + (size_t)1) * sizeof *crew->workers;

    crew->workers = aligned_alloc(alignof(struct worker), bytes);
    if (!crew->workers)
        return -1;
    memset(crew->workers, 0, bytes);
    for (uint32_t number = 0; number < program->nr_threads; number++) {
        struct worker *worker = &crew->workers[number];

        worker->crew = crew;
        worker->number = number;
        worker->caller.place = place;
        if (replay_buffer_open(&worker->caller.buffer, program, number, place->most_buffer))
            return -1;
    }
    return 0;
}

static int take_memory(struct crew *crew, const struct replay_place *place)
{
    struct replay_run *run = crew->run;
    const struct replay_program *program = run->program;

    run->outcomes = touched((program->nr_operations + (size_t)1) * sizeof *run->outcomes);
    run->done = calloc(program->nr_threads + (size_t)1, sizeof *run->done);
    if (!run->outcomes || !run->done || replay_order_make(&crew->order, program))
        return -1;
    return make_workers(crew, place);
}

static void free_memory(struct crew *crew)
{
    for (uint32_t number = 0; crew->workers && number < crew->run->program->nr_threads; number++)
        replay_buffer_close(&crew->workers[number].caller.buffer);
    replay_order_free(&crew->order);
    free(crew->workers);
}

int replay_run(struct replay_run *run, const struct replay_place *place, void (*show)(uint64_t done, uint64_t all))
{
    struct crew crew = {.run = run, .main = pthread_self()};
    int failed = take_memory(&crew, place);

    if (failed) {
        run->result = -ENOMEM;
        complain("no memory for %" PRIu32 " threads and the results of %" PRIu32 " operations",
                 run->program->nr_threads, run->program->nr_operations);
    } else {
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        failed = run_crew(&crew, show);
    }
    free_memory(&crew);
    return failed;
}

const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation)
{
    const struct replay_operation *found = &run->program->operations[operation];

    if (found->index >= run->done[found->thread])
        return NULL;
    return &run->outcomes[run->program->thread_first[found->thread] + found->index];
}

void replay_run_free(struct replay_run *run)
{
    free(run->outcomes);
    free(run->done);
    run->outcomes = NULL;
    run->done = NULL;
}
