#define _GNU_SOURCE
#include "iobench/report/mobibench.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "common/utf8.h"
#include "iobench/modes.h"

/* The numbers of its line setState. */
enum state { STATE_READY = 1, STATE_EXEC, STATE_END, STATE_ERROR };

#define RULE "-----------------------------------------\n"

int mobibench_access(const struct file_job *job)
{
    switch (job->access) {
    case ACCESS_WRITE:
        return job->random ? 1 : 0;
    case ACCESS_READ:
        return job->random ? 3 : 2;
    case ACCESS_APPEND:
        return 4;
    case ACCESS_MIXED:
        break;
    }
    return -1;
}

int mobibench_operation(const struct sqlite_job *job)
{
    static const int operations[] = {
        [SQLITE_OP_INSERT] = 0,  [SQLITE_OP_UPDATE] = 1, [SQLITE_OP_DELETE] = 2,
        [SQLITE_OP_SELECT] = -1, [SQLITE_OP_MIXED] = -1,
    };

    return operations[job->op];
}

const char *mobibench_lacks(const struct bench_job *job)
{
    const struct file_job *file = &job->file;

    if (job->workload == BENCH_POSTMARK)
        return "Mobibench has no PostMark";
    if (job->workload == BENCH_SQLITE)
        return mobibench_operation(&job->sqlite) < 0 ? "Mobibench has no selects and no mixed transactions" : NULL;
    if (mobibench_access(file) < 0)
        return "Mobibench has no mixed reads and writes";
    if (mode_mobibench(&file->mode) < 0 || (file->mode.after != AFTER_NONE && file->after_every != 1))
        return "Mobibench has no number (-y) for this mode";
    if (file->record % 1024 || file->size % 1024)
        return "Mobibench counts files and records in whole KB";
    return NULL;
}

static void print_file_setup(FILE *out, const struct bench_result *result)
{
    const struct bench_job *job = result->job;
    const struct file_job *file = &job->file;
    int64_t share = job->shared ? file->size / job->threads : file->size;
    int64_t count = share / file->record * file->loops;

    if (job->ops || job->duration_ns)
        count = (job->ops ? job->ops : result->parts[PART_OP].ops) / job->threads;
    fprintf(out, "File size per thread : %" PRId64 " KB\n", share / 1024);
    fprintf(out, "IO size : %" PRId64 " KB\n", file->record / 1024);
    fprintf(out, "IO count : %" PRId64 " \n", count);
    fprintf(out, "Access Mode %d, Sync Mode %d\n", mobibench_access(file), mode_mobibench(&file->mode));
}

static void print_sqlite_setup(FILE *out, const struct bench_result *result)
{
    const struct bench_job *job = result->job;
    int64_t transactions = job->ops ? job->ops : result->parts[PART_OP].ops;

    fprintf(out, "DB teset mode enabled.\n");
    if (job->think_ns)
        fprintf(out, "DB time interval : %" PRId64 " ms\n", job->think_ns / 1000000);
    fprintf(out, "Operation : %d\n", mobibench_operation(&job->sqlite));
    fprintf(out, "Transactions per thread: %" PRId64 "\n", transactions / job->threads);
    fprintf(out, "# of Tables : %" PRId64 "\n", job->sqlite.tables);
    fprintf(out, "# of Databases : %" PRId64 "\n", job->sqlite.databases);
}

static void print_state(FILE *out, enum state state)
{
    fprintf(out, "setState: %d\n", state);
}

static int synchronous_number(const char *word)
{
    int number = 0;

    while (strcmp(sqlite_synchronous[number], word) != 0)
        number++;
    return number;
}

static void print_database(FILE *out, const struct bench_result *result, int64_t database)
{
    const struct sqlite_job *job = &result->job->sqlite;
    const char *versions = result->run.versions;

    fprintf(out, RULE "[DB information of db ");
    utf8_print(out, result->run.directory);
    fprintf(out, "/test.db0_%" PRId64 "]\n" RULE, database);
    fprintf(out, "sqlite_version=%.*s\n", (int)strcspn(versions, " "), versions);
    fprintf(out, "page_size=%" PRId64 "\njournal_mode=", job->page);
    for (const char *letter = job->journal_mode; *letter; letter++)
        putc(tolower((unsigned char)*letter), out);
    fprintf(out, "\nsynchronous=%d\n", synchronous_number(job->synchronous));
}

static void print_setup(FILE *out, const struct bench_result *result)
{
    const struct bench_job *job = result->job;
    bool sqlite = job->workload == BENCH_SQLITE;

    fprintf(out, RULE "[mobibench measurement setup]\n" RULE);
    if (sqlite)
        print_sqlite_setup(out, result);
    else
        print_file_setup(out, result);
    fprintf(out, "# of Threads : %" PRId64 "\n", job->threads);
    print_state(out, STATE_READY);
    for (int64_t database = 0; sqlite && result->run.versions[0] && database < job->sqlite.databases; database++)
        print_database(out, result, database);
    print_state(out, STATE_EXEC);
}

/* Left out where the kernel tells nothing or its clock did not tick: the original printed -nan. */
static void print_cpu(FILE *out, const struct system_usage *system)
{
    double active = (double)system->cpu_active_ns, idle = (double)system->cpu_idle_ns;
    double iowait = (double)system->cpu_iowait_ns, total = active + idle + iowait;

    if (active < 0 || idle < 0 || iowait < 0 || total <= 0)
        return;
    fprintf(out, "[CPU] : Active,Idle,IoWait : %1.2f %1.2f %1.2f\n", 100 * active / total, 100 * idle / total,
            100 * iowait / total);
}

void mobibench_time(FILE *out, const struct bench_result *result)
{
    int64_t us = (result->duration_ns - result->paused_ns + 500) / 1000;
    double rate = result->bytes_per_second;

    fprintf(out, "[TIME] :%8" PRId64 " sec %06" PRId64 "us. \t", us / 1000000, us % 1000000);
    if (result->job->workload == BENCH_SQLITE) {
        fprintf(out, "%.2f Transactions/sec", result->iops);
        return;
    }
    fprintf(out, "%.0f B/sec, \t%.2f KB/sec, \t%.2f MB/sec.", rate, rate / 1024, rate / 1024 / 1024);
    if (result->job->file.random)
        fprintf(out, " %.2f IOPS(%" PRId64 "KB) ", result->iops, result->job->file.record / 1024);
}

static void print_outcome(FILE *out, const struct bench_result *result)
{
    const struct usage *usage = &result->usage;

    fprintf(out, RULE "[Messurement Result]\n" RULE);
    print_cpu(out, &result->run.system);
    mobibench_time(out, result);
    putc('\n', out);
    if (result->job->threads == 1)
        fprintf(out, "[CON SWITCHES] : %" PRId64 " %" PRId64 "\n", usage->ctx_voluntary + usage->ctx_involuntary,
                usage->ctx_voluntary);
}

int results_print_mobibench(FILE *out, const struct bench_results *results)
{
    for (size_t index = 0; index < results->count; index++) {
        const struct bench_result *result = &results->items[index];
        bool valid = result_valid(result);

        print_setup(out, result);
        if (valid)
            print_outcome(out, result);
        print_state(out, valid ? STATE_END : STATE_ERROR);
        fprintf(out, "Err string : ");
        utf8_print(out, valid ? "No error" : result->run.invalid);
        putc('\n', out);
    }
    return fflush(out) || ferror(out) ? -1 : 0;
}
