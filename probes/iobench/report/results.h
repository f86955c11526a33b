/* Results of iobench for its reports. */
#pragma once

#include <stdio.h>

#include "common/record.h"
#include "iobench/bench.h"

/* Result of one finished repetition: the sums of its workers. */
struct bench_result {
    const struct bench_run *run;
    const struct bench_job *job;
    const struct storage *storage;
    const char *run_id;        /* the same for all repetitions of one point */
    int32_t point;             /* index in the sweep */
    struct bench_tally *parts; /* NR_PARTS, of all workers */
    struct usage usage;
    /* run->measure_ns in CLOCK_BOOTTIME and CLOCK_REALTIME; of a failed run the time of its failure */
    int64_t boottime_ns, realtime_ns;
    int64_t duration_ns;           /* from the end of the warm-up to the end of the last worker */
    int64_t paused_ns;             /* pauses for think_ns within it, of the worker that worked longest */
    int64_t windows_ns;            /* start of the workers' first windows, CLOCK_MONOTONIC: at or before measure_ns */
    double seconds;                /* duration_ns - paused_ns, the base of rates */
    double iops, bytes_per_second; /* of PART_OP */
};

/* Sum up the members from `parts` on. Windows before the first operation are dropped from `run`. Returns 0, or -1 after
 * printing an error. */
int result_make(struct bench_result *result, struct bench_run *run);
void result_free(struct bench_result *result);

/* Return whether the results are valid; if not, run->invalid says why. */
bool result_valid(const struct bench_result *result);

/* Return 0 only if the result is valid. Else return the errno of the worker that failed first, EINTR after a signal, or
 * EIO if verification failed. */
int result_error(const struct bench_result *result);

int result_print(FILE *out, const struct bench_result *result); /* print.c: for people */

/* record.c: write a repetition (FORMAT.md). `command` is the command line. */
extern const struct record_probe bench_probe;
void result_record(struct record *out, const struct bench_result *result, const char *command);

/* record_run.c: the record type of a repetition, with its settings, device and effect on the system. Returns 0, or -1
 * if the file cannot be written. */
extern const struct record_type bench_run_type;
int bench_run_add(struct record *out, const struct bench_result *result, const char *command);
