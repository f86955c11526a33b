#include "iobench/sqlite/engine.h"

#define NR_OPS SQLITE_OP_MIXED

/* Wait for a lock of another worker: first as long as a commit on fast storage, then longer, but at most 5 ms, so that
 * a free lock does not stay unused. A stopping worker waits as well. A minute without the lock is an error. */
enum { FIRST_WAIT_US = 50, DOUBLINGS = 7, LONGEST_WAIT_US = 5000 };
#define PATIENCE_NS 60000000000

struct sqlite_worker {
    struct sqlite_connection connection;
    sqlite3_stmt *begin, *begin_writing, *commit;
    sqlite3_stmt **statements[NR_OPS]; /* for every table of every database */
    struct sqlite_keys keys;
    struct sqlite_values values;
    struct sqlite_checkpoints checkpoints;
    int64_t waiting_since_ns;
};

static int64_t nr_tables(const struct bench_worker *worker)
{
    return worker->job->sqlite.databases * worker->job->sqlite.tables;
}

static int wait_for_lock(void *context, int times)
{
    struct bench_worker *worker = context;
    struct sqlite_worker *state = worker->state;
    int64_t now_ns = clock_now(CLOCK_MONOTONIC);
    int wait_us = times < DOUBLINGS ? FIRST_WAIT_US << times : LONGEST_WAIT_US;
    if (times == 0)
        state->waiting_since_ns = now_ns;
    worker->busy++;
    if (now_ns - state->waiting_since_ns > PATIENCE_NS)
        return 0;
    usleep((useconds_t)wait_us);
    return 1;
}

static int open_databases(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_setup *setup = worker->run->state;
    int32_t set = worker->job->shared ? 0 : worker->index;
    char path[sizeof worker->run->directory + 64];
    sqlite_path(worker->run, set, 0, path, sizeof path);
    int result = connection_open(&state->connection, &setup->library, path, SQLITE_OPEN_READWRITE);
    if (result == 0)
        setup->library.busy_handler(state->connection.db, wait_for_lock, worker);
    for (int64_t database = 0; database < worker->job->sqlite.databases && result == 0; database++) {
        sqlite_path(worker->run, set, database, path, sizeof path);
        if (database)
            result = connection_attach(&state->connection, path, database);
        if (result == 0)
            result = connection_set_modes(&state->connection, &worker->job->sqlite, database);
    }
    return result < 0 ? bench_fail(worker, 0, "%s", state->connection.why) : 0;
}

static void write_statement(char *sql, size_t size, enum sqlite_op op, int64_t database, int64_t table)
{
    static const char *const texts[NR_OPS] = {
        [SQLITE_OP_INSERT] = "INSERT INTO %s.tblMyList%" PRId64 "(id, Value) VALUES(?1, ?2)",
        [SQLITE_OP_UPDATE] = "UPDATE %s.tblMyList%" PRId64 " SET Value = ?2 WHERE id = ?1",
        [SQLITE_OP_DELETE] = "DELETE FROM %s.tblMyList%" PRId64 " WHERE id = ?1",
        [SQLITE_OP_SELECT] = "SELECT Value FROM %s.tblMyList%" PRId64 " WHERE id = ?1",
    };
    char schema[24];
    sqlite_schema(database, schema);
    snprintf(sql, size, texts[op], schema, table);
}

static int prepare_tables(struct bench_worker *worker, enum sqlite_op op)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_job *job = &worker->job->sqlite;
    state->statements[op] = zeroed((size_t)nr_tables(worker), sizeof *state->statements[op]);
    for (int64_t index = 0; index < nr_tables(worker); index++) {
        char sql[128];
        write_statement(sql, sizeof sql, op, index / job->tables, index % job->tables);
        state->statements[op][index] = connection_prepare(&state->connection, sql);
        if (!state->statements[op][index])
            return bench_fail(worker, 0, "%s", state->connection.why);
    }
    return 0;
}

