/* Data model of iobench:
 * - job: a requested measurement
 * - run: one repetition of a job
 * - worker: a thread or process of a run
 * - engine: code that performs the I/O of a workload */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/page_cache.h"
#include "common/record.h"
#include "common/rng.h"

/* -- storage.c ----------------------------------------------------------------------------------------------------- */

/* The device and filesystem of a path. */

struct storage {
    dev_t dev;               /* of the block device; 0: unknown */
    char device[64];         /* its name, as in /proc/diskstats; empty: unknown */
    char filesystem[64];     /* type as in /proc/self/mountinfo */
    char mount_options[512]; /* of the mount and the superblock */
    char mount_point[4096];
    char model[128]; /* of the disk, if sysfs has it */
};

/* Find the storage of a path; if it does not exist, that of its parent directory. Returns 0, or -1 after printing an
 * error. */
int storage_of(const char *path, struct storage *storage);

/* -- meter.c ------------------------------------------------------------------------------------------------------- */

/* Cost of a measurement: CPU time, context switches and traffic at the block layer. */

/* Usage of one thread (getrusage(RUSAGE_THREAD)) or of a process. */
struct usage {
    int64_t user_ns, system_ns, ctx_voluntary, ctx_involuntary, major_faults, minor_faults;
};

#define USAGE_COUNTERS (sizeof(struct usage) / sizeof(int64_t)) /* all members are int64_t */

void usage_of_thread(struct usage *usage);
void usage_add(struct usage *sum, const struct usage *usage, int64_t factor); /* factor -1: subtract */

/* Traffic of this process at the block layer (/proc/self/io); -1: not reported by the kernel. */
struct process_io {
    int64_t read_bytes, write_bytes;
};

void process_io_read(struct process_io *io);
struct process_io process_io_since(const struct process_io *now, const struct process_io *then);

/* Counters of the whole system and of one device, or their differences; -1: not reported by the kernel. */
struct system_usage {
    /* /proc/stat, all CPUs: active is user, nice, system, irq, softirq and steal; guest time is part of user. */
    int64_t cpu_active_ns, cpu_idle_ns, cpu_iowait_ns;
    int64_t cpu_steal_ns; /* part of active */
    /* /proc/diskstats of the device of the files; discards since Linux 4.18, flushes since 5.5. */
    int64_t device_reads, device_read_bytes, device_writes, device_write_bytes, device_discard_bytes, device_flushes;
    int64_t device_busy_ns;
    int64_t process_read_bytes, process_write_bytes; /* struct process_io, of all worker processes */
    int64_t pressure_some_ns, pressure_full_ns;      /* /proc/pressure/io */
    int64_t filesystem_write_bytes;                  /* lifetime_write_kbytes of ext4 and F2FS in /sys/fs */
};

/* Number of counters: all members are int64_t. */
#define SYSTEM_COUNTERS (sizeof(struct system_usage) / sizeof(int64_t))

void system_usage_read(const struct storage *storage, struct system_usage *usage);
struct system_usage system_usage_since(const struct system_usage *now, const struct system_usage *then);

/* -- hist.c -------------------------------------------------------------------------------------------------------- */

/* Log-linear histograms of latencies with a fixed relative error. They can be merged; the host computes percentiles. */

/* Values below 2^HIST_BITS have a bucket each. Above, every power of two is split into 2^HIST_BITS equal buckets, so
 * that the width of a bucket is at most 1/2^HIST_BITS of its lower bound. Values from 2^HIST_TOP on are in the last
 * bucket. */
#define HIST_BITS    6
#define HIST_TOP     40 /* 2^40 ns: 18 minutes */
#define HIST_BUCKETS ((HIST_TOP - HIST_BITS + 1) << HIST_BITS)

/* A histogram; all zero: empty. Histograms of unused parts stay untouched and use no memory. */
struct hist {
    uint64_t count, sum, least, most; /* exact */
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);

