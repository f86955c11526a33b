/* Declarations shared by the files of the PostMark engine. */
#pragma once

#include "common/payload.h"
#include "iobench/bench.h"
#include "iobench/postmark/pool.h"

struct postmark_worker {
    const struct postmark_job *job;
    struct pool pool;
    struct rng choices;
    struct payload payload;
    unsigned char *buffer;
    size_t read_bytes, write_bytes; /* of one call */
    struct bench_tally filled;
};

/* files.c: operations on one file. Return 0 (or the file), or -1 (or NULL) with errno set. */

/* Append `bytes` to a file, opened with additional `flags`. */
int postmark_write(struct postmark_worker *own, const char *path, int flags, int64_t bytes);

/* Read a file; errno ENODATA: it is shorter than `bytes`. */
int postmark_read(struct postmark_worker *own, const char *path, int64_t bytes);

/* Append a file to the pool and write it. */
const struct pool_file *postmark_create(struct postmark_worker *own, char path[POOL_PATH]);

void postmark_count(struct bench_tally *tally, int64_t from_ns, int64_t to_ns, int64_t bytes);

/* load.c: create the pool before the measurement; for struct bench_engine. */
int postmark_load(struct bench_run *run);
void postmark_unload(struct bench_run *run);
