/* Parsing of the command line into a job. */
#pragma once

#include <stdio.h>

#include "iobench/bench.h"

/* A parsed command line: the job, and what to do with it. */
struct bench_plan {
    struct bench_job job;
    int64_t point;      /* index in the host's sweep */
    const char *record; /* file of records; NULL: none */
    bool dry_run, describe, help, version, quiet;
};

/* Parse the command line. Returns 0, or -1 after printing an error. Strings of the plan point into argv. */
int plan_parse(struct bench_plan *plan, int argc, char **argv);
int plan_help(FILE *out);

/* Arguments that are not stored in a job as they are, named after their options. Texts that were not given are NULL,
 * numbers without a fixed default -1. */
struct arguments {
    const char *rw, *mode, *ioengine, *sync_file_range, *sqlite_op, *journal_mode, *synchronous, *mix, *file_size;
    int64_t direct, sync, fsync, fdatasync, end_fsync, overwrite, fallocate, verify, thread, thinktime_us, cache,
        transactions, interval_ms;
    bool unbuffered;
};

/* Return whether an option stored its value in `into`. */
bool was_given(const void *into);

/* jobs.c: complete the job. Returns 0, or -1 after printing an error. */
int job_make(struct bench_job *job, const struct arguments *arguments);

/* checks.c: reject contradictory or impossible jobs. Returns 0, or -1 after printing an error. */
int job_check(const struct bench_job *job, const struct arguments *arguments, const char *record);
