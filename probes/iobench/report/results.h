/* Results of iobench for its reports. */
#ifndef ANDROSTEP_IOBENCH_REPORT_RESULTS_H
#define ANDROSTEP_IOBENCH_REPORT_RESULTS_H

#include <stdio.h>

#include "common/record.h"
#include "iobench/bench.h"

/* Result of one finished repetition: the sums of the workers' tallies, and copies of everything that the next
 * repetition overwrites. */
struct bench_result {
    const struct bench_job *job;
    int32_t point, repeat; /* index in the sweep; index in the job */
    char run_id[40];       /* the same for all repetitions of one point */
    struct storage storage;
    struct bench_run run;      /* with copies of the workers, valid until results_free */
    struct bench_tally *parts; /* NR_PARTS, of all workers */
    struct usage usage;
    /* run.measure_ns in CLOCK_BOOTTIME and CLOCK_REALTIME; of a failed run the time of its failure */
    int64_t boottime_ns, realtime_ns;
    int64_t duration_ns;           /* from the end of the warm-up to the end of the last worker */
    int64_t paused_ns;             /* pauses for think_ns within it, of the worker that worked longest */
    int64_t windows_ns;            /* start of the workers' first windows, CLOCK_MONOTONIC: at or before measure_ns */
    double seconds;                /* duration_ns - paused_ns, the base of rates */
    double iops, bytes_per_second; /* of PART_OP */
};

struct bench_results {
    int argc;
    char **argv;
    struct bench_result *items; /* by point, then repetition */
    size_t count;
};

/* Copy the contents of `run` and sum them up. Returns 0, or -1 after printing an error. */
int results_add(struct bench_results *results, const struct bench_run *run, int point, const char *run_id,
                const struct storage *storage);
void results_free(struct bench_results *results);

/* Return whether the results are valid; if not, result->run.invalid says why. */
bool result_valid(const struct bench_result *result);

/* Return 0 only if the result is valid. Else return the errno of the worker that failed first, EINTR after a signal, or
 * EIO if verification failed. */
int result_error(const struct bench_result *result);

int results_print(FILE *out, const struct bench_results *results);         /* print.c: for people */
int results_record(const char *path, const struct bench_results *results); /* record.c: FORMAT.md */
extern const struct record_probe bench_probe;

/* record_run.c: the record type of a repetition, with its settings, device and effect on the system. Returns 0, or -1
 * if the file cannot be written. `command` is the command line. */
extern const struct record_type bench_run_type;
int bench_run_add(struct record *out, const struct bench_result *result, const char *command);

#endif
