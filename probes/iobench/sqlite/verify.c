#include "iobench/sqlite/engine.h"

/* Return the expected rows of each table in a set of databases. */
static int64_t rows_expected(const struct bench_run *run, int32_t set)
{
    const struct sqlite_setup *setup = run->state;
    int64_t rows = setup->prefilled;
    for (int32_t worker = 0; worker < run->nr_workers; worker++)
        if (run->job->shared || worker == set)
            rows += setup->grown[worker];
    return rows;
}

static int count_rows(struct bench_run *run, struct sqlite_connection *connection, int64_t expected)
{
    int result = 0;
    for (int64_t table = 0; table < run->job->sqlite.tables; table++) {
        int64_t found;
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM tblMyList%" PRId64, table);
        if (connection_number(connection, sql, &found) < 0)
            return -1;
        run->rows_expected += expected;
        run->rows_found += found;
        if (found == expected)
            continue;
        snprintf(connection->why, sizeof connection->why,
                 "table tblMyList%" PRId64 " has %" PRId64 " rows, expected %" PRId64, table, found, expected);
        result = -1;
    }
    return result;
}

static int check_integrity(struct sqlite_connection *connection)
{
    char answer[BENCH_TEXT];
    if (connection_text(connection, "PRAGMA integrity_check", answer, sizeof answer) < 0)
        return -1;
    if (strcmp(answer, "ok") == 0)
        return 0;
    snprintf(connection->why, sizeof connection->why, "integrity_check: %.200s", answer);
    return -1;
}

static int look_for(struct sqlite_connection *connection, const struct sqlite_last *last)
{
    char sql[96], start[SQLITE_LEAST_VALUE + 1], found[SQLITE_LEAST_VALUE + 1];
    snprintf(sql, sizeof sql, "SELECT Value FROM tblMyList%" PRId64 " WHERE id = %" PRId64, last->table, last->key);
    if (connection_text(connection, sql, found, sizeof found) < 0)
        return -1;
    sqlite_values_start(last->stamp, start);
    if (strcmp(found, start) == 0)
        return 0;
    snprintf(connection->why, sizeof connection->why,
             "row %" PRId64 " of tblMyList%" PRId64 " does not have the value that was written last", last->key,
             last->table);
    return -1;
}

static int look_for_last(const struct bench_run *run, struct sqlite_connection *connection, int32_t set,
                         int64_t database)
{
    const struct sqlite_setup *setup = run->state;
    for (int32_t worker = 0; worker < run->nr_workers; worker++) {
        const struct sqlite_last *last = &setup->last[worker];
        if (last->key && last->database == database && (run->job->shared || worker == set) &&
            look_for(connection, last) < 0)
            return -1;
    }
    return 0;
}

static void verify_database(struct bench_run *run, int32_t set, int64_t database)
{
    const struct sqlite_setup *setup = run->state;
    struct sqlite_connection connection;
    char path[sizeof run->directory + 64];
    sqlite_path(run, set, database, path, sizeof path);
    if (connection_open(&connection, &setup->library, path, SQLITE_OPEN_READWRITE) < 0 ||
        check_integrity(&connection) < 0 || count_rows(run, &connection, rows_expected(run, set)) < 0 ||
        look_for_last(run, &connection, set, database) < 0)
        bench_invalidate(run, "%.100s: %.140s", path, connection.why);
    connection_close(&connection);
}

int sqlite_verify(struct bench_run *run)
{
    run->rows_expected = 0;
    run->rows_found = 0;
    for (int32_t set = 0; set < sqlite_sets(run->job); set++)
        for (int64_t database = 0; database < run->job->sqlite.databases; database++)
            verify_database(run, set, database);
    return 0;
}
