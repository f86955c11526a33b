/* Runs the workers of a repetition: threads or processes that start together. */
#ifndef ANDROSTEP_IOBENCH_WORKERS_H
#define ANDROSTEP_IOBENCH_WORKERS_H

#include "iobench/bench.h"

/* How far a run is, for who shows it: between 0 and 1, and what was done so far. */
struct workers_progress {
    double share;
    int64_t ops;
};

/* Refuses what a run has no memory for. Returns 0, or -1 after it complained. */
int workers_check(const struct bench_job *job);

/* Makes the memory of a run of `job`; NULL after it complained. */
struct bench_run *workers_make(const struct bench_job *job, int32_t repeat);

/*
 * Load, open, start together, work, close, verify, unload. Calls `show` (NULL: nobody looks) about ten times a
 * second while workers work.
 * Returns 0 when the run is whole; -1 when an error, a signal or a failed check ended it: run->invalid then says why.
 */
int workers_run(struct bench_run *run, const struct storage *storage,
                void (*show)(const struct workers_progress *progress, void *context), void *context);
void workers_free(struct bench_run *run);

/* stop.c: SIGINT, SIGTERM and SIGHUP set bench_stopping() instead of ending the program, also in the processes
 * that it makes afterwards. What writes beyond the limit of file sizes gets EFBIG, and what shows progress to nobody
 * any more EPIPE. Returns 0, or -1 after it complained. */
int workers_catch_signals(void);

/* validity.c: whether the cache was brought where it should be; whether workers did what they should. Return 0,
 * or -1 after bench_invalidate(). */
int workers_check_cache(struct bench_run *run);
int workers_check_work(struct bench_run *run);

/* worker.c: when the start is known; after the engine's work. */
void worker_start(struct bench_worker *worker);
void worker_end(struct bench_worker *worker);

/* Instead of worker_end, by the coordinator: what a process cost that died at its work is not known. */
void worker_died(struct bench_worker *worker);

#endif
