#define _GNU_SOURCE
#include "iobench/report/job_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iobench/modes.h"

void words_rate(double rate, char text[WORDS_SIZE])
{
    snprintf(text, WORDS_SIZE, isnan(rate) ? "-" : rate < 1000 ? "%.4g" : "%.0f", rate);
}

void words_bandwidth(double rate, char text[WORDS_SIZE])
{
    char bytes[WORDS_SIZE];

    words_bytes(rate, bytes);
    snprintf(text, WORDS_SIZE, isnan(rate) ? "-" : "%.*s/s", WORDS_SIZE - 3, bytes);
}

static bool is_file(const struct bench_job *job)
{
    return job->workload == BENCH_FILE;
}

static bool is_sqlite(const struct bench_job *job)
{
    return job->workload == BENCH_SQLITE;
}

static bool is_postmark(const struct bench_job *job)
{
    return job->workload == BENCH_POSTMARK;
}

static void number_unless(int64_t number, int64_t usual, char text[WORDS_SIZE])
{
    if (number != usual)
        snprintf(text, WORDS_SIZE, "%" PRId64, number);
}

static void word(const char *word, char text[WORDS_SIZE])
{
    snprintf(text, WORDS_SIZE, "%s", word);
}

/* Where it is too long, its end, which tells more. */
static void path(const char *path, char text[WORDS_SIZE])
{
    size_t length = strlen(path);

    if (length < WORDS_SIZE)
        word(path, text);
    else
        snprintf(text, WORDS_SIZE, "...%s", path + length - (WORDS_SIZE - 4));
}

static void write_place(const struct bench_job *job, char text[WORDS_SIZE])
{
    path(job->filename ? job->filename : job->directory, text);
}

static void write_library(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        path(job->sqlite.library ? job->sqlite.library : "built in", text);
}

static void write_test(const struct bench_job *job, char text[WORDS_SIZE])
{
    word(bench_test(job), text);
}

static void write_reads(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job) && job->file.access == ACCESS_MIXED)
        snprintf(text, WORDS_SIZE, "%" PRId64 " %%", job->file.read_percent);
}

static void write_mode(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job))
        mode_name(&job->file.mode, text);
}

static void write_every(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job) && job->file.mode.after != AFTER_NONE)
        number_unless(job->file.after_every, 1, text);
}

static void write_record(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job))
        words_bytes((double)job->file.record, text);
}

static void write_size(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job))
        words_bytes((double)job->file.size, text);
}

static void write_layout(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job) && job->file.access != ACCESS_READ)
        word(file_layouts[job->file.layout], text);
}

static void write_depth(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job))
        number_unless(job->file.depth, 1, text);
}

static void write_overlap(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job) && job->file.overlap)
        snprintf(text, WORDS_SIZE, "%" PRId64 " %%", job->file.overlap);
}

static void write_loops(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_file(job))
        number_unless(job->file.loops, 1, text);
}

static void write_compress(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->compress)
        snprintf(text, WORDS_SIZE, "%" PRId64 " %%", job->compress);
}

static void write_dedupe(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->dedupe)
        snprintf(text, WORDS_SIZE, "%" PRId64 " %%", job->dedupe);
}

static void write_journal(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        word(job->sqlite.journal_mode, text);
}

static void write_synchronous(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        word(job->sqlite.synchronous, text);
}

static void write_checkpoint(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        word(job->sqlite.checkpoint, text);
}

static void write_rows(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        number_unless(job->sqlite.rows, 1, text);
}

static void write_mix(const struct bench_job *job, char text[WORDS_SIZE])
{
    const int64_t *mix = job->sqlite.mix;

    if (is_sqlite(job) && job->sqlite.op == SQLITE_OP_MIXED)
        snprintf(text, WORDS_SIZE, "%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, mix[0], mix[1], mix[2], mix[3]);
}

static void write_prefilled(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        number_unless(job->sqlite.prefilled, -1, text);
}

static void write_value(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        words_bytes((double)job->sqlite.value, text);
}

static void write_tables(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        number_unless(job->sqlite.tables, 0, text);
}

static void write_databases(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        number_unless(job->sqlite.databases, 1, text);
}

static void write_page(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_sqlite(job))
        words_bytes((double)job->sqlite.page, text);
}

