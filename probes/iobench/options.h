/* From the command line to jobs. */
#ifndef ANDROSTEP_IOBENCH_OPTIONS_H
#define ANDROSTEP_IOBENCH_OPTIONS_H

#include <stdio.h>

#include "iobench/bench.h"

enum bench_output { OUTPUT_HUMAN, OUTPUT_MOBIBENCH };

/* The whole command line: the points of a sweep are jobs, and what to do with them. */
struct bench_plan {
    struct bench_job *jobs;
    int nr_jobs;
    struct sweep *sweeps; /* what the jobs' texts may point into */
    int nr_sweeps;
    enum bench_output output;
    const char *record;      /* file of records; NULL: none */
    const char *latency_log; /* Mobibench's -L; NULL: none */
    const char *iops_log;    /* Mobibench's -k; NULL: none */
    bool to_fio, describe, help, version, quiet;
};

/* Returns 0, or -1 after it complained. Strings of the plan point into argv or belong to it until plan_free. */
int plan_parse(struct bench_plan *plan, int argc, char **argv);
int plan_help(FILE *out);
void plan_free(struct bench_plan *plan);

/* Prints jobs as a fio job file. Returns 0, -1 where it cannot be written, or -1 after it complained that fio has no
 * such thing. */
int plan_to_fio(FILE *out, const struct bench_plan *plan);

#endif
