/* Common code of the engines for files: layout of files, next record and verification.
 *
 * Workers with a file each visit all its records in an order of their own. In a mixed job, reads and writes have
 * separate orders.
 *
 * If all workers share one file (--shared, --filename), there is one order, and every worker gets a part of it. No two
 * workers then write to the same offset, and none reads from the cache what another has read. In sequence, the parts
 * are contiguous ranges (fio: offset_increment).
 *
 * With append, each record goes to the next worker that asks, so that the file grows at its end. Append is over when
 * the file is full. */
#pragma once

#include "common/payload.h"
#include "iobench/bench.h"

/* State of a run. Lies in memory shared between processes, except for the constant records of the orders. */
struct file_state {
    struct order reads, writes; /* of the shared file */
    uint64_t payload_seed;
    uint64_t appended; /* records of this file handed out so far */
    bool read_again;   /* a record was read a second time */
    struct checker checkers[];
};

/* A worker's part of an order. */
struct file_stream {
    struct order own; /* used if the order is not shared */
    const struct order *order;
    uint64_t first, count;
    uint64_t taken; /* records handed out so far */
};

/* A worker and its file. Engines embed it as the first member of their state. */
struct file_worker {
    int file;
    char path[4096];
    size_t record;          /* bytes */
    unsigned char *buffers; /* of one record each, `stride` bytes apart */
    size_t stride;
    struct file_stream reads, writes;
    struct rng choices; /* between read and write */
    struct payload payload;
    struct checker *checker;
    uint64_t *appended;          /* counter of appended records of the file; NULL: no append */
    uint64_t capacity;           /* most records that this worker may append */
    int64_t unsynced, low, high; /* writes since the last sync, and their range */
};

/* One operation. */
struct file_step {
    bool write;
    bool sync; /* mode.after follows, over the range from sync_offset */
    uint64_t record;
    int64_t offset, sync_offset, sync_bytes;
    int64_t due_ns, start_ns; /* due time and start */
};

bool file_is_shared(const struct bench_job *job);
uint64_t file_records(const struct bench_job *job); /* of each file */
bool file_reads(const struct bench_job *job);
bool file_writes(const struct bench_job *job);

/* Create the order in which a worker, or all workers of a shared file, visit the records. Returns 0, or -1 with errno
 * ENOMEM. */
int file_order(const struct bench_job *job, enum rng_use use, uint32_t worker, struct order *order);

/* file_run.c: implement the engines' functions of the same names. */
int file_check(const struct bench_job *job);
int file_load(struct bench_run *run);
int file_verify(struct bench_run *run);
void file_unload(struct bench_run *run);
#define FILE_ENGINE .workload = BENCH_FILE, .load = file_load, .verify = file_verify, .unload = file_unload

/* Open the file of a worker. Call file_close afterwards, even if it failed. */
int file_open(struct bench_worker *worker, struct file_worker *own, size_t nr_buffers);
void file_close(struct file_worker *own);

/* Prepare the next operation: fill `buffer` for a write, then wait until it is due. Returns false when the work is
 * over. */
bool file_next(struct bench_worker *worker, struct file_worker *own, void *buffer, struct file_step *step);

/* Count an operation: its record was transferred at done_ns, and its sync ended at end_ns. */
void file_count(struct bench_worker *worker, struct file_worker *own, const struct file_step *step, int64_t done_ns,
                int64_t end_ns);

/* Sync the file, or its mapping, at the end of a job with end_fsync. Returns 0, or -1 after bench_fail(). */
int file_finish(struct bench_worker *worker, const struct file_worker *own, void *map);

/* End the worker because its operation failed with an errno, or at the end of the file (`error` 0). Returns -1. */
int file_fail(struct bench_worker *worker, const struct file_worker *own, const struct file_step *step, int error);

/* End the worker because a sync failed. Returns -1. */
int file_fail_sync(struct bench_worker *worker, const struct file_worker *own, int error);
