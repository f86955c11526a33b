/* Rows that a worker uses in SQLite's tables, the expected number of rows, and uniqueness of values. */
#include "iobench/sqlite/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

enum { NR_WORKERS = 3, NR_KEYS = 200000 };

static const struct {
    const char *name;
    enum sqlite_op op;
    int64_t mix[4], ops, rows, requested, threads;
    bool shared;
    int64_t prefilled;
} needs[] = {
    {"inserts", SQLITE_OP_INSERT, {0}, 100, 1, -1, 1, false, 0},
    {"inserts into rows", SQLITE_OP_INSERT, {0}, 100, 1, 7, 1, false, 7},
    {"updates", SQLITE_OP_UPDATE, {0}, 100, 1, -1, 1, false, 100},
    {"updates of more workers", SQLITE_OP_UPDATE, {0}, 100, 1, -1, 3, false, 34},
    {"updates of a shared database", SQLITE_OP_UPDATE, {0}, 100, 1, -1, 3, true, 102},
    {"deletes of many rows", SQLITE_OP_DELETE, {0}, 10, 5, -1, 2, false, 25},
    {"selects for a duration", SQLITE_OP_SELECT, {0}, 0, 1, -1, 1, false, 10000},
    {"mixed", SQLITE_OP_MIXED, {1, 1, 1, 1}, 50, 2, -1, 1, false, 100},
    {"mixed, all inserts", SQLITE_OP_MIXED, {3, 0, 0, 0}, 50, 2, -1, 1, false, 0},
    {"more than there are numbers", SQLITE_OP_SELECT, {0}, INT64_MAX / 2, 5, -1, 1, false, INT64_MAX},
};

static struct bench_job job_of(size_t number)
{
    struct bench_job job = {.ops = needs[number].ops, .threads = needs[number].threads, .shared = needs[number].shared};

    job.sqlite = (struct sqlite_job){.op = needs[number].op,
                                     .journal_mode = "DELETE",
                                     .checkpoint = "auto",
                                     .rows = needs[number].rows,
                                     .prefilled = needs[number].requested,
                                     .value = 100,
                                     .page = 4096,
                                     .tables = 1,
                                     .databases = 1};
    memcpy(job.sqlite.mix, needs[number].mix, sizeof job.sqlite.mix);
    return job;
}

static void test_needs(void)
{
    for (size_t number = 0; number < sizeof needs / sizeof *needs; number++) {
        struct bench_job job = job_of(number);
        int64_t rows = sqlite_prefilled(&job), bytes = sqlite_bytes_needed(&job);

        tap_ok(rows == needs[number].prefilled, "%s: %" PRId64 " rows before", needs[number].name, rows);
        tap_ok(bytes == INT64_MAX || bytes >= rows * job.sqlite.value, "%s: %" PRId64 " bytes", needs[number].name,
               bytes);
    }
}

static void test_log_is_counted(void)
{
    struct bench_job job = job_of(0);
    int64_t without;

    job.sqlite.journal_mode = "WAL";
    without = sqlite_bytes_needed(&job);
    job.sqlite.checkpoint = "none";
    tap_ok(sqlite_bytes_needed(&job) >= without + job.ops * job.sqlite.page, "a log that nobody empties has room");
}

/* Take keys of all workers; `seen` counts each key. */
static bool take_keys(const struct bench_job *job, int64_t prefilled, int64_t (*take)(struct sqlite_keys *),
                      int64_t count, unsigned char *seen)
{
    struct bench_run run = {.job = job, .nr_workers = (int32_t)job->threads};
    bool good = true;

    memset(seen, 0, NR_KEYS);
    for (int32_t index = 0; index < run.nr_workers; index++) {
        struct bench_worker worker = {.run = &run, .job = job, .index = index, .ops_asked = job->ops / job->threads};
        struct sqlite_keys keys;

        good = good && sqlite_keys_open(&keys, &worker, prefilled) == 0;
        for (int64_t number = 0; good && number < count; number++) {
            int64_t key = take(&keys);

            good = key > 0 && key < NR_KEYS;
            seen[good ? key : 0]++;
        }
        sqlite_keys_close(&keys);
    }
    return good;
}