/* Return the lower bound of a bucket; for bucket HIST_BUCKETS the end of the last one. */
uint64_t hist_bound(unsigned bucket);

/* -- order.c ------------------------------------------------------------------------------------------------------- */

/* The order of visits to the records of a file. */

struct order {
    uint64_t nr_records; /* not 0 */
    uint64_t *records;   /* NULL: in sequence */
};

/* Create a uniform permutation of 0 … nr_records-1 by Fisher and Yates (Durstenfeld 1964). `overlap` percent of the
 * records (but never all) are then replaced by remaining ones, and the result is shuffled again. Returns 0, or -1 with
 * errno ENOMEM. */
int order_random(struct order *order, uint64_t nr_records, unsigned overlap, uint64_t seed, enum rng_use use,
                 uint32_t worker);

/* Create the order of the original Mobibench 1.0.9, with its fixed key of MT19937-64 and its biased shuffle. Returns 0,
 * or -1 with errno ENOMEM.
 *
 * The order is the same for every worker, because the original seeds its generator again in each thread. Its threads
 * then share that generator without a lock, so that the orders of several threads differ between runs and cannot be
 * reproduced. Here each worker has the order of a single thread of the original. */
int order_mobibench(struct order *order, uint64_t nr_records, unsigned overlap);

void order_sequential(struct order *order, uint64_t nr_records);
uint64_t order_at(const struct order *order, uint64_t number); /* `number` modulo nr_records */
void order_free(struct order *order);

/* -- checker.c ----------------------------------------------------------------------------------------------------- */

/* Hashes of sampled records as last written by a worker, to verify the file after the run. */

struct checker_slot {
    uint64_t hash;      /* hash of the data written last */
    uint32_t in_flight; /* writes that have begun and not ended */
    bool sure;          /* false: never written, or by two requests at once */
};

/* One of 2^shift records has a slot. Lies, with its slots, in memory shared between processes. Only one worker writes
 * it. */
struct checker {
    unsigned shift;
    int64_t end; /* after the last byte written */
    uint64_t nr_slots;
    struct checker_slot *slots;
};

/* Prepare sampling of at most `nr_slots` (1 or more) of `nr_records`; the slots are zeroed. */
void checker_make(struct checker *checker, uint64_t nr_records, struct checker_slot *slots, uint64_t nr_slots);

/* Register the begin and end of a write to a record; `end` is the offset after its last byte. */
void checker_begin(struct checker *checker, uint64_t record, const void *data, size_t bytes);
void checker_end(struct checker *checker, uint64_t record, int64_t end);

/* Read the sampled records of `bytes` each. Returns 0, or -1 with errno set if a read fails. `*wrong` is the first
 * record without the data that was written last, or UINT64_MAX. */
int checker_verify(const struct checker *checker, int file, size_t bytes, uint64_t *wrong);

/* -- direct.c ------------------------------------------------------------------------------------------------------ */

/* Alignment that O_DIRECT requires of buffers, offsets and lengths. */

struct direct_align {
    size_t memory, offset; /* bytes; offset 0: the file cannot be opened with O_DIRECT */
};

/* Return the alignment that statx(2) reports (Linux 6.1), or else the logical block size of the device. */
struct direct_align direct_align(int file);

/* -- jobs, runs, workers and engines ------------------------------------------------------------------------------- */

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

/* -- modes.c ------------------------------------------------------------------------------------------------------- */

/* Named methods of making writes durable. */

/* Find a mode by name: buffered, osync, odsync, fsync, fdatasync, direct, direct_osync, mmap, mmap_async, mmap_sync,
 * sync_file_range, rwf_dsync, fbarrier, fdatabarrier. Returns false if there is no such name. */
bool mode_by_name(const char *name, struct file_mode *mode);

/* Write the name of a combination: a name of mode_by_name, or words joined by +, after the prefix of the engine. */
#define MODE_NAME 64 /* bytes */
void mode_name(const struct file_mode *mode, const struct bench_engine *engine, char name[MODE_NAME]);

