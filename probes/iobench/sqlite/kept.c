#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/complain.h"
#include "iobench/sqlite/engine.h"

/* Whether a table that an earlier run kept is what make_tables and fill_table would make, but for what the values are.
 */
static int same_table(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t table, int64_t rows,
                      bool *same)
{
    int64_t found;
    char sql[256];

    snprintf(sql, sizeof sql,
             "SELECT count(*) = %" PRId64 " AND ifnull(min(id), 1) = 1 AND ifnull(max(id), 0) = %" PRId64
             " AND ifnull(min(length(Value)) = %" PRId64 " AND max(length(Value)) = %" PRId64
             ", 1) FROM tblMyList%" PRId64,
             rows, rows, job->value, job->value, table);
    if (connection_number(connection, sql, &found) < 0)
        return -1;
    *same = *same && found;
    return 0;
}

static int same_database(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t rows, bool *same)
{
    int64_t tables, page, free_pages;

    if (connection_number(connection, "SELECT count(*) FROM sqlite_master", &tables) < 0 ||
        connection_number(connection, "PRAGMA page_size", &page) < 0 ||
        connection_number(connection, "PRAGMA freelist_count", &free_pages) < 0)
        return -1;
    *same = tables == job->tables && page == job->page && !free_pages;
    for (int64_t table = 0; *same && table < job->tables; table++)
        if (same_table(connection, job, table, rows, same) < 0)
            return -1;
    return 0;
}

static int use_kept(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t rows, bool *same)
{
    char answer[BENCH_TEXT];

    if (connection_text(connection, "PRAGMA integrity_check", answer, sizeof answer) < 0)
        return -1;
    if (strcmp(answer, "ok") != 0) {
        snprintf(connection->why, sizeof connection->why, "a kept database is damaged: %.200s", answer);
        return -1;
    }
    if (same_database(connection, job, rows, same) < 0)
        return -1;
    return *same ? connection_set_modes(connection, job, 0) : 0;
}

int sqlite_use_kept(const struct bench_run *run, const char *path, bool *same)
{
    const struct sqlite_setup *setup = run->state;
    struct sqlite_connection connection;
    int result = connection_open(&connection, &setup->library, path, SQLITE_OPEN_READWRITE);

    if (result == 0)
        result = use_kept(&connection, &run->job->sqlite, setup->prefilled, same);
    if (result < 0)
        complain("%s: %s; remove it, or leave out --keep", path, connection.why);
    connection_close(&connection);
    return result;
}
