/*
 * What iobench measures: jobs, what is asked for; runs, one repetition of a job; workers, its threads or processes;
 * and engines, which do the I/O.
 */
#ifndef ANDROSTEP_IOBENCH_BENCH_H
#define ANDROSTEP_IOBENCH_BENCH_H

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

/* What a latency was spent on. A whole operation includes its parts, and where operations have a due time (a rate is
 * asked for) also the wait since then; the parts count from their own start. */
enum bench_part {
    PART_OP,     /* one operation: a record read or written and made durable, a transaction */
    PART_READ,   /* read(2) and the like; SELECT; PostMark's read of a file */
    PART_WRITE,  /* write(2) and the like, without what makes it durable */
    PART_SYNC,   /* fsync, fdatasync, msync, sync_file_range, a barrier: after a record */
    PART_FINISH, /* the sync at the end of a worker's records */
    PART_BEGIN,  /* SQLite: BEGIN; with a shared database the wait for its lock */
    PART_STATEMENT,
    PART_COMMIT,
    PART_CHECKPOINT,
    PART_CREATE, /* PostMark's transactions on files */
    PART_APPEND,
    PART_DELETE,
    PART_FILL,  /* its creation of the files before the measurement: no part of the measured time */
    PART_CLEAR, /* and the deletion of what is left, after it */
    NR_PARTS
};
extern const char *const bench_parts[NR_PARTS]; /* their names: op, read, … */

enum file_access { ACCESS_READ, ACCESS_WRITE, ACCESS_APPEND, ACCESS_MIXED };

/* What follows every record (fio: fsync=1 …), in modes.h the named combinations. */
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
    bool mapped;     /* records lie in memory: needs an engine that maps the file */
    int open_flags;  /* of O_SYNC, O_DSYNC, O_DIRECT */
    int write_flags; /* RWF_DSYNC or 0 */
    enum file_after after;
    unsigned range_flags; /* of sync_file_range */
};

enum file_layout {
    LAYOUT_WRITTEN,   /* every block written before: writes overwrite (fio: overwrite=1) */
    LAYOUT_ALLOCATED, /* fallocate: writes turn unwritten extents into written ones */
    LAYOUT_EMPTY,     /* writes extend the file */
};
extern const char *const file_layouts[3]; /* written, allocated, empty */

struct file_job {
    enum file_access access;
    bool random;
    int64_t read_percent; /* of ACCESS_MIXED */
    struct file_mode mode;
    int64_t after_every;  /* records between two of mode.after; 1: after each */
    int64_t size, record; /* bytes: of each file, of one operation */
    enum file_layout layout;
    int64_t depth;   /* requests in flight of one worker; more than 1 only some engines can */
    int64_t overlap; /* percent of the records that revisit another one's place */
    int64_t loops;   /* how often the file is gone over, where neither operations nor a duration are given */
    bool verify_all; /* afterwards look at all records that were written, not at a sample */
};

enum sqlite_op { SQLITE_OP_INSERT, SQLITE_OP_UPDATE, SQLITE_OP_DELETE, SQLITE_OP_SELECT, SQLITE_OP_MIXED };

extern const char *const sqlite_synchronous[4]; /* OFF, NORMAL, FULL, EXTRA: as SQLite and Mobibench number them */

struct sqlite_job {
    enum sqlite_op op;
    int64_t mix[4];            /* weights of insert, update, delete, select in SQLITE_OP_MIXED */
    const char *journal_mode;  /* DELETE, TRUNCATE, PERSIST, WAL, MEMORY or OFF */
    const char *synchronous;   /* OFF, NORMAL, FULL or EXTRA */
    const char *checkpoint;    /* auto, none, or N: a passive one after every N transactions; always timed apart */
    int64_t rows;              /* of one transaction, in every table */
    int64_t prefilled;         /* rows of every table before the measurement; -1: as many as the job needs */
    int64_t value, page;       /* bytes */
    int64_t tables, databases; /* of one connection; the first database is main, the others are attached */
    bool random_order;         /* of the keys of inserts; updates, deletes and selects are random always */
    const char *library;       /* NULL: the one linked in; a path or file name for dlopen */
};

