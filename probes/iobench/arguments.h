/* What a command line of iobench says, before it is a job. */
#ifndef ANDROSTEP_IOBENCH_ARGUMENTS_H
#define ANDROSTEP_IOBENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/opts.h"
#include "iobench/bench.h"
#include "iobench/options.h"

#define NOT_GIVEN INT64_MIN /* of numbers; texts are NULL */

/* Named as the options are; the letters are Mobibench's where its unit is another. */
struct arguments {
    enum bench_workload workload;
    const char *directory, *filename;
    bool raw, i_know, keep;
    const char *rw, *mode, *sync_file_range;
    int64_t rwmixread, verify, size, f_kb, bs, r_kb, ioengine, direct, sync, fsync, fdatasync, end_fsync, iodepth,
        overwrite, fallocate, overlap, loops, compress, dedupe;
    bool compat_rng;
    int64_t numjobs, thread, number_ios, runtime, ramp_time, rate_iops, thinktime_us, i_ms, randseed, cache;
    bool shared;
    const char *sqlite_op, *journal_mode, *synchronous, *checkpoint, *mix, *library, *r_dummy;
    int64_t transactions, tables, databases, rows, value_size, prefilled, page_size;
    bool random_order;
    const char *file_size;
    int64_t files, read_block, write_block, bias_read, bias_create, subdirectories;
    bool unbuffered;
    int64_t repeats, interval_ms;
    struct opt_list sweeps;
    bool log_ops;
    int64_t output;
    const char *record, *latency_log, *iops_log, *script;
    bool quiet, to_fio, describe, version, help;
};

/* options.c: the table of all options. */
extern const struct opts arguments_table;

/* Takes a command line as a whole; lists in `into` last until the next call. Returns 0, or -1 after it complained. */
int arguments_parse(struct arguments *into, int argc, char **argv);
void arguments_forget(void);

/* Of the command line taken last: whether it has `opt`; whether `opt` tells of a job, or else of all that is done. */
bool arguments_have(const struct opt *opt);
bool arguments_of_job(const struct opt *opt);

/* Whether a number was in the command line. */
bool given(int64_t number);

/* jobs.c: what is asked for with the defaults filled in. Returns 0, or -1 after it complained. */
int job_make(struct bench_job *job, const struct arguments *arguments);

/* checks.c: refuses what contradicts itself or cannot be measured. Returns 0, or -1 after it complained. */
int job_check(const struct bench_job *job, const struct arguments *arguments);

/* sweep.c: one option that takes several values in turn. */
struct sweep {
    const struct opt *opt;
    char **words; /* "--name=value" for each value */
    int count;
};

/* Takes NAME=V1,V2,… or NAME=LOW..HIGH. Returns 0, or -1 after it complained; then too, sweep_free what it made. */
int sweep_parse(struct sweep *sweep, const struct opts *opts, const char *text);
void sweep_free(struct sweep *sweep);

#endif