/* Flags of sync_file_range with fio's words. */
#define MODE_RANGE_FLAGS 3
struct mode_range_flag {
    const char *word;
    unsigned flag;
};
extern const struct mode_range_flag mode_range_flags[MODE_RANGE_FLAGS];

/* -- run_files.c --------------------------------------------------------------------------------------------------- */

/* The files of a run: their paths, free space and complete removal. */

/* Create the directory run->directory inside job->directory (which is also created if its parent exists), or check
 * job->filename. A named file must exist and be only read, or may be overwritten. A block device needs job->raw and
 * must not be in use; it is held exclusively until files_leave. Returns 0, or -1 after printing an error. */
int files_enter(struct bench_run *run);

/* Remove what files_enter created with all contents. Uses descriptors, follows no links and does not leave the
 * filesystem. Named and kept files stay. Returns 0, or -1 after printing an error. */
int files_leave(struct bench_run *run);

/* Remove `name`, left by an earlier run, from the run's directory with all contents. Returns 0, or -1 with errno
 * set. */
int files_remove(const struct bench_run *run, const char *name);

/* Write the path of a worker's file in the run's directory ("test.dat0"), of the shared file, or job->filename. Returns
 * 0, or -1 if it is longer than `size`. */
int files_path(const struct bench_run *run, int32_t worker, char *path, size_t size);

/* Open this file with additional `flags`: a named file that is only read for reading, any other for reading and
 * writing. Returns -1 with errno set if it cannot be opened or is smaller than job->file.size; *why describes the
 * error. */
int files_open(const struct bench_job *job, const char *path, int flags, const char **why);

/* layout.c: write the file whole (unless a kept file is complete), allocate it or truncate it, and sync it. Returns 0,
 * or -1 after printing an error or if the run is stopping. */
int files_lay_out(const struct bench_job *job, const char *path, uint32_t worker);

/* -- spawn.c ------------------------------------------------------------------------------------------------------- */

/* The workers of a run as threads or processes: they open, wait for the common start, work and close. */

/* Progress of a worker. A dead worker is in the last phase. */
enum phase { PHASE_OPENING, PHASE_READY, PHASE_ENDED };

struct spawn;
struct hand {
    struct spawn *spawn;
    struct bench_worker *worker;
    atomic_int phase;
    bool running; /* still to be joined or reaped */
    pthread_t thread;
    pid_t process;
};

/* Lies in memory shared between processes, like `run`. */
struct spawn {
    struct bench_run *run;
    struct hand hands[BENCH_WORKERS];
    int news[2]; /* pipe with a byte for each change of a phase */
    int gate[2]; /* pipe on which workers wait; closing it releases them */
    atomic_bool go;
};

/* Start the workers, which then open. Returns 0, or -1 after printing an error; call the other functions in any
 * case. */
int spawn_start(struct spawn *spawn, struct bench_run *run);

/* Wait until all workers have reached `phase`, until `until_ns`, or for a tenth of a second; reap dead workers. Returns
 * whether all have reached the phase. */
bool spawn_wait(struct spawn *spawn, enum phase phase, int64_t until_ns);

/* Release the workers to work from run->start_ns on, or to end if `go` is false. */
void spawn_release(struct spawn *spawn, bool go);

/* Wait for the end of all workers. */
void spawn_gather(struct spawn *spawn);

/* -- workers.c ----------------------------------------------------------------------------------------------------- */

/* Runs the workers of a repetition: threads or processes with a common start. */

/* Receive the progress of a run: between 0 and 1, and operations so far. */
typedef void workers_show(const struct bench_run *run, double share, int64_t ops);

/* Check that a run fits in memory. Returns 0, or -1 after printing an error. */
int workers_check(const struct bench_job *job);

/* Allocate the memory of a run of `job`. Returns NULL after printing an error. */
struct bench_run *workers_make(const struct bench_job *job, int32_t repeat);

