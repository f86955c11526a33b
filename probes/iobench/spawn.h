/* The workers of a run as threads or processes: they open, wait at a common start, work and close. */
#ifndef ANDROSTEP_IOBENCH_SPAWN_H
#define ANDROSTEP_IOBENCH_SPAWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "iobench/bench.h"

/* How far a worker is. Who died is at the last. */
enum phase { PHASE_OPENING, PHASE_READY, PHASE_ENDED };

struct spawn;
struct hand {
    struct spawn *spawn;
    struct bench_worker *worker;
    atomic_int phase;
    bool running; /* to be joined or waited for */
    pthread_t thread;
    pid_t process;
};

/* Lies in memory that processes share, as `run` does. */
struct spawn {
    struct bench_run *run;
    struct hand hands[BENCH_WORKERS];
    int news[2]; /* a byte for each change of a phase */
    int gate[2]; /* its end lets workers go */
    atomic_bool go;
};

/* Starts the workers, which open. Returns 0 or -1 after it complained; then, too, call the others. */
int spawn_start(struct spawn *spawn, struct bench_run *run);

/* Waits until all workers have reached `phase`, `until_ns` has come, or a tenth of a second is over; notices workers
 * that died. True: all have reached it. */
bool spawn_wait(struct spawn *spawn, enum phase phase, int64_t until_ns);

/* Lets workers work from run->start_ns on, or sends them away where `go` is false. */
void spawn_release(struct spawn *spawn, bool go);

/* Waits for their end. */
void spawn_gather(struct spawn *spawn);

#endif
