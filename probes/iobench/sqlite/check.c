#include "iobench/sqlite/engine.h"

static int check_rows(const struct bench_job *job)
{
    const struct sqlite_job *sqlite = &job->sqlite;
    int64_t rows = sqlite_prefilled(job);
    if (sqlite_only_inserts(job))
        return 0;
    if (rows < (job->shared ? job->threads : 1))
        return print_error("--prefilled %" PRId64 ": %s needs rows; expected one for each worker", rows,
                           bench_test(job));
    if (sqlite->op != SQLITE_OP_DELETE)
        return 0;
    if (sqlite->prefilled < 0 && (!job->ops || job->warmup_ns))
        return print_error(
            "the number of rows that sqlite_delete needs for a duration is unknown: give it with --prefilled");
    if (job->ops && rows < sqlite_rows_touched(job))
        return print_error("--prefilled %" PRId64 ": the transactions delete %" PRId64 " rows of each table", rows,
                           sqlite_rows_touched(job));
    return 0;
}

static int check_value(const struct bench_job *job)
{
    const struct sqlite_job *sqlite = &job->sqlite;
    if (sqlite->value < SQLITE_LEAST_VALUE)
        return print_error("--value-size %" PRId64 ": expected at least %d, so that no value is written twice",
                           sqlite->value, SQLITE_LEAST_VALUE);
    return 0;
}

static int check_limits(const struct bench_job *job, const struct sqlite_library *library, sqlite3 *db)
{
    int databases = library->limit(db, SQLITE_LIMIT_ATTACHED, -1) + 1,
        bytes = library->limit(db, SQLITE_LIMIT_LENGTH, -1);
    if (job->sqlite.databases > databases)
        return print_error("--databases %" PRId64 ": this SQLite %s has at most %d in one connection",
                           job->sqlite.databases, library->libversion(), databases);
    if (job->sqlite.value > bytes)
        return print_error("--value-size %" PRId64 ": this SQLite %s has at most %d", job->sqlite.value,
                           library->libversion(), bytes);
    if (!library->threadsafe() && job->threads > 1 && !job->processes)
        return print_error("this SQLite %s is compiled without threads: use processes (--thread 0)",
                           library->libversion());
    return 0;
}

static int check_library(const struct bench_job *job)
{
    struct sqlite_library library;
    struct sqlite_connection connection;
    if (sqlite_library_open(&library, job->sqlite.library) < 0)
        return -1;
    int result = connection_open(&connection, &library, ":memory:", SQLITE_OPEN_READWRITE);
    if (result < 0)
        print_error("%s", connection.why);
    else
        result = check_limits(job, &library, connection.db);
    connection_close(&connection);
    sqlite_library_close(&library);
    return result;
}

int sqlite_check(const struct bench_job *job)
{
    return check_value(job) < 0 || check_rows(job) < 0 ? -1 : check_library(job);
}