static bool each_once(const unsigned char *seen, int64_t first, int64_t last)
{
    for (int64_t key = 0; key < NR_KEYS; key++)
        if (seen[key] != (key >= first && key <= last))
            return false;
    return true;
}

static bool none_beside(const unsigned char *seen, int64_t first, int64_t last)
{
    for (int64_t key = 0; key < NR_KEYS; key++)
        if ((key < first || key > last) && seen[key])
            return false;
    return true;
}

static void test_keys(unsigned char *seen)
{
    struct bench_job job = {.ops = 300, .threads = NR_WORKERS, .shared = true, .seed = 5};

    job.sqlite = (struct sqlite_job){.op = SQLITE_OP_DELETE, .rows = 1};
    tap_ok(take_keys(&job, 300, sqlite_keys_take, 100, seen) && each_once(seen, 1, 300),
           "workers that share a table delete each row once");
    tap_ok(!take_keys(&job, 300, sqlite_keys_take, 101, seen), "and then there are no more");
    tap_ok(take_keys(&job, 300, sqlite_keys_any, 5000, seen) && none_beside(seen, 1, 300), "updates are of rows");
    tap_ok(seen[1] && seen[300], "also of the first and the last");
    job.sqlite.op = SQLITE_OP_INSERT;
    tap_ok(take_keys(&job, 50, sqlite_keys_new, 100, seen) && each_once(seen, 51, 350),
           "inserts are behind what is there, without gaps");
    job.sqlite.random_order = true;
    tap_ok(take_keys(&job, 50, sqlite_keys_new, 100, seen) && each_once(seen, 51, 350), "the same in random order");
    tap_ok(take_keys(&job, 0, sqlite_keys_new, 300, seen) && each_once(seen, 1, 900),
           "and when there are more than were asked for");
}

static void test_random_order(void)
{
    struct bench_job job = {.ops = 1000, .threads = 1, .seed = 5, .sqlite = {.rows = 1, .random_order = true}};
    struct bench_run run = {.job = &job, .nr_workers = 1};
    struct bench_worker worker = {.run = &run, .job = &job, .ops_asked = 1000};
    struct sqlite_keys keys;
    int64_t before = 0, ascents = 0;

    tap_ok(sqlite_keys_open(&keys, &worker, 0) == 0, "keys in random order");
    for (int number = 0; number < 1000; number++) {
        int64_t key = sqlite_keys_new(&keys);

        ascents += key > before;
        before = key;
    }
    sqlite_keys_close(&keys);
    tap_ok(ascents > 400 && ascents < 600, "%" PRId64 " of 1000 are above the one before", ascents);
}

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, SQLITE_LEAST_VALUE);
}

static void test_values(void)
{
    static char starts[3 * 1000][SQLITE_LEAST_VALUE];
    const struct bench_job job = {.seed = 5, .sqlite = {.value = SQLITE_LEAST_VALUE}};
    bool told = true, differ = true;
    int count = 0;

    for (int32_t worker = -1; worker < 2; worker++) {
        struct sqlite_values values;

        told = told && sqlite_values_open(&values, &job, UINT64_MAX - 500, worker) == 0;
        for (int number = 0; number < 1000; number++, count++) {
            char start[SQLITE_LEAST_VALUE + 1];

            sqlite_values_start(values.stamp, start);
            memcpy(starts[count], sqlite_values_next(&values), SQLITE_LEAST_VALUE);
            told = told && !memcmp(starts[count], start, SQLITE_LEAST_VALUE);
        }
        sqlite_values_close(&values);
    }
    qsort(starts, (size_t)count, sizeof *starts, compare);
    for (int number = 1; number < count; number++)
        differ = differ && compare(starts[number - 1], starts[number]) != 0;
    tap_ok(told, "how a value begins can be told from its stamp");
    tap_ok(differ, "no value of any worker comes twice");
}

int main(void)
{
    static unsigned char seen[NR_KEYS];

    test_needs();
    test_log_is_counted();
    test_keys(seen);
    test_random_order();
    test_values();
    return tap_done();
}