/* Run a repetition: load, open, start together, work, close, verify, unload. Calls `show` about ten times a
 * second while workers work. Returns 0 if the run is complete, or -1 after an error, a signal or a failed check;
 * run->invalid then says why. */
int workers_run(struct bench_run *run, const struct storage *storage, workers_show *show);
void workers_free(struct bench_run *run);

/* stop.c: make SIGINT, SIGTERM and SIGHUP set bench_stopping() instead of ending the program, also in processes created
 * later. Writes beyond the limit of file sizes fail with EFBIG, and progress to a closed pipe with EPIPE. Returns 0, or
 * -1 after printing an error. */
int workers_catch_signals(void);

/* validity.c: check the state of the cache, and the work of the workers. Return 0, or -1 after bench_invalidate(). */
int workers_check_cache(struct bench_run *run);
int workers_check_work(struct bench_run *run);

/* worker.c: called when the start is known, and after the engine's work. */
void worker_start(struct bench_worker *worker);
void worker_end(struct bench_worker *worker);

/* Called by the coordinator instead of worker_end: the cost of a process that died is unknown. */
void worker_died(struct bench_worker *worker);

/* -- options.c ----------------------------------------------------------------------------------------------------- */

/* Parsing of the command line into a job. */

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

/* checks.c: a contradiction in a job, and what to say of it. */
struct refusal {
    bool applies;
    const char *sentence;
};

/* Print the first sentence that applies. Returns -1, or 0 if none does. */
int bench_refuse(const struct refusal *refusals, size_t count);
#define REFUSE(...)                                                                                                    \
    bench_refuse((struct refusal[]){__VA_ARGS__}, sizeof((struct refusal[]){__VA_ARGS__}) / sizeof(struct refusal))

/* Reject contradictory or impossible jobs. Returns 0, or -1 after printing an error. */
int job_check(const struct bench_job *job, const struct arguments *arguments, const char *record);

/* -- report/ ------------------------------------------------------------------------------------------------------- */

/* Results of iobench for its reports. */

/* Result of one finished repetition: the sums of its workers. */
struct bench_result {
    const struct bench_run *run;
    const struct bench_job *job;
    const struct storage *storage;
    const char *run_id;        /* the same for all repetitions of one point */
    int32_t point;             /* index in the sweep */
    struct bench_tally *parts; /* NR_PARTS, of all workers */
    struct usage usage;
    /* run->measure_ns in CLOCK_BOOTTIME and CLOCK_REALTIME; of a failed run the time of its failure */
    int64_t boottime_ns, realtime_ns;
    int64_t duration_ns;           /* from the end of the warm-up to the end of the last worker */
    int64_t paused_ns;             /* pauses for think_ns within it, of the worker that worked longest */
    int64_t windows_ns;            /* start of the workers' first windows, CLOCK_MONOTONIC: at or before measure_ns */
    double seconds;                /* duration_ns - paused_ns, the base of rates */
    double iops, bytes_per_second; /* of PART_OP */
};

/* Sum up the members from `parts` on (freed by the caller). Windows before the first operation are dropped from
 * `run`. */
void result_make(struct bench_result *result, struct bench_run *run);

/* Return 0 only if the result is valid. Else return the errno of the worker that failed first, EINTR after a signal, or
 * EIO if verification failed. */
int result_error(const struct bench_result *result);

int result_print(FILE *out, const struct bench_result *result); /* print.c: for people */

/* record.c: write a repetition (FORMAT.md). `command` is the command line. */
extern const struct record_probe bench_probe;
void result_record(struct record *out, const struct bench_result *result, const char *command);

/* record_run.c: the record type of a repetition, with its settings, device and effect on the system. Returns 0, or -1
 * if the file cannot be written. */
extern const struct record_type bench_run_type;
int bench_run_add(struct record *out, const struct bench_result *result, const char *command);
