#include "iobench/bench.h"

const char *const bench_parts[NR_PARTS] = {
    [PART_OP] = "op",
    [PART_READ] = "read",
    [PART_WRITE] = "write",
    [PART_SYNC] = "sync",
    [PART_FINISH] = "finish",
    [PART_BEGIN] = "begin",
    [PART_STATEMENT] = "statement",
    [PART_COMMIT] = "commit",
    [PART_CHECKPOINT] = "checkpoint",
    [PART_CREATE] = "create",
    [PART_APPEND] = "append",
    [PART_DELETE] = "delete",
    [PART_FILL] = "fill",
    [PART_CLEAR] = "clear",
};

const char *const bench_workloads[3] = {
    [BENCH_FILE] = "file", [BENCH_SQLITE] = "sqlite", [BENCH_POSTMARK] = "postmark"};
const char *const file_layouts[3] = {
    [LAYOUT_WRITTEN] = "written", [LAYOUT_ALLOCATED] = "allocated", [LAYOUT_EMPTY] = "empty"};
const char *const sqlite_synchronous[4] = {"OFF", "NORMAL", "FULL", "EXTRA"};

static const char *file_test(const struct file_job *job)
{
    static const char *const tests[][2] = {
        [ACCESS_READ] = {"seq_read", "rand_read"},
        [ACCESS_WRITE] = {"seq_write", "rand_write"},
        [ACCESS_APPEND] = {"append", "append"},
        [ACCESS_MIXED] = {"seq_mixed", "rand_mixed"},
    };
    return tests[job->access][job->random];
}

static const char *sqlite_test(const struct sqlite_job *job)
{
    static const char *const tests[] = {
        [SQLITE_OP_INSERT] = "sqlite_insert", [SQLITE_OP_UPDATE] = "sqlite_update",
        [SQLITE_OP_DELETE] = "sqlite_delete", [SQLITE_OP_SELECT] = "sqlite_select",
        [SQLITE_OP_MIXED] = "sqlite_mixed",
    };
    return tests[job->op];
}

const char *bench_test(const struct bench_job *job)
{
    switch (job->workload) {
    case BENCH_FILE:
        return file_test(&job->file);
    case BENCH_SQLITE:
        return sqlite_test(&job->sqlite);
    case BENCH_POSTMARK:
        break;
    }
    return "postmark";
}
