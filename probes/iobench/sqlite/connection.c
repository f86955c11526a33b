#include "iobench/sqlite/engine.h"

#include <strings.h>

int sqlite_path(const struct bench_run *run, int32_t set, int64_t database, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/test.db%" PRId32 "_%" PRId64, run->directory, set, database);
    return length < 0 || (size_t)length >= size ? -1 : 0;
}

void sqlite_schema(int64_t database, char name[24])
{
    if (database)
        snprintf(name, 24, "db%" PRId64, database);
    else
        snprintf(name, 24, "main");
}

static int failed(struct sqlite_connection *connection, const char *what)
{
    snprintf(connection->why, sizeof connection->why, "%.150s: %s", what, connection->library->errmsg(connection->db));
    return -1;
}

int connection_open(struct sqlite_connection *connection, const struct sqlite_library *library, const char *path,
                    int flags)
{
    *connection = (struct sqlite_connection){.library = library};
    return library->open_v2(path, &connection->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL)
               ? failed(connection, path)
               : 0;
}

void connection_close(struct sqlite_connection *connection)
{
    if (connection->db)
        connection->library->close(connection->db);
    connection->db = NULL;
}

sqlite3_stmt *connection_prepare(struct sqlite_connection *connection, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (connection->library->prepare_v2(connection->db, sql, -1, &statement, NULL))
        failed(connection, sql);
    return statement;
}

int connection_run(struct sqlite_connection *connection, const char *sql)
{
    return connection_text(connection, sql, NULL, 0);
}

int connection_text(struct sqlite_connection *connection, const char *sql, char *text, size_t size)
{
    const struct sqlite_library *library = connection->library;
    sqlite3_stmt *statement = connection_prepare(connection, sql);
    bool first = true;
    int code;
    if (!statement)
        return -1;
    if (size)
        *text = 0;
    for (code = library->step(statement); code == SQLITE_ROW; code = library->step(statement), first = false) {
        const char *found = (const char *)library->column_text(statement, 0);
        if (size && first && found)
            snprintf(text, size, "%s", found);
    }
    if (code != SQLITE_DONE)
        failed(connection, sql);
    library->finalize(statement);
    return code == SQLITE_DONE ? 0 : -1;
}

int connection_number(struct sqlite_connection *connection, const char *sql, int64_t *number)
{
    char text[32];
    if (connection_text(connection, sql, text, sizeof text) < 0)
        return -1;
    *number = strtoll(text, NULL, 10);
    return 0;
}

int connection_attach(struct sqlite_connection *connection, const char *path, int64_t database)
{
    const struct sqlite_library *library = connection->library;
    char schema[24], sql[64];
    sqlite_schema(database, schema);
    snprintf(sql, sizeof sql, "ATTACH ?1 AS %s", schema);
    sqlite3_stmt *statement = connection_prepare(connection, sql);
    if (!statement)
        return -1;
    bool attached = library->bind_text(statement, 1, path, -1, SQLITE_STATIC) == SQLITE_OK &&
                    library->step(statement) == SQLITE_DONE;
    if (!attached)
        failed(connection, path);
    library->finalize(statement);
    return attached ? 0 : -1;
}

static int set_journal_mode(struct sqlite_connection *connection, const char *mode, const char *schema)
{
    char sql[96], answer[32];
    snprintf(sql, sizeof sql, "PRAGMA %s.journal_mode = %s", schema, mode);
    if (connection_text(connection, sql, answer, sizeof answer) < 0)
        return -1;
    if (strcasecmp(answer, mode) == 0)
        return 0;
    snprintf(connection->why, sizeof connection->why,
             "journal mode %s cannot be had in database %s here: SQLite %s answers %s", mode, schema,
             connection->library->libversion(), answer);
    return -1;
}

static int set_synchronous(struct sqlite_connection *connection, const char *level, const char *schema)
{
    const int64_t levels = sizeof sqlite_synchronous / sizeof *sqlite_synchronous;
    char sql[96];
    int64_t answer;
    snprintf(sql, sizeof sql, "PRAGMA %s.synchronous = %s", schema, level);
    if (connection_run(connection, sql) < 0)
        return -1;
    snprintf(sql, sizeof sql, "PRAGMA %s.synchronous", schema);
    if (connection_number(connection, sql, &answer) < 0)
        return -1;
    if (answer >= 0 && answer < levels && strcasecmp(sqlite_synchronous[answer], level) == 0)
        return 0;
    snprintf(connection->why, sizeof connection->why,
             "synchronous %s cannot be had in database %s: SQLite %s answers %" PRId64, level, schema,
             connection->library->libversion(), answer);
    return -1;
}

int connection_set_modes(struct sqlite_connection *connection, const struct sqlite_job *job, int64_t database)
{
    char schema[24];
    sqlite_schema(database, schema);
    return set_journal_mode(connection, job->journal_mode, schema) < 0
               ? -1
               : set_synchronous(connection, job->synchronous, schema);
}
