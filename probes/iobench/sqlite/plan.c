#include "iobench/sqlite/engine.h"

enum {
    ROWS_OF_A_DURATION = 10000, /* rows if a duration instead of transactions is given */
    ROW_BYTES = 24,             /* in addition to the value: header, key, slot in the page */
};

int32_t sqlite_sets(const struct bench_job *job)
{
    return job->shared ? 1 : (int32_t)job->threads;
}

bool sqlite_does(const struct bench_job *job, enum sqlite_op op)
{
    return job->sqlite.op == op || (job->sqlite.op == SQLITE_OP_MIXED && job->sqlite.mix[op] > 0);
}

bool sqlite_only_inserts(const struct bench_job *job)
{
    return !sqlite_does(job, SQLITE_OP_UPDATE) && !sqlite_does(job, SQLITE_OP_DELETE) &&
           !sqlite_does(job, SQLITE_OP_SELECT);
}

static int64_t times(int64_t one, int64_t other)
{
    int64_t product;
    return __builtin_mul_overflow(one, other, &product) ? INT64_MAX : product;
}

int64_t sqlite_rows_touched(const struct bench_job *job)
{
    int64_t most = job->ops / job->threads + (job->ops % job->threads > 0);
    return times(times(most, job->sqlite.rows), job->shared ? job->threads : 1);
}

int64_t sqlite_prefilled(const struct bench_job *job)
{
    if (job->sqlite.prefilled >= 0)
        return job->sqlite.prefilled;
    if (sqlite_only_inserts(job))
        return 0;
    return job->ops ? sqlite_rows_touched(job) : ROWS_OF_A_DURATION > job->threads ? ROWS_OF_A_DURATION : job->threads;
}

/* A log that is never emptied contains every page of every transaction. */
static double log_bytes(const struct sqlite_job *sqlite, int64_t ops)
{
    bool grows = strcmp(sqlite->journal_mode, "WAL") == 0 && strcmp(sqlite->checkpoint, "none") == 0 &&
                 sqlite->op != SQLITE_OP_SELECT;
    return grows
               ? 2.0 * (double)ops * (double)sqlite->rows * (double)(sqlite->tables * sqlite->databases * sqlite->page)
               : 0;
}

int64_t sqlite_bytes_needed(const struct bench_job *job)
{
    const struct sqlite_job *sqlite = &job->sqlite;
    double rows = (double)sqlite_prefilled(job);
    double tables = (double)(sqlite_sets(job) * sqlite->databases * sqlite->tables), all;
    if (sqlite_does(job, SQLITE_OP_INSERT))
        rows += (double)sqlite_rows_touched(job);
    all = tables * (rows * (double)(sqlite->value + ROW_BYTES) + 4 * (double)sqlite->page) * 1.25 +
          log_bytes(sqlite, job->ops);
    return all < 0x1p62 ? (int64_t)all : INT64_MAX;
}