static int prepare_statements(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    state->begin = connection_prepare(&state->connection, "BEGIN");
    state->begin_writing = connection_prepare(&state->connection, worker->job->shared ? "BEGIN IMMEDIATE" : "BEGIN");
    state->commit = connection_prepare(&state->connection, "COMMIT");
    if (!state->begin || !state->begin_writing || !state->commit)
        return bench_fail(worker, 0, "%s", state->connection.why);
    for (enum sqlite_op op = 0; op < NR_OPS; op++)
        if (sqlite_does(worker->job, op) && prepare_tables(worker, op) < 0)
            return -1;
    return 0;
}

static int sqlite_open(struct bench_worker *worker)
{
    const struct sqlite_setup *setup = worker->run->state;
    struct sqlite_worker *state = worker->state;
    sqlite_values_open(&state->values, worker->job, setup->nonce, worker->index);
    if (sqlite_keys_open(&state->keys, worker, setup->prefilled) < 0)
        return bench_fail(worker, ENOMEM, "keys of %" PRId64 " rows", setup->prefilled);
    if (open_databases(worker) < 0 || prepare_statements(worker) < 0)
        return -1;
    return checkpoints_open(&state->checkpoints, worker, &state->connection);
}

/* Execute BEGIN or COMMIT. */
static int step_alone(struct bench_worker *worker, sqlite3_stmt *statement, enum bench_part part)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    int64_t from_ns = clock_now(CLOCK_MONOTONIC);
    int code = library->step(statement);
    library->reset(statement);
    if (code != SQLITE_DONE)
        return bench_fail(worker, 0, "%s of a transaction: %s", bench_parts[part],
                          library->errmsg(state->connection.db));
    bench_count(worker, part, from_ns, clock_now(CLOCK_MONOTONIC), 0);
    return 0;
}

static int select_row(struct bench_worker *worker, sqlite3_stmt *statement)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    if (library->step(statement) != SQLITE_ROW || !library->column_text(statement, 0) ||
        library->column_bytes(statement, 0) != worker->job->sqlite.value || library->step(statement) != SQLITE_DONE)
        return -1;
    return 0;
}

static int change_row(struct bench_worker *worker, sqlite3_stmt *statement)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    if (library->step(statement) != SQLITE_DONE || library->changes(state->connection.db) != 1)
        return -1;
    worker->rows_changed += worker->measuring;
    return 0;
}

static int bind_row(struct bench_worker *worker, sqlite3_stmt *statement, int64_t key, const char *value)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    if (library->bind_int64(statement, 1, key))
        return -1;
    return value && library->bind_text(statement, 2, value, (int)state->values.size, SQLITE_STATIC) ? -1 : 0;
}

/* Execute a statement on one row. Exactly one row must be affected, because a statement without effect would be
 * fast. */
static int step_row(struct bench_worker *worker, enum sqlite_op op, sqlite3_stmt *statement, int64_t key)
{
    static const char *const names[NR_OPS] = {"INSERT", "UPDATE", "DELETE", "SELECT"};
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    bool writes_value = op == SQLITE_OP_INSERT || op == SQLITE_OP_UPDATE;
    const char *value = writes_value ? sqlite_values_next(&state->values) : NULL;
    int64_t from_ns = clock_now(CLOCK_MONOTONIC);
    int result = bind_row(worker, statement, key, value);
    if (result == 0)
        result = op == SQLITE_OP_SELECT ? select_row(worker, statement) : change_row(worker, statement);
    if (result < 0)
        bench_fail(worker, 0, "%s of row %" PRId64 " did not find exactly this row: %s", names[op], key,
                   library->errmsg(state->connection.db));
    library->reset(statement);
    bench_count(worker, op == SQLITE_OP_SELECT ? PART_READ : PART_STATEMENT, from_ns, clock_now(CLOCK_MONOTONIC),
                op == SQLITE_OP_DELETE ? 0 : worker->job->sqlite.value);
    return result;
}

static void remember(struct bench_worker *worker, enum sqlite_op op, int64_t index, int64_t key)
{
    struct sqlite_worker *state = worker->state;
    struct sqlite_setup *setup = worker->run->state;
    struct sqlite_last *last = &setup->last[worker->index];
    int64_t tables = worker->job->sqlite.tables;
    if (op == SQLITE_OP_DELETE && key == last->key)
        last->key = 0;
    if (op == SQLITE_OP_INSERT || op == SQLITE_OP_UPDATE)
        *last = (struct sqlite_last){key, index / tables, index % tables, state->values.stamp - 1};
}

