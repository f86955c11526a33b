#include "iobench/sqlite/engine.h"

/* Replaces SQLite's own hook, which starts a checkpoint at the end of a commit when the log is long enough. The time of
 * the checkpoint is then not part of the commit. */
static int log_has_grown(void *context, sqlite3 *db, const char *schema, int pages)
{
    struct sqlite_checkpoints *checkpoints = context;
    int64_t database = strcmp(schema, "main") == 0 ? 0 : strtoll(schema + strlen("db"), NULL, 10);
    (void)db;
    if (checkpoints->pages && pages >= checkpoints->pages)
        checkpoints->due[database] = true;
    return SQLITE_OK;
}

int checkpoints_open(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                     struct sqlite_connection *connection)
{
    const struct sqlite_job *job = &worker->job->sqlite;
    struct sqlite_setup *setup = worker->run->state;
    checkpoints->wal = strcmp(job->journal_mode, "WAL") == 0;
    checkpoints->every = strtoll(job->checkpoint, NULL, 10); /* auto and none: 0 */
    if (strcmp(job->checkpoint, "auto") == 0 &&
        connection_number(connection, "PRAGMA wal_autocheckpoint", &checkpoints->pages) < 0)
        return bench_fail(worker, 0, "%s", connection->why);
    checkpoints->committed = worker->job->shared ? &setup->committed : &checkpoints->own;
    checkpoints->due = zeroed((size_t)job->databases, sizeof *checkpoints->due);
    connection->library->wal_hook(connection->db, log_has_grown, checkpoints);
    return 0;
}

/* A passive checkpoint does not wait for other connections and skips pages that readers need. */
static int checkpoint(struct bench_worker *worker, struct sqlite_connection *connection, int64_t database, bool whole)
{
    int64_t from = clock_now(CLOCK_MONOTONIC);
    int pages = 0, moved = 0, code;
    char schema[24];
    sqlite_schema(database, schema);
    code = connection->library->wal_checkpoint_v2(connection->db, schema, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
    if (code == SQLITE_BUSY && !whole) { /* another worker is doing it */
        worker->busy++;
        return 0;
    }
    if (code)
        return bench_fail(worker, 0, "checkpoint of database %s: %s", schema,
                          connection->library->errmsg(connection->db));
    if (whole && moved < pages)
        return bench_fail(worker, 0, "checkpoint of database %s: %d of %d pages were moved", schema, moved, pages);
    bench_count(worker, PART_CHECKPOINT, from, clock_now(CLOCK_MONOTONIC), 0);
    return 0;
}

int checkpoints_after(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                      struct sqlite_connection *connection)
{
    if (!checkpoints->wal)
        return 0;
    bool all = checkpoints->every && (atomic_fetch_add(checkpoints->committed, 1) + 1) % checkpoints->every == 0;
    for (int64_t database = 0; database < worker->job->sqlite.databases; database++) {
        if (!all && !checkpoints->due[database])
            continue;
        checkpoints->due[database] = false;
        if (checkpoint(worker, connection, database, false) < 0)
            return -1;
    }
    return 0;
}

/* If databases are shared, the last worker does it, when no reader is left. */
int checkpoints_finish(struct sqlite_checkpoints *checkpoints, struct bench_worker *worker,
                       struct sqlite_connection *connection)
{
    struct sqlite_setup *setup = worker->run->state;
    bool last = atomic_fetch_add(&setup->ended, 1) + 1 == worker->run->nr_workers;
    if (!checkpoints->wal || !worker->job->final_sync || (worker->job->shared && !last))
        return 0;
    for (int64_t database = 0; database < worker->job->sqlite.databases; database++)
        if (checkpoint(worker, connection, database, true) < 0)
            return -1;
    return 0;
}

void checkpoints_close(struct sqlite_checkpoints *checkpoints)
{
    free(checkpoints->due);
    checkpoints->due = NULL;
}
