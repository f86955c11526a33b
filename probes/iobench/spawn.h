/* The workers of a run as threads or processes: they open, wait for the common start, work and close. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "iobench/bench.h"

/* Progress of a worker. A dead worker is in the last phase. */
enum phase { PHASE_OPENING, PHASE_READY, PHASE_ENDED };

struct spawn;
struct hand {
    struct spawn *spawn;
    struct bench_worker *worker;
    atomic_int phase;
    bool running; /* still to be joined or reaped */
    pthread_t thread;
    pid_t process;
};

/* Lies in memory shared between processes, like `run`. */
struct spawn {
    struct bench_run *run;
    struct hand hands[BENCH_WORKERS];
    int news[2]; /* pipe with a byte for each change of a phase */
    int gate[2]; /* pipe on which workers wait; closing it releases them */
    atomic_bool go;
};

/* Start the workers, which then open. Returns 0, or -1 after printing an error; call the other functions in any
 * case. */
int spawn_start(struct spawn *spawn, struct bench_run *run);

/* Wait until all workers have reached `phase`, until `until_ns`, or for a tenth of a second; reap dead workers. Returns
 * whether all have reached the phase. */
bool spawn_wait(struct spawn *spawn, enum phase phase, int64_t until_ns);

/* Release the workers to work from run->start_ns on, or to end if `go` is false. */
void spawn_release(struct spawn *spawn, bool go);

/* Wait for the end of all workers. */
void spawn_gather(struct spawn *spawn);