static void write_files(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        number_unless(job->postmark.files, 0, text);
}

static void write_file_size(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        snprintf(text, WORDS_SIZE, "%" PRId64 ":%" PRId64, job->postmark.least, job->postmark.most);
}

static void write_read_block(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        words_bytes((double)job->postmark.read_block, text);
}

static void write_write_block(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        words_bytes((double)job->postmark.write_block, text);
}

static void write_bias_read(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        number_unless(job->postmark.bias_read, 5, text);
}

static void write_bias_create(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        number_unless(job->postmark.bias_create, 5, text);
}

static void write_subdirectories(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (is_postmark(job))
        number_unless(job->postmark.subdirectories, 0, text);
}

static void write_threads(const struct bench_job *job, char text[WORDS_SIZE])
{
    number_unless(job->threads, 0, text);
}

static void write_processes(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->processes)
        word("processes", text);
}

static void write_shared(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->shared && job->threads > 1)
        word("shared", text);
}

static void write_ops(const struct bench_job *job, char text[WORDS_SIZE])
{
    number_unless(job->ops, 0, text);
}

static void write_duration(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->duration_ns)
        words_time((double)job->duration_ns, text);
}

static void write_warmup(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->warmup_ns)
        words_time((double)job->warmup_ns, text);
}

static void write_rate(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->rate)
        snprintf(text, WORDS_SIZE, "%" PRId64 "/s", job->rate);
}

static void write_think(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->think_ns)
        words_time((double)job->think_ns, text);
}

/* Without it what was written may still be in memory; PostMark has none. */
static void write_end_sync(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (!is_file(job) || job->file.access != ACCESS_READ)
        number_unless(job->final_sync, !is_postmark(job), text);
}

static void write_seed(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->seed != 1)
        snprintf(text, WORDS_SIZE, "%" PRIu64, job->seed);
}

static void write_cache(const struct bench_job *job, char text[WORDS_SIZE])
{
    if (job->cache != CACHE_UNKNOWN)
        word(cache_states[job->cache], text);
}

const struct parameter bench_parameters[NR_PARAMETERS] = {
    [PARAMETER_PLACE] = {"in", write_place},
    [PARAMETER_LIBRARY] = {"library", write_library},
    {"test", write_test},
    {"rwmixread", write_reads},
    {"mode", write_mode},
    {"every", write_every},
    {"bs", write_record},
    {"size", write_size},
    {"layout", write_layout},
    {"iodepth", write_depth},
    {"overlap", write_overlap},
    {"loops", write_loops},
    {"compress", write_compress},
    {"dedupe", write_dedupe},
    {"journal-mode", write_journal},
    {"synchronous", write_synchronous},
    {"checkpoint", write_checkpoint},
    {"rows", write_rows},
    {"mix", write_mix},
    {"prefilled", write_prefilled},
    {"value-size", write_value},
    {"tables", write_tables},
    {"databases", write_databases},
    {"page-size", write_page},
    {"files", write_files},
    {"file-size", write_file_size},
    {"read-block", write_read_block},
    {"write-block", write_write_block},
    {"bias-read", write_bias_read},
    {"bias-create", write_bias_create},
    {"subdirectories", write_subdirectories},
    {"numjobs", write_threads},
    {"workers", write_processes},
    {"file", write_shared},
    {"operations", write_ops},
    {"runtime", write_duration},
    {"ramp_time", write_warmup},
    {"rate_iops", write_rate},
    {"thinktime", write_think},
    {"end_fsync", write_end_sync},
    {"randseed", write_seed},
    {"cache", write_cache},
};
