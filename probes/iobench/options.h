/* Parsing of the command line into a job. */
#pragma once

#include <stdio.h>

#include "iobench/bench.h"

/* A parsed command line: the job, and what to do with it. */
struct bench_plan {
    struct bench_job job;
    int point;          /* index in the host's sweep */
    const char *record; /* file of records; NULL: none */
    bool dry_run, describe, help, version, quiet;
};

/* Parse the command line. Returns 0, or -1 after printing an error. Strings of the plan point into argv. */
int plan_parse(struct bench_plan *plan, int argc, char **argv);
int plan_help(FILE *out);

#define NOT_GIVEN INT64_MIN /* of numbers that were not given; texts are NULL */

/* Arguments of the command line, named after the options. */
struct arguments {
    enum bench_workload workload;
    const char *directory, *filename;
    bool raw, i_know, keep;
    const char *rw, *mode, *ioengine, *sync_file_range;
    int64_t rwmixread, verify, size, bs, direct, sync, fsync, fdatasync, end_fsync, iodepth, overwrite, fallocate,
        overlap, loops, compress, dedupe;
    bool compat_rng;
    int64_t numjobs, thread, number_ios, runtime, ramp_time, rate_iops, thinktime_us, randseed, cache;
    bool shared;
    const char *sqlite_op, *journal_mode, *synchronous, *checkpoint, *mix, *library;
    int64_t transactions, tables, databases, rows, value_size, prefilled, page_size;
    bool random_order;
    const char *file_size;
    int64_t files, read_block, write_block, bias_read, bias_create, subdirectories;
    bool unbuffered;
    int64_t repeats, interval_ms, point;
    bool log_ops;
    const char *record;
    bool quiet, dry_run, describe, version, help;
};

/* Return whether a number was given. */
bool given(int64_t number);

/* jobs.c: make the job with defaults for arguments that were not given. Returns 0, or -1 after printing an error. */
int job_make(struct bench_job *job, const struct arguments *arguments);

/* checks.c: reject contradictory or impossible jobs. Returns 0, or -1 after printing an error. */
int job_check(const struct bench_job *job, const struct arguments *arguments);
