/* What iobench found, for those who print it. */
#ifndef ANDROSTEP_IOBENCH_REPORT_RESULTS_H
#define ANDROSTEP_IOBENCH_REPORT_RESULTS_H

#include <stdio.h>

#include "common/record.h"
#include "iobench/bench.h"

/* One repetition when it is over: the workers' tallies summed, and nothing that the next repetition overwrites. */
struct bench_result {
    const struct bench_job *job;
    int32_t point, repeat; /* of the sweep; of the job */
    char run_id[40];       /* the same for all repetitions of one point */
    struct storage storage;
    struct bench_run run;      /* workers are copied: valid until results_free */
    struct bench_tally *parts; /* NR_PARTS, of all workers */
    struct usage usage;
    int64_t boottime_ns, realtime_ns; /* run.measure_ns by CLOCK_BOOTTIME and by CLOCK_REALTIME; else when it failed */
    int64_t duration_ns;              /* from the end of the warm-up to the end of the last worker */
    int64_t paused_ns;                /* of that, not worked for think_ns: by the worker that worked longest */
    int64_t windows_ns;            /* start of the workers' first windows, CLOCK_MONOTONIC: at or before measure_ns */
    double seconds;                /* the difference of these: what rates are taken over */
    double iops, bytes_per_second; /* of PART_OP */
};

struct bench_results {
    int argc;
    char **argv;
    struct bench_result *items; /* by point, then repetition */
    size_t count;
};

/* Copies what `run` holds and sums it up. Returns 0, or -1 and complains. */
int results_add(struct bench_results *results, const struct bench_run *run, int point, const char *run_id,
                const struct storage *storage);
void results_free(struct bench_results *results);

/* Whether the numbers can be believed; where not, result->run.invalid says why. */
bool result_valid(const struct bench_result *result);

/* 0 only where the result is valid. The errno of the worker that failed first, EINTR after a signal, else EIO: what was
 * to be done was not what was found done. */
int result_error(const struct bench_result *result);

int results_print(FILE *out, const struct bench_results *results);         /* print.c: for people */
int results_record(const char *path, const struct bench_results *results); /* record.c: FORMAT.md */
extern const struct record_probe bench_probe;

/* record_run.c: the record type of a repetition: what was asked for, on what, and what it did to the system. Returns 0,
 * or -1 when the file cannot be written. `command` is the command line. */
extern const struct record_type bench_run_type;
int bench_run_add(struct record *out, const struct bench_result *result, const char *command);

#endif
