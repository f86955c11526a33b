/* Runs the workers of a repetition: threads or processes with a common start. */
#pragma once

#include "iobench/bench.h"

/* Progress of a run: between 0 and 1, and operations so far. */
struct workers_progress {
    double share;
    int64_t ops;
};

/* Check that a run fits in memory. Returns 0, or -1 after printing an error. */
int workers_check(const struct bench_job *job);

/* Allocate the memory of a run of `job`. Returns NULL after printing an error. */
struct bench_run *workers_make(const struct bench_job *job, int32_t repeat);

/* Run a repetition: load, open, start together, work, close, verify, unload. Calls `show` (or NULL) about ten times a
 * second while workers work. Returns 0 if the run is complete, or -1 after an error, a signal or a failed check;
 * run->invalid then says why. */
int workers_run(struct bench_run *run, const struct storage *storage,
                void (*show)(const struct workers_progress *progress, void *context), void *context);
void workers_free(struct bench_run *run);

/* stop.c: make SIGINT, SIGTERM and SIGHUP set bench_stopping() instead of ending the program, also in processes created
 * later. Writes beyond the limit of file sizes fail with EFBIG, and progress to a closed pipe with EPIPE. Returns 0, or
 * -1 after printing an error. */
int workers_catch_signals(void);

/* validity.c: check the state of the cache, and the work of the workers. Return 0, or -1 after bench_invalidate(). */
int workers_check_cache(struct bench_run *run);
int workers_check_work(struct bench_run *run);

/* worker.c: called when the start is known, and after the engine's work. */
void worker_start(struct bench_worker *worker);
void worker_end(struct bench_worker *worker);

/* Called by the coordinator instead of worker_end: the cost of a process that died is unknown. */
void worker_died(struct bench_worker *worker);
