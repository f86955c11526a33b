/* Data model of iobench:
 * - job: a requested measurement
 * - run: one repetition of a job
 * - worker: a thread or process of a run
 * - engine: code that performs the I/O of a workload */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/page_cache.h"
#include "common/rng.h"
#include "iobench/hist.h"
#include "iobench/meter.h"

#define BENCH_WORKERS  1024
#define BENCH_TEXT     256
#define BENCH_VERSIONS 2048 /* compile options of SQLite */

enum bench_workload { BENCH_FILE, BENCH_SQLITE, BENCH_POSTMARK };
extern const char *const bench_workloads[3]; /* file, sqlite, postmark */

/* Parts of an operation with separate latencies. The latency of a whole operation includes its parts. With a requested
 * rate it also includes the wait since the due time; each part counts from its own start. */
enum bench_part {
    PART_OP,     /* one operation: a record read or written and made durable, a transaction */
    PART_READ,   /* read(2) and the like; SELECT; PostMark's read of a file */
    PART_WRITE,  /* write(2) and the like, without the sync */
    PART_SYNC,   /* fsync, fdatasync, msync, sync_file_range or a barrier after a record */
    PART_FINISH, /* sync at the end of a worker's records */
    PART_BEGIN,  /* SQLite: BEGIN; with a shared database also the wait for its lock */
    PART_STATEMENT,
    PART_COMMIT,
    PART_CHECKPOINT,
    PART_CREATE, /* PostMark's transactions on files */
    PART_APPEND,
    PART_DELETE,
    PART_FILL,  /* creation of its files before the measurement, outside of the measured time */
    PART_CLEAR, /* deletion of the remaining files after the measurement, likewise */
    NR_PARTS
};
extern const char *const bench_parts[NR_PARTS]; /* their names: op, read, … */

enum file_access { ACCESS_READ, ACCESS_WRITE, ACCESS_APPEND, ACCESS_MIXED };

/* The sync after a record (fio: fsync=1 …); modes.h names the combinations. */
enum file_after {
    AFTER_NONE,
    AFTER_FSYNC,
    AFTER_FDATASYNC,
    AFTER_RANGE, /* sync_file_range over the record */
    AFTER_MSYNC_ASYNC,
    AFTER_MSYNC_SYNC,
    AFTER_FBARRIER,
    AFTER_FDATABARRIER,
};

struct file_mode {
    bool mapped;     /* records are copied to a mapping: needs an engine that maps the file */
    int open_flags;  /* of O_SYNC, O_DSYNC, O_DIRECT */
    int write_flags; /* RWF_DSYNC or 0 */
    enum file_after after;
    unsigned range_flags; /* of sync_file_range */
};

enum file_layout {
    LAYOUT_WRITTEN,   /* every block was written before: writes overwrite (fio: overwrite=1) */
    LAYOUT_ALLOCATED, /* fallocate: writes turn unwritten extents into written ones */
    LAYOUT_EMPTY,     /* writes extend the file */
};
extern const char *const file_layouts[3]; /* written, allocated, empty */

struct file_job {
    enum file_access access;
    bool random;
    int64_t read_percent; /* of ACCESS_MIXED */
    struct file_mode mode;
    int64_t after_every;  /* records between two calls of mode.after; 1: after each record */
    int64_t size, record; /* bytes of each file, bytes of one operation */
    enum file_layout layout;
    int64_t depth;   /* requests in flight of one worker; only some engines support more than 1 */
    int64_t overlap; /* percent of the records that repeat the offset of another one */
    int64_t loops;   /* passes over the file, if neither operations nor a duration are given */
    bool verify_all; /* verify all written records after the run instead of a sample */
};

enum sqlite_op { SQLITE_OP_INSERT, SQLITE_OP_UPDATE, SQLITE_OP_DELETE, SQLITE_OP_SELECT, SQLITE_OP_MIXED };

extern const char *const sqlite_synchronous[4]; /* OFF, NORMAL, FULL, EXTRA: index as in SQLite and Mobibench */

