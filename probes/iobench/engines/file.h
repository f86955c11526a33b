/*
 * What the engines that read and write records of files share: what is there before, which record is next, and what
 * must be there afterwards.
 *
 * Workers with a file each visit all its records, in an order of their own; reads and writes of a mixed job each have
 * their own order. Where all share one file (--shared, --filename) there is one order for all, of which every worker
 * gets a part: no two write to the same place, and no one finds in the cache what another has read. In sequence, the
 * parts are contiguous ranges (fio: offset_increment). Append gives each record to the worker that asks next, so that
 * the file grows at its end; it is over when the file is full.
 */
#ifndef ANDROSTEP_IOBENCH_ENGINES_FILE_H
#define ANDROSTEP_IOBENCH_ENGINES_FILE_H

#include "common/payload.h"
#include "iobench/bench.h"
#include "iobench/order.h"
#include "iobench/witness.h"

/* Of a run. Lies in memory that processes share, but for the records of the orders, which nobody changes. */
struct file_state {
    struct order reads, writes; /* of the one file that all share */
    uint64_t payload_seed;
    uint64_t appended; /* records given out of that file */
    bool read_again;   /* somebody came to a record a second time, to read it */
    struct witness witnesses[];
};

/* A worker's part of an order. */
struct file_stream {
    struct order own; /* where the order is not shared */
    const struct order *order;
    uint64_t first, count;
    uint64_t taken; /* so many records were given out */
};

/* A worker at its file. Engines embed it as their state's first member. */
struct file_worker {
    int file;
    char path[4096];
    size_t record;          /* bytes */
    unsigned char *buffers; /* each a record long, `stride` bytes apart */
    size_t stride;
    struct file_stream reads, writes;
    struct rng choices; /* read or write */
    struct payload payload;
    struct witness *witness;
    uint64_t *appended;          /* records of the file that were given out; NULL: no append */
    uint64_t capacity;           /* records that this worker may append */
    int64_t unsynced, low, high; /* writes since the last sync, and where they lie */
};

/* One operation. */
struct file_step {
    bool write;
    bool sync; /* mode.after follows, over what lies from sync_offset on */
    uint64_t record;
    int64_t offset, sync_offset, sync_bytes;
    int64_t due_ns, start_ns; /* it was due; it began */
};

bool file_is_shared(const struct bench_job *job);
uint64_t file_records(const struct bench_job *job); /* of each file */
bool file_reads(const struct bench_job *job);
bool file_writes(const struct bench_job *job);

/* The order in which a worker, or all of one file together, visit all records. Returns 0, or -1 with errno ENOMEM. */
int file_order(const struct bench_job *job, enum rng_use use, uint32_t worker, struct order *order);

/* file_run.c: parts of the engines' functions of the same names. */
int file_check(const struct bench_job *job);
int file_load(struct bench_run *run);
int file_verify(struct bench_run *run);
void file_unload(struct bench_run *run);

/* After file_open, failed or not, file_close is due. */
int file_open(struct bench_worker *worker, struct file_worker *own, size_t nr_buffers);
void file_close(struct file_worker *own);

/* Takes the next operation: fills `buffer` where it writes, then waits until it is due. False when the work is over. */
bool file_next(struct bench_worker *worker, struct file_worker *own, void *buffer, struct file_step *step);

/* Counts an operation: its record was moved at done_ns, and what follows a write was over at end_ns. */
void file_count(struct bench_worker *worker, struct file_worker *own, const struct file_step *step, int64_t done_ns,
                int64_t end_ns);

/* The sync at the end, where the job has one: of the file, or of its mapping. Returns 0, or -1 after bench_fail(). */
int file_finish(struct bench_worker *worker, const struct file_worker *own, void *map);

/* Ends the worker because its operation failed: by errno, or because the file ends there (`error` 0). Returns -1. */
int file_fail(struct bench_worker *worker, const struct file_worker *own, const struct file_step *step, int error);

/* Ends the worker because of what follows a write. Returns -1. */
int file_fail_sync(struct bench_worker *worker, const struct file_worker *own, int error);

#endif
