/* What the files of the SQLite engine share. */
#ifndef ANDROSTEP_IOBENCH_SQLITE_ENGINE_H
#define ANDROSTEP_IOBENCH_SQLITE_ENGINE_H

#include <stdatomic.h>

#include "iobench/bench.h"
#include "iobench/order.h"
#include "iobench/sqlite/library.h"

/* What a worker wrote last, for somebody to look whether it is there. */
struct sqlite_last {
    int64_t key; /* 0: nothing, or it was deleted since */
    int64_t database, table;
    uint64_t stamp; /* of the value */
};

/* Of a run; made before the workers and shared by them, also between processes. */
struct sqlite_setup {
    struct sqlite_library library;
    int64_t prefilled;            /* rows of every table */
    uint64_t nonce;               /* in every value written by this run */
    atomic_llong committed;       /* transactions, where the workers share their databases */
    atomic_int ended;             /* workers whose last transaction is over */
    int64_t grown[BENCH_WORKERS]; /* rows that each worker added to every table; negative: deleted */
    struct sqlite_last last[BENCH_WORKERS];
};

/* values.c: texts that never repeat. */

#define SQLITE_LEAST_VALUE 11 /* bytes: 64 bits in digits of 6 bits */

struct sqlite_values {
    struct rng rng;
    uint64_t stamp; /* of the next value */
    char *text;
    int64_t size;
};

/* `worker` is -1 for what is there before the workers. Returns 0 or -1 with errno ENOMEM. */
int sqlite_values_open(struct sqlite_values *values, const struct bench_job *job, uint64_t nonce, int32_t worker);
const char *sqlite_values_next(struct sqlite_values *values);
void sqlite_values_start(uint64_t stamp, char start[SQLITE_LEAST_VALUE + 1]); /* how the value with this stamp begins */
void sqlite_values_close(struct sqlite_values *values);

/* keys.c: which rows a worker has to itself. */

/*
 * The rows of all tables of all databases have the same keys, from 1 on. Where workers share databases, each changes
 * rows of its own: that a row is there and is changed is then no matter of chance.
 */
struct sqlite_keys {
    struct rng rng;
    int64_t *live; /* rows that exist, in no order; not kept up where only inserts happen */
    int64_t nr_live, room;
    bool only_inserts;
    int64_t after, step, offset; /* new keys are after + step * n + offset + 1 */
    int64_t nr_inserted;
    struct order order; /* of new keys, repeated for every order.nr_records of them */
};

int sqlite_keys_open(struct sqlite_keys *keys, const struct bench_worker *worker, int64_t prefilled);
int64_t sqlite_keys_any(struct sqlite_keys *keys);  /* of a row that exists; 0: there is none */
int64_t sqlite_keys_take(struct sqlite_keys *keys); /* the same, and it is gone afterwards */
int64_t sqlite_keys_new(struct sqlite_keys *keys);  /* of a row to insert; 0: no memory */
void sqlite_keys_close(struct sqlite_keys *keys);

/* plan.c: how much a job needs; more than fits is INT64_MAX. */

int32_t sqlite_sets(const struct bench_job *job);                 /* how often there is each database */
bool sqlite_does(const struct bench_job *job, enum sqlite_op op); /* op is not SQLITE_OP_MIXED */
bool sqlite_only_inserts(const struct bench_job *job);
int64_t sqlite_prefilled(const struct bench_job *job);    /* rows of every table before the measurement */
int64_t sqlite_bytes_needed(const struct bench_job *job); /* roughly, of the filesystem */

/* Rows of a table that the transactions of all workers that use it touch, where no row is touched twice. */
int64_t sqlite_rows_touched(const struct bench_job *job);

/* connection.c: a connection and how it is set up. What returns int: 0, or -1 and `why` says why. */

struct sqlite_connection {
    const struct sqlite_library *library;
    sqlite3 *db;
    char why[BENCH_TEXT];
};

/* Path of a database: the names are Mobibench's. */
int sqlite_path(const struct bench_run *run, int32_t set, int64_t database, char *path, size_t size);

int connection_open(struct sqlite_connection *connection, const struct sqlite_library *library, const char *path,
                    int flags);
void connection_close(struct sqlite_connection *connection);
sqlite3_stmt *connection_prepare(struct sqlite_connection *connection, const char *sql); /* NULL: cannot */
int connection_run(struct sqlite_connection *connection, const char *sql);

/* The first column of the first row; no row: empty. */
int connection_text(struct sqlite_connection *connection, const char *sql, char *text, size_t size);
int connection_number(struct sqlite_connection *connection, const char *sql, int64_t *number);

/* Attaches as database number `database`, from 1 on: see sqlite_schema. */
int connection_attach(struct sqlite_connection *connection, const char *path, int64_t database);
void sqlite_schema(int64_t database, char name[24]); /* main, db1, db2 … */

/* Journal mode and synchronous of one database, read back: SQLite answers with another mode where it cannot have it. */
int connection_set_modes(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t database);

/* fill.c: makes a database with its tables and rows, in place of what an earlier run kept. 0 or -1, complains. */
int sqlite_fill(const struct bench_run *run, const char *path, struct sqlite_values *values);

/* check.c, load.c, verify.c: for struct bench_engine. */

int sqlite_check(const struct bench_job *job);
int sqlite_load(struct bench_run *run);
void sqlite_unload(struct bench_run *run);
int sqlite_verify(struct bench_run *run);

/* checkpoint.c: moving pages from the write-ahead log into the database, in time of its own. */

struct sqlite_checkpoints {
    bool wal;
    int64_t every, pages;         /* after how many transactions; from how many pages of the log on; 0: never */
    bool *due;                    /* by database */
    atomic_llong *committed, own; /* transactions: of all workers that share databases; of this one */
};

int checkpoints_open(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                     struct sqlite_connection *connection);
int checkpoints_after(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                      struct sqlite_connection *connection); /* a transaction */
int checkpoints_finish(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                       struct sqlite_connection *connection); /* all transactions */
void checkpoints_close(struct sqlite_checkpoints *checkpoints);

#endif
