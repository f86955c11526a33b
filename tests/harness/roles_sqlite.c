#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oplog.h"
#include "roles.h"
#include "sqlite3.h"
#include "sqlite_vfs.h"

#define SQL_BYTES 256

static void run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &message);
    if (rc != SQLITE_OK)
        fprintf(stderr, "workload: %s: %s\n", sql, message ? message : sqlite3_errstr(rc));
    must(rc == SQLITE_OK, "SQLite");
}

static sqlite3 *open_database(const char *mode)
{
    char text[SQL_BYTES];
    sqlite3 *db;
    snprintf(text, sizeof(text), "db/%s.db", mode);
    must(sqlite3_open_v2(text, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, SQLITE_VFS_NAME) == SQLITE_OK, text);
    sqlite3_busy_timeout(db, 20000);
    snprintf(text, sizeof(text), "PRAGMA journal_mode=%s", mode);
    run(db, text);
    run(db, "PRAGMA temp_store=memory");
    run(db, "PRAGMA wal_autocheckpoint=40");
    return db;
}

void sqlite_prepare(const char *mode)
{
    char text[SQL_BYTES];
    sqlite3 *db = open_database(mode);
    // The first page names its database, or new databases of all modes would have the same content.
    snprintf(text, sizeof(text), "CREATE TABLE %s_rows (id INTEGER PRIMARY KEY, owner TEXT, body BLOB)", mode);
    run(db, text);
    must(sqlite3_close(db) == SQLITE_OK, mode);
}

static void ended(const char *mode)
{
    char path[SQL_BYTES];
    snprintf(path, sizeof(path), "db/%s.db", mode);
    oplog_path(OPLOG_ENDED, (struct identity){0}, path);
}

static void transaction(struct role *role, sqlite3 *db, int number)
{
    char sql[SQL_BYTES];
    run(db, "BEGIN IMMEDIATE");
    for (uint32_t i = 0; i < 1 + role_random(role, 4); i++) {
        snprintf(sql, sizeof(sql), "INSERT INTO %s_rows (owner, body) VALUES ('%s %d', randomblob(%u))", role->argument,
                 role->comm, number, 200 + role_random(role, 3000));
        run(db, sql);
    }
    if (role_random(role, 2)) {
        snprintf(sql, sizeof(sql), "UPDATE %s_rows SET owner = '%s again' WHERE id = 1 + abs(random()) %% %d",
                 role->argument, role->comm, number + 1);
        run(db, sql);
    }
    if (role_random(role, 3) == 0) {
        snprintf(sql, sizeof(sql), "DELETE FROM %s_rows WHERE id = 1 + abs(random()) %% %d", role->argument,
                 number + 1);
        run(db, sql);
    }
    int rolls_back = number % 7 == 6 && strcmp(role->argument, "off") != 0;
    run(db, rolls_back ? "ROLLBACK" : "COMMIT");
    ended(role->argument);
}

void role_sqlite(struct role *role, int rounds)
{
    sqlite3 *db = open_database(role->argument);
    if (role_random(role, 2))
        run(db, "PRAGMA synchronous=normal");
    for (int i = 0; i < 3 * rounds; i++)
        transaction(role, db, i);
    if (strcmp(role->argument, "delete") == 0) {
        run(db, "VACUUM");
        ended(role->argument);
    }
    must(sqlite3_close(db) == SQLITE_OK, "close of the database");
}
