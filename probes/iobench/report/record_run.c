#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "iobench/modes.h"
#include "iobench/report/results.h"

/* Columns of table bench_runs, so called and in these units. */
struct run_row {
    int64_t ts_ns, realtime_ns, duration_ns;
    int64_t ops_asked, duration_asked_ns, warmup_ns, rate_asked, think_ns, seed, compress_percent, dedupe_percent,
        interval_ns;
    int64_t block_bytes, file_bytes, after_every, read_percent, depth, overlap_percent, loops;
    int64_t rows, prefilled, value_bytes, page_bytes, tables, databases, rows_expected, rows_found, busy, rows_changed;
    int64_t postmark_files, postmark_transactions, postmark_least_bytes, postmark_most_bytes, postmark_read_bytes,
        postmark_write_bytes, postmark_subdirectories;
    int64_t cache_resident_bytes, cache_bytes;
    struct system_usage system;
    int64_t ops_not_logged;
    int32_t point, repeat, threads, repeats, postmark_bias_read, postmark_bias_create;
    int32_t valid, interrupted, processes, shared, compat_rng, final_sync, random_order, postmark_buffered,
        cache_dropped; /* 0 or 1 */
    uint32_t dev;
    struct record_string run_id, invalid, command, workload, test, engine, directory, sync_mode, layout, journal_mode,
        synchronous, checkpoint, mix, sqlite_library, sqlite_version, cache_asked, cache_found, cache_by, device,
        device_model, fs_type, mount_options, mount_point;
};