/* PostMark's parameters (Katcher, Network Appliance TR3022, 1997) with its defaults. */
struct postmark_job {
    int64_t files, transactions, least, most; /* least, most: bytes of a file */
    int64_t read_block, write_block;
    int64_t bias_read,
        bias_create; /* 0..10: of ten, how many are reads (else appends), creates (else deletes); -1: none */
    int64_t subdirectories;
    bool buffered; /* stdio, as PostMark does by default */
};

struct bench_job {
    enum bench_workload workload;
    const struct bench_engine *engine;
    const char *name;
    const char *directory; /* the run makes a directory of its own in it, and removes it */
    const char *filename;  /* instead: this file or device; NULL: none */
    bool raw;              /* filename may be a block device: --raw and --i-know */
    bool overwrite;        /* filename may be an existing file that loses its data: --i-know */
    bool keep;             /* leave the files, and use what an earlier run left */
    int64_t threads;
    bool processes, shared; /* shared: one file or database for all workers */
    int64_t ops;            /* of all workers together; 0: no limit */
    int64_t duration_ns, warmup_ns;
    int64_t rate;     /* operations per second of all workers together, due at fixed times; 0: as fast as they go */
    int64_t think_ns; /* pause after each operation, not part of its latency */
    uint64_t seed;
    bool compat_rng;          /* Mobibench's orders */
    int64_t compress, dedupe; /* percent: how far a payload can be compressed, how many records repeat an earlier one */
    enum cache_state cache;   /* asked for; CACHE_UNKNOWN: left as it is */
    int64_t interval_ns;      /* of the time series */
    bool log_ops;
    bool final_sync; /* Mobibench's and fio's end_fsync: within the measured time */
    int64_t repeats;
    struct file_job file;
    struct sqlite_job sqlite;
    struct postmark_job postmark;
};

/* Which test a job is, as in column `test` of table bench_runs: seq_write, rand_read, sqlite_insert, postmark … */
const char *bench_test(const struct bench_job *job);

/* One operation, for those who asked for each. */
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

/*
 * Everything here is written by the worker alone until it has ended; others look at begun and at the ops and bytes of
 * PART_OP meanwhile. Lies in memory that processes share. `message` at the end, which is not written while all is well,
 * keeps the counters of two workers in different cache lines.
 */
struct bench_worker {
    struct bench_run *run;
    const struct bench_job *job;
    int32_t index;
    int64_t ops_asked;   /* after the warm-up: its share of job->ops, or what the engine's open says; 0: no limit */
    void *state;         /* the engine's */
    bool measuring;      /* the warm-up is over */
    int64_t begun;       /* operations started, warm-up included */
    int64_t limit;       /* of begun */
    int64_t next_due_ns; /* of the next operation, where a rate is asked for */
    int64_t paused_ns;   /* of the measured part: asleep for think_ns, taken off its time in rates */
    int64_t started_ns, ended_ns; /* of the measured part, CLOCK_MONOTONIC */
    struct bench_tally *parts;    /* NR_PARTS */
    struct usage usage;           /* of this thread or process, over the measured part */
    struct process_io io;         /* likewise; of a process, nothing of a thread */
    int64_t rows_changed, busy;   /* SQLite */
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
    char directory[4096];         /* the run's own; empty where a file was named */
    bool made_parent;             /* job->directory was not there before */
    int held;                     /* descriptor of directory, or of the device, kept from others; -1: none */
    int64_t start_ns, measure_ns; /* workers were let go; the first operation that is measured began. CLOCK_MONOTONIC */
    int64_t deadline_ns;          /* from here on no operation begins */
    int64_t end_ns;               /* the last worker ended */
    atomic_bool stopping;         /* an error or a signal ends all workers */
    struct cache_found cache;
    struct system_usage system;        /* over the measured part: CPUs, device, process */
    char versions[BENCH_VERSIONS];     /* of SQLite: version and compile options */
    int64_t rows_expected, rows_found; /* SQLite: after the run; -1: not counted */
    char invalid[BENCH_TEXT];          /* why the numbers are not to be believed; empty: valid */
    bool interrupted;
    void *state; /* the engine's, of the whole run; made by load */
    int32_t nr_workers;
    struct bench_worker *workers;
};

