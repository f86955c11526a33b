#include "iobench/sqlite/engine.h"

/* Rows between two checks for an interruption. */
#define ROWS_AT_ONCE 1024

/* Uses the table of Mobibench with its names, so that results of Mobibench and iobench are comparable. */
static int make_tables(struct sqlite_connection *connection, const struct sqlite_job *job)
{
    for (int64_t table = 0; table < job->tables; table++) {
        char sql[128];
        snprintf(sql, sizeof sql,
                 "CREATE TABLE tblMyList%" PRId64 " (id INTEGER PRIMARY KEY, Value TEXT NOT NULL, creation_date LONG)",
                 table);
        if (connection_run(connection, sql) < 0)
            return -1;
    }
    return 0;
}

static int fill_row(struct sqlite_connection *connection, sqlite3_stmt *insert, int64_t key,
                    struct sqlite_values *values)
{
    const struct sqlite_library *library = connection->library;
    bool done =
        library->bind_int64(insert, 1, key) == SQLITE_OK &&
        library->bind_text(insert, 2, sqlite_values_next(values), (int)values->size, SQLITE_STATIC) == SQLITE_OK &&
        library->step(insert) == SQLITE_DONE;
    if (!done)
        snprintf(connection->why, sizeof connection->why, "row %" PRId64 " before the measurement: %s", key,
                 library->errmsg(connection->db));
    library->reset(insert);
    return done ? 0 : -1;
}

static int fill_table(struct sqlite_connection *connection, int64_t table, int64_t rows, struct sqlite_values *values)
{
    char sql[96];
    int result = 0;
    snprintf(sql, sizeof sql, "INSERT INTO tblMyList%" PRId64 "(id, Value) VALUES(?1, ?2)", table);
    sqlite3_stmt *insert = connection_prepare(connection, sql);
    if (!insert)
        return -1;
    for (int64_t key = 1; key <= rows && result == 0; key++) {
        result = fill_row(connection, insert, key, values);
        if (result == 0 && key % ROWS_AT_ONCE == 0 && bench_stopping()) {
            snprintf(connection->why, sizeof connection->why, "interrupted while rows were made");
            result = -1;
        }
    }
    connection->library->finalize(insert);
    return result;
}

static int fill_tables(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t rows,
                       struct sqlite_values *values)
{
    if (connection_run(connection, "BEGIN") < 0 || make_tables(connection, job) < 0)
        return -1;
    for (int64_t table = 0; table < job->tables; table++)
        if (fill_table(connection, table, rows, values) < 0)
            return -1;
    return connection_run(connection, "COMMIT");
}

static int check_page_size(struct sqlite_connection *connection, int64_t requested)
{
    int64_t page;
    if (connection_number(connection, "PRAGMA page_size", &page) < 0)
        return -1;
    if (page != requested)
        snprintf(connection->why, sizeof connection->why, "--page-size %" PRId64 ": SQLite made pages of %" PRId64,
                 requested, page);
    return page == requested ? 0 : -1;
}

/* Fill without a journal, because a failed database is discarded. The modes of the job are set afterwards, since some
 * are stored in the file. */
static int make_database(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t rows,
                         struct sqlite_values *values)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA page_size = %" PRId64, job->page);
    if (connection_run(connection, sql) < 0 || connection_run(connection, "PRAGMA journal_mode = OFF") < 0 ||
        connection_run(connection, "PRAGMA synchronous = OFF") < 0 || fill_tables(connection, job, rows, values) < 0 ||
        check_page_size(connection, job->page) < 0)
        return -1;
    return connection_set_modes(connection, job, 0);
}

static int remove_database(const char *path)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
    for (size_t index = 0; index < sizeof suffixes / sizeof *suffixes; index++) {
        char name[sizeof((struct bench_run *)0)->directory + 64];
        snprintf(name, sizeof name, "%s%s", path, suffixes[index]);
        if (unlink(name) < 0 && errno != ENOENT)
            return print_error("%s: cannot be removed (%s)", name, strerror(errno));
    }
    return 0;
}

int sqlite_fill(const struct bench_run *run, const char *path, struct sqlite_values *values)
{
    const struct sqlite_setup *setup = run->state;
    struct sqlite_connection connection;
    if (remove_database(path) < 0)
        return -1;
    int result = connection_open(&connection, &setup->library, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (result == 0)
        result = make_database(&connection, &run->job->sqlite, setup->prefilled, values);
    if (result < 0)
        print_error("%s: %s", path, connection.why);
    connection_close(&connection);
    return result;
}