static int64_t choose_key(struct sqlite_keys *keys, enum sqlite_op op)
{
    switch (op) {
    case SQLITE_OP_INSERT:
        return sqlite_keys_new(keys);
    case SQLITE_OP_DELETE:
        return sqlite_keys_take(keys);
    default:
        return sqlite_keys_any(keys);
    }
}

/* Inserts and deletes use the same key in all tables, which therefore have the same rows. Updates and selects choose a
 * key for each table. */
static int row_in_every_table(struct bench_worker *worker, enum sqlite_op op)
{
    struct sqlite_worker *state = worker->state;
    bool same = op == SQLITE_OP_INSERT || op == SQLITE_OP_DELETE;
    int64_t key = 0;
    for (int64_t index = 0; index < nr_tables(worker); index++) {
        if (index == 0 || !same)
            key = choose_key(&state->keys, op);
        if (!key)
            return bench_fail(worker, 0, "no row is left for this worker: raise --prefilled");
        if (step_row(worker, op, state->statements[op][index], key) < 0)
            return -1;
        remember(worker, op, index, key);
    }
    return 0;
}

static int transaction(struct bench_worker *worker, enum sqlite_op op, int64_t due_ns)
{
    static const int growth[NR_OPS] = {[SQLITE_OP_INSERT] = 1, [SQLITE_OP_DELETE] = -1};
    struct sqlite_worker *state = worker->state;
    struct sqlite_setup *setup = worker->run->state;
    const struct sqlite_job *job = &worker->job->sqlite;
    if (step_alone(worker, op == SQLITE_OP_SELECT ? state->begin : state->begin_writing, PART_BEGIN) < 0)
        return -1;
    for (int64_t row = 0; row < job->rows; row++)
        if (row_in_every_table(worker, op) < 0)
            return -1;
    if (step_alone(worker, state->commit, PART_COMMIT) < 0)
        return -1;
    setup->grown[worker->index] += growth[op] * job->rows;
    bench_count(worker, PART_OP, due_ns, clock_now(CLOCK_MONOTONIC),
                op == SQLITE_OP_DELETE ? 0 : job->rows * nr_tables(worker) * job->value);
    return checkpoints_after(&state->checkpoints, worker, &state->connection);
}

static enum sqlite_op next_op(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_job *job = &worker->job->sqlite;
    int64_t place, all = 0;
    enum sqlite_op op = 0;
    if (job->op != SQLITE_OP_MIXED)
        return job->op;
    for (int other = 0; other < NR_OPS; other++)
        all += job->mix[other];
    place = (int64_t)rng_below(&state->keys.rng, (uint64_t)all);
    for (; place >= job->mix[op]; op++)
        place -= job->mix[op];
    return op;
}

static int sqlite_work(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    int64_t due_ns;
    while (bench_next(worker, &due_ns))
        if (transaction(worker, next_op(worker), due_ns) < 0)
            return -1;
    return checkpoints_finish(&state->checkpoints, worker, &state->connection);
}

/* finalize accepts NULL. */
static void finalize_statements(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    const struct sqlite_library *library = state->connection.library;
    library->finalize(state->begin);
    library->finalize(state->begin_writing);
    library->finalize(state->commit);
    for (int op = 0; op < NR_OPS; op++) {
        for (int64_t table = 0; state->statements[op] && table < nr_tables(worker); table++)
            library->finalize(state->statements[op][table]);
        free(state->statements[op]);
    }
}

static void sqlite_close(struct bench_worker *worker)
{
    struct sqlite_worker *state = worker->state;
    if (state->connection.db)
        finalize_statements(worker);
    connection_close(&state->connection);
    checkpoints_close(&state->checkpoints);
    sqlite_keys_close(&state->keys);
    sqlite_values_close(&state->values);
}

const struct bench_engine sqlite_engine = {
    .name = "sqlite",
    .workload = BENCH_SQLITE,
    .state_bytes = sizeof(struct sqlite_worker),
    .check = sqlite_check,
    .load = sqlite_load,
    .open = sqlite_open,
    .work = sqlite_work,
    .close = sqlite_close,
    .verify = sqlite_verify,
    .unload = sqlite_unload,
};