#define ALWAYS(member, unit, meaning) RECORD_FIELD(run_row, member, RECORD_INT64, false, unit, meaning)
#define MAYBE(member, unit, meaning)  RECORD_FIELD(run_row, member, RECORD_INT64, true, unit, meaning)
#define SYSTEM(member, unit, meaning)                                                                                  \
    {#member, RECORD_INT64, true, unit, meaning, offsetof(struct run_row, system.member), sizeof(int64_t)}
#define SMALL(member, meaning)       RECORD_FIELD(run_row, member, RECORD_INT32, false, NULL, meaning)
#define MAYBE_SMALL(member, meaning) RECORD_FIELD(run_row, member, RECORD_INT32, true, NULL, meaning)
#define TEXT(member, meaning)        RECORD_FIELD(run_row, member, RECORD_STRING, false, NULL, meaning)
#define MAYBE_TEXT(member, meaning)  RECORD_FIELD(run_row, member, RECORD_STRING, true, NULL, meaning)

static const struct record_field run_fields[] = {
    ALWAYS(ts_ns, "ns", "Start of the measured part, behind the warm-up."),
    ALWAYS(realtime_ns, "ns", "The same moment in CLOCK_REALTIME."),
    ALWAYS(duration_ns, "ns", "Until the last worker ended."),
    MAYBE(ops_asked, "operations", "Operations asked for, of all workers together."),
    MAYBE(duration_asked_ns, "ns", "Duration asked for."),
    ALWAYS(warmup_ns, "ns", "Warm-up before the measured part."),
    MAYBE(rate_asked, "operations/s", "Operations per second of all workers together, due at fixed times."),
    ALWAYS(think_ns, "ns", "Pause after each operation, not part of its latency."),
    ALWAYS(seed, NULL, "Seed of the random streams, as a signed number of 64 bits."),
    ALWAYS(compress_percent, "%", "How far what was written can be compressed."),
    ALWAYS(dedupe_percent, "%", "How many of the written records repeat an earlier one."),
    ALWAYS(interval_ns, "ns", "Window of the time series."),
    MAYBE(block_bytes, "B", "Size of one operation."),
    MAYBE(file_bytes, "B", "Size of each file."),
    MAYBE(after_every, "records", "Records between two syncs."),
    MAYBE(read_percent, "%", "How many of the operations of a mixed test were to be reads."),
    MAYBE(depth, "requests", "Requests in flight of one worker."),
    MAYBE(overlap_percent, "%", "How many records were visited in another one's place."),
    MAYBE(loops, NULL, "How often the file was to be gone over."),
    MAYBE(rows, "rows", "Rows of a transaction in every table."),
    MAYBE(prefilled, "rows", "Rows of every table before the measurement; null: as many as the test needed."),
    MAYBE(value_bytes, "B", "Size of a row's value."),
    MAYBE(page_bytes, "B", "Page size of the databases."),
    MAYBE(tables, NULL, "Tables of each database."),
    MAYBE(databases, NULL, "Databases of each connection."),
    MAYBE(rows_expected, "rows", "Rows that should be there after the run; null: not counted."),
    MAYBE(rows_found, "rows", "Rows that were there."),
    MAYBE(busy, "times", "How often SQLite found a lock held."),
    MAYBE(rows_changed, "rows", "Rows that statements changed in the measured part."),
    MAYBE(postmark_files, "files", "PostMark's number of files."),
    MAYBE(postmark_transactions, "operations", "Its number of transactions."),
    MAYBE(postmark_least_bytes, "B", "Its smallest file."),
    MAYBE(postmark_most_bytes, "B", "Its largest file."),
    MAYBE(postmark_read_bytes, "B", "Its block size of reads."),
    MAYBE(postmark_write_bytes, "B", "Its block size of writes."),
    MAYBE(postmark_subdirectories, NULL, "Its number of subdirectories."),
    MAYBE(cache_resident_bytes, "B", "Bytes of the files that were resident before the measurement."),
    ALWAYS(cache_bytes, "B", "Size of these files together."),
    SYSTEM(cpu_active_ns, "ns", "CPU time of the whole system that was used, over the measured part."),
    SYSTEM(cpu_idle_ns, "ns", "Its idle time."),
    SYSTEM(cpu_iowait_ns, "ns", "Its idle time with I/O outstanding."),
    SYSTEM(cpu_steal_ns, "ns", "Of the used time, what the hypervisor took."),
    SYSTEM(device_reads, "requests", "Reads that the device completed."),
    SYSTEM(device_read_bytes, "B", "Bytes that the device read."),
    SYSTEM(device_writes, "requests", "Writes that the device completed."),
    SYSTEM(device_write_bytes, "B", "Bytes that the device wrote."),
    SYSTEM(device_discard_bytes, "B", "Bytes that were discarded on the device."),
    SYSTEM(device_flushes, "requests", "Flushes that the device completed."),
    SYSTEM(device_busy_ns, "ns", "Time in which the device had a request."),
    SYSTEM(process_read_bytes, "B", "Bytes that iobench caused to be read from devices."),
    SYSTEM(process_write_bytes, "B", "Bytes that iobench caused to be sent to devices."),
    SYSTEM(pressure_some_ns, "ns", "Time in which some task waited for I/O."),
    SYSTEM(pressure_full_ns, "ns", "Time in which all tasks did."),
    SYSTEM(filesystem_write_bytes, "B", "Bytes that the filesystem wrote by its own count."),
    ALWAYS(ops_not_logged, "operations", "Operations that the log of operations had no room for."),
    SMALL(point, "Point of the sweep, from 0."),
    SMALL(repeat, "Repetition of the point, from 0."),
    SMALL(threads, "Workers."),
    SMALL(repeats, "Repetitions asked for."),
    MAYBE_SMALL(postmark_bias_read, "Of ten transactions of PostMark, how many read; -1: none does nor appends."),
    MAYBE_SMALL(postmark_bias_create, "Of ten, how many create; -1: none does nor deletes."),
    SMALL(valid, "1: the numbers can be believed."),
    SMALL(interrupted, "1: a signal ended the repetition."),
    SMALL(processes, "1: the workers were processes, not threads."),
    SMALL(shared, "1: all workers used one file or database."),
    SMALL(compat_rng, "1: records were visited in the order of Mobibench."),
    SMALL(final_sync, "1: a sync at the end was part of the measured time."),
    MAYBE_SMALL(random_order, "1: rows were inserted in random order of their keys."),
    MAYBE_SMALL(postmark_buffered, "1: stdio was used."),
    SMALL(cache_dropped, "1: the caches of the whole system were dropped (as root)."),
    RECORD_FIELD(run_row, dev, RECORD_UINT32, false, NULL, "Device that held the files, major<<20|minor; 0: unknown."),
    TEXT(run_id, "The same in all repetitions of a point, another in each run of iobench."),
    MAYBE_TEXT(invalid, "Why the numbers are not to be believed."),
    MAYBE_TEXT(command, "Command line, quoted as for a shell."),
    TEXT(workload, "file, sqlite or postmark."),
    TEXT(test, "What was done: seq_write, rand_read, sqlite_insert …."),
    TEXT(engine, "What did the I/O: psync, mmap, io_uring, sqlite or postmark."),
    TEXT(directory, "Where the files were, or the file or device that was named."),
    MAYBE_TEXT(sync_mode, "How writes were made durable."),
    MAYBE_TEXT(layout, "What the file was before: written, allocated or empty."),
    MAYBE_TEXT(journal_mode, "SQLite's journal mode."),
    MAYBE_TEXT(synchronous, "SQLite's PRAGMA synchronous."),
    MAYBE_TEXT(checkpoint, "When the WAL was checkpointed: auto, none, or the number of transactions between two."),
    MAYBE_TEXT(mix, "Weights of insert, update, delete and select in a mixed test."),
    MAYBE_TEXT(sqlite_library, "Shared library that SQLite came from; null: it was linked in."),
    MAYBE_TEXT(sqlite_version, "Version of SQLite and its compile options."),
    TEXT(cache_asked, "State of the page cache that was asked for."),
    TEXT(cache_found, "State that was found before the measurement."),
    MAYBE_TEXT(cache_by, "What told: cachestat, mincore or none."),
    MAYBE_TEXT(device, "Name of the device, as in /proc/diskstats."),
    MAYBE_TEXT(device_model, "Its model."),
    MAYBE_TEXT(fs_type, "Filesystem, as in /proc/self/mountinfo."),
    MAYBE_TEXT(mount_options, "Options of the mount and of the superblock."),
    MAYBE_TEXT(mount_point, "Where it is mounted."),
};

#define NR_RUN_FIELDS (sizeof run_fields / sizeof *run_fields)

const struct record_type bench_run_type = {
    "bench_run", "bench_runs",
    "A repetition of a configuration: what was asked for, on what, and what it did to the system.", run_fields,
    NR_RUN_FIELDS};

#define NR_RUN_TEXTS                                                                                                   \
    ((offsetof(struct run_row, mount_point) - offsetof(struct run_row, run_id)) / sizeof(struct record_string) + 1)
#define TEXT_BYTES 128

static void set_null(struct run_row *row)
{
    memset(row, 0, sizeof *row);
    for (size_t index = 0; index < NR_RUN_FIELDS; index++) {
        const struct record_field *field = &run_fields[index];
        int64_t wide = RECORD_NULL_INT64;
        int32_t narrow = RECORD_NULL_INT32;

        if (!field->nullable || field->dtype == RECORD_STRING)
            continue;
        memcpy((char *)row + field->offset, field->dtype == RECORD_INT64 ? (void *)&wide : (void *)&narrow,
               field->bytes);
    }
}

static int64_t or_null(int64_t value, int64_t unknown)
{
    return value == unknown ? RECORD_NULL_INT64 : value;
}

static void fill_job(struct run_row *row, const struct bench_job *job)
{
    row->ops_asked = or_null(job->ops, 0);
    row->duration_asked_ns = or_null(job->duration_ns, 0);
    row->warmup_ns = job->warmup_ns;
    row->rate_asked = or_null(job->rate, 0);
    row->think_ns = job->think_ns;
    row->seed = (int64_t)job->seed;
    row->compress_percent = job->compress;
    row->dedupe_percent = job->dedupe;
    row->interval_ns = job->interval_ns;
    row->threads = (int32_t)job->threads;
    row->processes = job->processes;
    row->shared = job->shared;
    row->compat_rng = job->compat_rng;
    row->final_sync = job->final_sync;
    row->repeats = (int32_t)job->repeats;
}

static void fill_file(struct run_row *row, const struct bench_job *job)
{
    const struct file_job *file = &job->file;

    row->block_bytes = file->record;
    row->file_bytes = file->size;
    row->depth = file->depth;
    row->overlap_percent = file->overlap;
    if (file->mode.after != AFTER_NONE)
        row->after_every = file->after_every;
    if (file->access == ACCESS_MIXED)
        row->read_percent = file->read_percent;
    if (!job->ops && !job->duration_ns)
        row->loops = file->loops;
}

static void fill_sqlite(struct run_row *row, const struct bench_result *result)
{
    const struct sqlite_job *sqlite = &result->job->sqlite;

    row->rows = sqlite->rows;
    row->prefilled = or_null(sqlite->prefilled, -1);
    row->value_bytes = sqlite->value;
    row->page_bytes = sqlite->page;
    row->tables = sqlite->tables;
    row->databases = sqlite->databases;
    row->random_order = sqlite->random_order;
    row->rows_expected = or_null(result->run.rows_expected, -1);
    row->rows_found = or_null(result->run.rows_found, -1);
    row->busy = row->rows_changed = 0;
    for (int32_t index = 0; index < result->run.nr_workers; index++) {
        row->busy += result->run.workers[index].busy;
        row->rows_changed += result->run.workers[index].rows_changed;
    }
}

static void fill_postmark(struct run_row *row, const struct postmark_job *postmark)
{
    row->postmark_files = postmark->files;
    row->postmark_transactions = postmark->transactions;
    row->postmark_least_bytes = postmark->least;
    row->postmark_most_bytes = postmark->most;
    row->postmark_read_bytes = postmark->read_block;
    row->postmark_write_bytes = postmark->write_block;
    row->postmark_subdirectories = postmark->subdirectories;
    row->postmark_bias_read = (int32_t)postmark->bias_read;
    row->postmark_bias_create = (int32_t)postmark->bias_create;
    row->postmark_buffered = postmark->buffered;
}

static void fill_system(struct run_row *row, const struct system_usage *system)
{
    for (size_t index = 0; index < SYSTEM_COUNTERS; index++)
        ((int64_t *)&row->system)[index] = or_null(((const int64_t *)system)[index], -1);
}

static void fill_outcome(struct run_row *row, const struct bench_result *result)
{
    const struct bench_run *run = &result->run;

    row->ts_ns = result->boottime_ns;
    row->realtime_ns = result->realtime_ns;
    row->duration_ns = result->duration_ns;
    row->point = result->point;
    row->repeat = result->repeat;
    row->valid = result_valid(result);
    row->interrupted = run->interrupted;
    row->cache_resident_bytes = or_null(run->cache.resident_bytes, -1);
    row->cache_bytes = run->cache.bytes;
    row->cache_dropped = run->cache.dropped;
    row->dev = (uint32_t)(major(result->storage.dev) << 20 | minor(result->storage.dev));
    for (int32_t index = 0; index < run->nr_workers; index++)
        row->ops_not_logged += run->workers[index].log_lost;
}

static void fill(struct run_row *row, const struct bench_result *result)
{
    const struct bench_job *job = result->job;

    set_null(row);
    fill_job(row, job);
    if (job->workload == BENCH_FILE)
        fill_file(row, job);
    else if (job->workload == BENCH_SQLITE)
        fill_sqlite(row, result);
    else
        fill_postmark(row, &job->postmark);
    fill_outcome(row, result);
    fill_system(row, &result->run.system);
}

/* Null where `text` is NULL or `there` is not so. */
static struct record_text text(const char *text, bool there)
{
    return text && there ? (struct record_text){text, strlen(text)} : (struct record_text){0};
}

/* The strings of the row, in the order of its fields; two of them are put together in `buffers`. */
static void fill_texts(struct record_text texts[NR_RUN_TEXTS], char buffers[2][TEXT_BYTES],
                       const struct bench_result *result, const char *command)
{
    const struct bench_job *job = result->job;
    const struct sqlite_job *sqlite = &job->sqlite;
    const struct storage *storage = &result->storage;
    bool file = job->workload == BENCH_FILE, sql = job->workload == BENCH_SQLITE;
    const char *mode = buffers[0], *mix = buffers[1];

    mode_name(&job->file.mode, job->engine, buffers[0]);
    snprintf(buffers[1], TEXT_BYTES, "%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, sqlite->mix[0], sqlite->mix[1],
             sqlite->mix[2], sqlite->mix[3]);
    const struct record_text all[NR_RUN_TEXTS] = {
        text(result->run_id, true),
        text(result->run.invalid, !result_valid(result)),
        text(command, true),
        text(bench_workloads[job->workload], true),
        text(bench_test(job), true),
        text(job->engine->name, true),
        text(job->filename ? job->filename : job->directory, true),
        text(mode, file),
        text(file_layouts[job->file.layout], file),
        text(sqlite->journal_mode, sql),
        text(sqlite->synchronous, sql),
        text(sqlite->checkpoint, sql),
        text(mix, sql && sqlite->op == SQLITE_OP_MIXED),
        text(sqlite->library, sql),
        text(result->run.versions, sql && result->run.versions[0]),
        text(cache_states[job->cache], true),
        text(cache_states[result->run.cache.state], true),
        text(result->run.cache.by, true),
        text(storage->device, storage->device[0]),
        text(storage->model, storage->model[0]),
        text(storage->filesystem, storage->filesystem[0]),
        text(storage->mount_options, storage->mount_options[0]),
        text(storage->mount_point, storage->mount_point[0]),
    };
    memcpy(texts, all, sizeof all);
}

int bench_run_add(struct record *out, const struct bench_result *result, const char *command)
{
    struct record_text texts[NR_RUN_TEXTS];
    char buffers[2][TEXT_BYTES];
    struct run_row row;

    fill(&row, result);
    fill_texts(texts, buffers, result, command);
    return record_add(out, &bench_run_type, &row, texts);
}