/*
 * Does the I/O of a workload. All return 0, or -1 after complain() (check, load, verify) or bench_fail() (the others).
 * `load` and `verify` run in the coordinator before workers exist and after they are gone; the others in the worker.
 */
struct bench_engine {
    const char *name; /* of files: what --ioengine calls it */
    enum bench_workload workload;
    bool maps;                                  /* of files: its modes are mmap, mmap_async and mmap_sync */
    const char *mode_word;                      /* of files: stands before the name of a mode; NULL: nothing */
    size_t state_bytes;                         /* of worker->state, zeroed before open; 0: open sets it */
    int (*check)(const struct bench_job *job);  /* refuses what cannot be done, before anything is made; or NULL */
    int (*load)(struct bench_run *run);         /* makes files and rows, brings the cache into the state asked for */
    int (*open)(struct bench_worker *worker);   /* before the start: descriptors, buffers, orders */
    int (*work)(struct bench_worker *worker);   /* measured: `while (bench_next(...))` */
    void (*close)(struct bench_worker *worker); /* where there is a worker->state, also after open or work failed */
    int (*verify)(struct bench_run *run);       /* what should be there is, else run->invalid is set; or NULL */
    void (*unload)(struct bench_run *run);      /* after verify, also where load failed half-way */
};

/*
 * All engines. One more is added here, and nowhere else. The first of a workload is the one that is taken where nothing
 * is said.
 */
#define BENCH_ENGINES(ENGINE)                                                                                          \
    ENGINE(file_psync)                                                                                                 \
    ENGINE(file_mmap)                                                                                                  \
    ENGINE(file_uring)                                                                                                 \
    ENGINE(sqlite_engine)                                                                                              \
    ENGINE(postmark_engine)

#define BENCH_DECLARE(engine) extern const struct bench_engine engine;
BENCH_ENGINES(BENCH_DECLARE)

/* engines.c: the engine of a workload that has this name (NULL: any); NULL where there is none. */
const struct bench_engine *bench_engine_find(enum bench_workload workload, const char *name);

/* Those of a workload, "psync, mmap, io_uring". */
#define BENCH_NAMES 256 /* bytes */
void bench_engine_names(enum bench_workload workload, char names[BENCH_NAMES]);

/* worker.c: what engines call. */

/* The worker's part of a number that all have together; the first workers get what cannot be divided. */
int64_t bench_share(const struct bench_worker *worker, int64_t all);

/*
 * Whether the worker shall do one more operation; sleeps until it is due. `*due_ns` is when it was due: now, where no
 * rate is asked for. False at the end of the duration, of the operations, and once the run is stopping.
 */
bool bench_next(struct bench_worker *worker, int64_t *due_ns);

/* Counts one operation or part of one; the warm-up's are dropped here. */
void bench_count(struct bench_worker *worker, enum bench_part part, int64_t from_ns, int64_t to_ns, int64_t bytes);

/* Ends the worker with an error: says what failed. `error` is an errno, or 0 where there is none. Returns -1. */
int bench_fail(struct bench_worker *worker, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* validity.c: says why the numbers of a run are not to be believed, here and to the user; the first reason is the
 * one that explains the others. Returns -1. */
int bench_invalidate(struct bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether SIGINT, SIGTERM or SIGHUP came: long load phases ask as well. */
bool bench_stopping(void);

#endif
