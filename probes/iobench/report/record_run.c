#include "iobench/bench.h"

#define NULL64     RECORD_NULL_INT64
#define NULL32     RECORD_NULL_INT32
#define TEXT_BYTES 128

#define TYPE_INT64  int64_t
#define TYPE_INT32  int32_t
#define TYPE_UINT32 uint32_t
#define TYPE_STRING struct record_string

struct run_row {
#define COLUMN(type, null, name, unit, value, meaning) TYPE_##type name;
#include "iobench/report/run_columns.def"
#undef COLUMN
};

static const struct record_field run_fields[] = {
#define COLUMN(type, null, name, unit, value, meaning)                                                                 \
    {#name, RECORD_##type, null, unit, meaning, offsetof(struct run_row, name), sizeof(TYPE_##type)},
#include "iobench/report/run_columns.def"
#undef COLUMN
};

const struct record_type bench_run_type =
    RECORD_TYPE("bench_run", "bench_runs",
                "A repetition of a configuration: its settings, its device, and its effect on the system.", run_fields);

static int64_t or_null(int64_t value, int64_t unknown)
{
    return value == unknown ? NULL64 : value;
}

static const char *not_empty(const char *text)
{
    return text[0] ? text : NULL;
}

#define SUM(run, member) sum(run, offsetof(struct bench_worker, member))

static int64_t sum(const struct bench_run *run, size_t member)
{
    int64_t total = 0;
    for (int32_t index = 0; index < run->nr_workers; index++)
        total += *(const int64_t *)((const char *)&run->workers[index] + member);
    return total;
}

/* Store a value: numbers in the row, texts after the previous texts. */
#define PUT_INT64(name, value)  row.name = value
#define PUT_INT32(name, value)  row.name = value
#define PUT_UINT32(name, value) row.name = value
#define PUT_STRING(name, value) *next++ = record_text(value)

int bench_run_add(struct record *out, const struct bench_result *result, const char *command)
{
    const struct bench_run *run = result->run;
    const struct bench_job *job = result->job;
    const struct storage *storage = result->storage;
    const struct file_job *file = job->workload == BENCH_FILE ? &job->file : NULL;
    const struct sqlite_job *sqlite = job->workload == BENCH_SQLITE ? &job->sqlite : NULL;
    const struct postmark_job *postmark = job->workload == BENCH_POSTMARK ? &job->postmark : NULL;
    struct record_text texts[sizeof run_fields / sizeof *run_fields], *next = texts;
    char mode[MODE_NAME], mix[TEXT_BYTES];
    struct run_row row = {0};
    mode_name(&job->file.mode, job->engine, mode);
    snprintf(mix, sizeof mix, "%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, job->sqlite.mix[0], job->sqlite.mix[1],
             job->sqlite.mix[2], job->sqlite.mix[3]);
#define COLUMN(type, null, name, unit, value, meaning) PUT_##type(name, (value));
#include "iobench/report/run_columns.def"
#undef COLUMN
    return record_add(out, &bench_run_type, &row, texts);
}