struct sqlite_job {
    enum sqlite_op op;
    int64_t mix[4];            /* weights of insert, update, delete, select in SQLITE_OP_MIXED */
    const char *journal_mode;  /* DELETE, TRUNCATE, PERSIST, WAL, MEMORY or OFF */
    const char *synchronous;   /* OFF, NORMAL, FULL or EXTRA */
    const char *checkpoint;    /* auto, none, or N: a passive one after every N transactions; timed separately */
    int64_t rows;              /* of one transaction, in each table */
    int64_t prefilled;         /* rows of each table before the measurement; -1: as many as the job needs */
    int64_t value, page;       /* bytes */
    int64_t tables, databases; /* of one connection; the first database is main, the others are attached */
    bool random_order;         /* order of inserted keys; updates, deletes and selects always have a random order */
    const char *library;       /* path or file name for dlopen; NULL: the linked library */
};

/* PostMark's parameters (Katcher, Network Appliance TR3022, 1997) with its defaults. */
struct postmark_job {
    int64_t files, transactions, least, most; /* least, most: bytes of a file */
    int64_t read_block, write_block;
    int64_t bias_read, bias_create; /* number of reads (else appends) and creates (else deletes) in ten; -1: none */
    int64_t subdirectories;
    bool buffered; /* stdio, as PostMark does by default */
};

struct bench_job {
    enum bench_workload workload;
    const struct bench_engine *engine;
    const char *name;
    const char *directory; /* parent of the directory that the run creates and removes */
    const char *filename;  /* an existing file or device instead; NULL: none */
    bool raw;              /* filename may be a block device: --raw and --i-know */
    bool overwrite;        /* filename may be an existing file that loses its data: --i-know */
    bool keep;             /* leave the files, and reuse those of an earlier run */
    int64_t threads;
    bool processes, shared; /* shared: one file or database for all workers */
    int64_t ops;            /* of all workers; 0: no limit */
    int64_t duration_ns, warmup_ns;
    int64_t rate;     /* operations per second of all workers, due at fixed times; 0: unlimited */
    int64_t think_ns; /* pause after each operation, not part of its latency */
    uint64_t seed;
    bool compat_rng;          /* use the orders of Mobibench */
    int64_t compress, dedupe; /* percent: compressible part of each record, records that repeat an earlier one */
    enum cache_state cache;   /* requested state; CACHE_UNKNOWN: unchanged */
    int64_t interval_ns;      /* of the time series */
    bool log_ops;
    bool final_sync; /* sync within the measured time, as end_fsync in Mobibench and fio */
    int64_t repeats;
    struct file_job file;
    struct sqlite_job sqlite;
    struct postmark_job postmark;
};

/* Return the name of a job's test, as in column `test` of table bench_runs: seq_write, rand_read, sqlite_insert,
 * postmark … */
const char *bench_test(const struct bench_job *job);

/* One logged operation (--log-ops). */
struct bench_logged {
    int64_t start_ns, latency_ns, bytes;
    enum bench_part part;
};

struct bench_window {
    int64_t ops, bytes;
};

struct bench_tally {
    int64_t ops, bytes;
    struct hist latency_ns;
};

struct bench_run;

/* A worker. Only the worker itself writes here until it ends; the coordinator only reads `begun` and the ops and bytes
 * of PART_OP. Lies in memory shared between processes. `message` at the end is written only on errors, so it
 * keeps the counters of two workers in different cache lines. */
struct bench_worker {
    struct bench_run *run;
    const struct bench_job *job;
    int32_t index;
    int64_t ops_asked;   /* after the warm-up: its share of job->ops, or as set by the engine's open; 0: no limit */
    void *state;         /* state of the engine */
    bool measuring;      /* the warm-up is over */
    int64_t begun;       /* operations started, including the warm-up */
    int64_t limit;       /* of begun */
    int64_t next_due_ns; /* due time of the next operation, if a rate is requested */
    int64_t paused_ns;   /* sleep for think_ns in the measured part, excluded from the time for rates */
    int64_t started_ns, ended_ns; /* of the measured part, CLOCK_MONOTONIC */
    struct bench_tally *parts;    /* NR_PARTS */
    struct usage usage;           /* of this thread or process, over the measured part */
    struct process_io io;         /* likewise; of a process only, not of a thread */
    int64_t rows_changed, busy;   /* SQLite: changed rows, waits for a lock */
    struct bench_window *windows;
    int64_t nr_windows, room_windows;
    int64_t window_end_ns; /* of the last one */
    struct bench_logged *log;
    int64_t nr_logged, room_logged, log_lost;
    int error; /* errno of what ended it early; 0: none */
    char message[BENCH_TEXT];
};

