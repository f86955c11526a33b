/* Declarations shared by the files of the SQLite engine. */
#pragma once

#include "iobench/bench.h"
#include "iobench/sqlite/library.h"

/* Last row written by a worker, for verification. */
struct sqlite_last {
    int64_t key; /* 0: none, or deleted since */
    int64_t database, table;
    uint64_t stamp; /* of the value */
};

/* State of a run, created before the workers and shared with them, also between processes. */
struct sqlite_setup {
    struct sqlite_library library;
    int64_t prefilled;            /* rows of every table */
    uint64_t nonce;               /* part of every value written by this run */
    atomic_llong committed;       /* transactions, if the workers share their databases */
    atomic_int ended;             /* workers that have finished their last transaction */
    int64_t grown[BENCH_WORKERS]; /* rows that each worker added to each table; negative: deleted */
    struct sqlite_last last[BENCH_WORKERS];
};

/* values.c: texts that are never repeated. */

#define SQLITE_LEAST_VALUE 11 /* bytes: 64 bits in digits of 6 bits */

struct sqlite_values {
    struct rng rng;
    uint64_t stamp; /* of the next value */
    char *text;
    int64_t size;
};

/* Start the values of a worker; `worker` -1: the rows before the measurement. */
void sqlite_values_open(struct sqlite_values *values, const struct bench_job *job, uint64_t nonce, int32_t worker);
const char *sqlite_values_next(struct sqlite_values *values);
void sqlite_values_start(uint64_t stamp, char start[SQLITE_LEAST_VALUE + 1]); /* start of the value with this stamp */
void sqlite_values_close(struct sqlite_values *values);

/* keys.c: rows that belong to one worker. */

/* Keys of rows. The rows of all tables of all databases have the same keys, from 1 on. If workers share databases, each
 * changes only its own rows, so that success does not depend on chance. */
struct sqlite_keys {
    struct rng rng;
    int64_t *live; /* existing rows, unordered; not maintained if there are only inserts */
    int64_t nr_live, capacity;
    bool only_inserts;
    int64_t after, step, offset; /* new keys are after + step * n + offset + 1 */
    int64_t nr_inserted;
    struct order order; /* of new keys, repeated after every order.nr_records of them */
};

int sqlite_keys_open(struct sqlite_keys *keys, const struct bench_worker *worker, int64_t prefilled);
int64_t sqlite_keys_any(struct sqlite_keys *keys);  /* of an existing row; 0: none */
int64_t sqlite_keys_take(struct sqlite_keys *keys); /* likewise, and remove it from the live rows */
int64_t sqlite_keys_new(struct sqlite_keys *keys);  /* of a row to insert */
void sqlite_keys_close(struct sqlite_keys *keys);

/* plan.c: requirements of a job; INT64_MAX on overflow. */

int32_t sqlite_sets(const struct bench_job *job);                 /* number of copies of each database */
bool sqlite_does(const struct bench_job *job, enum sqlite_op op); /* op is not SQLITE_OP_MIXED */
bool sqlite_only_inserts(const struct bench_job *job);
int64_t sqlite_prefilled(const struct bench_job *job);    /* rows of every table before the measurement */
int64_t sqlite_bytes_needed(const struct bench_job *job); /* of the filesystem, roughly */

/* Return the rows of a table that the transactions of all its workers touch, if no row is touched twice. */
int64_t sqlite_rows_touched(const struct bench_job *job);

/* connection.c: a connection and its settings. Functions returning int return 0, or -1 with an error in `why`. */

struct sqlite_connection {
    const struct sqlite_library *library;
    sqlite3 *db;
    char why[BENCH_TEXT];
};

/* Write the path of a database, with Mobibench's names. */
int sqlite_path(const struct bench_run *run, int32_t set, int64_t database, char *path, size_t size);

int connection_open(struct sqlite_connection *connection, const struct sqlite_library *library, const char *path,
                    int flags);
void connection_close(struct sqlite_connection *connection);
sqlite3_stmt *connection_prepare(struct sqlite_connection *connection, const char *sql); /* NULL: error */
int connection_run(struct sqlite_connection *connection, const char *sql);

/* Copy the first column of the first row to `text`; no row: "". */
int connection_text(struct sqlite_connection *connection, const char *sql, char *text, size_t size);
int connection_number(struct sqlite_connection *connection, const char *sql, int64_t *number);

/* Attach database `database` (from 1 on) with the name of sqlite_schema. */
int connection_attach(struct sqlite_connection *connection, const char *path, int64_t database);
void sqlite_schema(int64_t database, char name[24]); /* main, db1, db2 … */

/* Set journal mode and synchronous of one database and read them back: SQLite silently chooses another mode if it
 * cannot set one. */
int connection_set_modes(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t database);

/* fill.c: create a database with its tables and rows, replacing that of an earlier run. Returns 0, or -1 after printing
 * an error. */
int sqlite_fill(const struct bench_run *run, const char *path, struct sqlite_values *values);

/* check.c, load.c, verify.c: for struct bench_engine. */

int sqlite_check(const struct bench_job *job);
int sqlite_load(struct bench_run *run);
void sqlite_unload(struct bench_run *run);
int sqlite_verify(struct bench_run *run);

/* checkpoint.c: checkpoints of the write-ahead log, timed separately. */

struct sqlite_checkpoints {
    bool wal;
    int64_t every, pages;         /* transactions, and pages of the log, until a checkpoint; 0: never */
    bool *due;                    /* by database */
    atomic_llong *committed, own; /* counter of transactions: of all workers if they share databases, of this one */
};

int checkpoints_open(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                     struct sqlite_connection *connection);
int checkpoints_after(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                      struct sqlite_connection *connection); /* each transaction */
int checkpoints_finish(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                       struct sqlite_connection *connection); /* all transactions */
void checkpoints_close(struct sqlite_checkpoints *checkpoints);