/* One repetition of one job. */
struct bench_run {
    const struct bench_job *job;
    int32_t repeat;
    char directory[4096];         /* directory of this run; empty if a file was named */
    bool made_parent;             /* job->directory was created by this run */
    int held;                     /* descriptor of the directory, or of the exclusively opened device; -1: none */
    int64_t start_ns, measure_ns; /* common start; start of the first measured operation. CLOCK_MONOTONIC */
    int64_t deadline_ns;          /* no operation starts after this */
    int64_t end_ns;               /* end of the last worker */
    atomic_bool stopping;         /* set by an error or a signal to end all workers */
    struct cache_found cache;
    struct system_usage system;        /* over the measured part: CPUs, device, process */
    char versions[BENCH_VERSIONS];     /* of SQLite: version and compile options */
    int64_t rows_expected, rows_found; /* SQLite: rows after the run; -1: not counted */
    char invalid[BENCH_TEXT];          /* why the results are invalid; empty: valid */
    bool interrupted;
    void *state; /* state of the engine for the whole run; created by load */
    int32_t nr_workers;
    struct bench_worker *workers;
};

/* An engine performs the I/O of a workload. All functions return 0, or -1 after print_error() (check, load, verify) or
 * bench_fail() (the others). `load` and `verify` run in the coordinator, before the workers start and after they end.
 * The others run in the worker. */
struct bench_engine {
    const char *name; /* of files: value of --ioengine */
    enum bench_workload workload;
    bool maps;                                  /* of files: implements the modes mmap, mmap_async and mmap_sync */
    const char *mode_word;                      /* of files: prefix of the name of a mode; NULL: none */
    size_t state_bytes;                         /* size of worker->state, zeroed before open; 0: open sets it */
    int (*check)(const struct bench_job *job);  /* reject an impossible job before anything is created; or NULL */
    int (*load)(struct bench_run *run);         /* create files and rows and bring the cache into the requested state */
    int (*open)(struct bench_worker *worker);   /* prepare descriptors, buffers and orders before the start */
    int (*work)(struct bench_worker *worker);   /* the measured part: `while (bench_next(...))` */
    void (*close)(struct bench_worker *worker); /* called if there is a worker->state, even if open or work failed */
    int (*verify)(struct bench_run *run);       /* verify what was written, or else set run->invalid; or NULL */
    void (*unload)(struct bench_run *run);      /* called after verify, and even if load failed */
};

/* All engines. A new engine is added here and nowhere else. The first engine of a workload is its default. */
#define BENCH_ENGINES(ENGINE)                                                                                          \
    ENGINE(file_psync)                                                                                                 \
    ENGINE(file_mmap)                                                                                                  \
    ENGINE(file_uring)                                                                                                 \
    ENGINE(sqlite_engine)                                                                                              \
    ENGINE(postmark_engine)

#define BENCH_DECLARE(engine) extern const struct bench_engine engine;
BENCH_ENGINES(BENCH_DECLARE)

/* engines.c: return the engine of a workload with this name (NULL: its default), or NULL if there is none. */
const struct bench_engine *bench_engine_find(enum bench_workload workload, const char *name);

/* List the engines of a workload: "psync, mmap, io_uring". */
#define BENCH_NAMES 256 /* bytes */
void bench_engine_names(enum bench_workload workload, char names[BENCH_NAMES]);

/* worker.c: functions for engines. */

/* Return the worker's share of a total; the first workers share the remainder. */
int64_t bench_share(const struct bench_worker *worker, int64_t all);

/* Return whether the worker should start another operation, and sleep until it is due. `*due_ns` is the due time, or
 * now if no rate is requested. Returns false at the end of the duration or of the operations, and when the run is
 * stopping. */
bool bench_next(struct bench_worker *worker, int64_t *due_ns);

/* Count an operation or a part of one. Those of the warm-up are ignored. */
void bench_count(struct bench_worker *worker, enum bench_part part, int64_t from_ns, int64_t to_ns, int64_t bytes);

/* End the worker with an error. `error` is an errno, or 0 if there is none. Returns -1. */
int bench_fail(struct bench_worker *worker, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* validity.c: mark a run as invalid and print why. Only the first reason is kept, because it explains the later ones.
 * Returns -1. */
int bench_invalidate(struct bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return whether SIGINT, SIGTERM or SIGHUP was received. Long load phases check it as well. */
bool bench_stopping(void);
