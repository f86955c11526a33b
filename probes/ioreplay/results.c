#include "ioreplay/replay.h"

/* -- comparison and sums ------------------------------------------------------------------------------------------ */

/* As in schemas/replay_ops.json and schemas/replay_runs.json. */
enum divergence { NONE, UNKNOWN, FAILED, SUCCEEDED, ERROR, BYTES, DIVERGENCES };
static const char *const divergences[] = {"none", "unknown", "failed", "succeeded", "error", "bytes"};
static const char *const modes[] = {"as_recorded", "as_fast", "scaled"};

/* Return whether the result is a number of bytes or a position, and not only success. The bytes of getdents are not
 * compared: they depend on the filesystem and on other entries of the directory. */
static bool returns_number(const struct replay_operation *operation)
{
    return operation->call == CALL_LSEEK || operation->call == CALL_READLINK ||
           replay_moves(operation) != MOVES_NOTHING;
}

/* Compare a result with the recorded one, as defined in schemas/replay_ops.json. */
static enum divergence compare(const struct replay_operation *operation, int64_t result)
{
    if (operation->failed < 0)
        return UNKNOWN;
    if (operation->failed && result >= 0)
        return SUCCEEDED;
    if (!operation->failed && result < 0)
        return FAILED;
    if (!operation->failed && !returns_number(operation))
        return NONE;
    if (operation->result == RECORD_NULL_INT64)
        return UNKNOWN;
    if (operation->result == result)
        return NONE;
    return operation->failed ? ERROR : BYTES;
}

static void count(struct replay_report *report, int64_t counts[DIVERGENCES])
{
    const struct replay_program *program = report->run->program;
    report->operations = (int64_t)program->nr_operations - program->nr_inserted;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        const struct replay_outcome *outcome = replay_outcome(report->run, number);
        if (outcome && operation->inserted)
            report->inserted++;
        else if (outcome)
            counts[compare(operation, outcome->result)]++;
    }
    for (int kind = NONE; kind < DIVERGENCES; kind++) {
        report->done += counts[kind];
        report->diverged += kind > UNKNOWN ? counts[kind] : 0;
    }
}

int replay_print(FILE *out, struct replay_report *report)
{
    const struct replay_run *run = report->run;
    const char *comma = " (";
    int64_t counts[DIVERGENCES] = {0};
    count(report, counts);
    fprintf(out, "%.3f s (recorded %.3f s)%s, %" PRId64 " of %" PRId64 " operations done by %" PRIu32 " threads",
            (double)run->duration_ns / 1e9, (double)run->program->duration_ns / 1e9,
            run->interrupted ? ", a signal ended it early" : "", report->done, report->operations,
            run->program->nr_threads);
    fprintf(out, ", %" PRId64 " diverged", report->diverged);
    for (int kind = UNKNOWN; kind < DIVERGENCES; kind++)
        if (counts[kind]) {
            fprintf(out, "%s%s %" PRId64, comma, divergences[kind], counts[kind]);
            comma = ", ";
        }
    fputs(*comma == ',' ? ")\n" : "\n", out);
    return fflush(out) || ferror(out) ? -1 : 0;
}

/* -- records ------------------------------------------------------------------------------------------------------ */

/* Columns of table replay_runs, with its names and units. */
struct run_row {
    int64_t scale_ppm, ts_ns, realtime_ns, duration_ns, recorded_ns, operations, done, inserted, diverged, files,
        files_bytes, cpu_user_ns, cpu_system_ns;
    int32_t threads, cold, interrupted, result;
    struct record_string run_id, program, mode, fs_type, device;
};

static const struct record_field run_fields[] = {
    RECORD_FIELD(run_row, scale_ppm, true, "1e-6", "Of a scaled replay: how many times as fast as recorded."),
    RECORD_FIELD(run_row, ts_ns, false, "ns", "Start."),
    RECORD_FIELD(run_row, realtime_ns, false, "ns", "The same moment in CLOCK_REALTIME."),
    RECORD_FIELD(run_row, duration_ns, false, "ns", "Until the last operation ended."),
    RECORD_FIELD(run_row, recorded_ns, false, "ns", "The same in the recording."),
    RECORD_FIELD(run_row, operations, false, "operations", "Operations of the program, without inserted ones."),
    RECORD_FIELD(run_row, done, false, "operations", "Completed operations, whatever their result."),
    RECORD_FIELD(run_row, inserted, false, "operations", "Inserted operations that were done."),
    RECORD_FIELD(run_row, diverged, false, "operations", "Number of `done` operations without the recorded result."),
    RECORD_FIELD(run_row, files, false, "files", "Files that existed before the start."),
    RECORD_FIELD(run_row, files_bytes, false, "B", "Their sizes."),
    RECORD_FIELD(run_row, cpu_user_ns, false, "ns", "CPU time of the process in user mode."),
    RECORD_FIELD(run_row, cpu_system_ns, false, "ns", "CPU time of the process in the kernel."),
    RECORD_FIELD(run_row, threads, false, NULL, "Threads."),
    RECORD_FIELD(run_row, cold, true, NULL, "1: the files were out of the page cache at the start; 0: not all were."),
    RECORD_FIELD(run_row, interrupted, false, NULL, "1: a signal ended it early; else 0."),
    RECORD_FIELD(run_row, result, false, NULL, "0, or the negative errno of the error that ended it early."),
    RECORD_FIELD(run_row, run_id, false, NULL, "ID of the replay; different in each run."),
    RECORD_FIELD(run_row, program, false, NULL, "SHA-256 of the program's file."),
    RECORD_FIELD(run_row, mode, false, NULL, "as_recorded, as_fast or scaled."),
    RECORD_FIELD(run_row, fs_type, true, NULL, "Type of the filesystem replayed on."),
    RECORD_FIELD(run_row, device, true, NULL, "Source of its mount, or the target device or file."),
};

/* Columns of table replay_ops. */
struct op_row {
    int64_t operation, due_ns, start_ns, waited_ns, latency_ns, bytes, result;
    int32_t thread, inserted;
    struct record_string call, divergence;
};

static const struct record_field op_fields[] = {
    RECORD_FIELD(op_row, operation, false, NULL, "Number in the program."),
    RECORD_FIELD(op_row, due_ns, true, "ns", "When it should have begun; null: as soon as possible."),
    RECORD_FIELD(op_row, start_ns, false, "ns", "When it began, since the start of the replay."),
    RECORD_FIELD(op_row, waited_ns, false, "ns", "How long it waited for operations of other threads."),
    RECORD_FIELD(op_row, latency_ns, false, "ns", "How long it took."),
    RECORD_FIELD(op_row, bytes, true, "B", "Bytes read or written; null if it does neither."),
    RECORD_FIELD(op_row, result, false, NULL, "What it returned, or a negative errno."),
    RECORD_FIELD(op_row, thread, false, NULL, "Number of the thread in the program."),
    RECORD_FIELD(op_row, inserted, false, NULL, "1: inserted by the cleaner; else 0."),
    RECORD_FIELD(op_row, call, false, NULL, "What was done."),
    RECORD_FIELD(op_row, divergence, false, NULL, "How its result differs from the recorded one."),
};

static const struct record_type run_type =
    RECORD_TYPE("replay_run", "replay_runs", "A replay; one in each file, at its end.", run_fields);
static const struct record_type op_type =
    RECORD_TYPE("replay_op", "replay_ops", "One operation that was done.", op_fields);
static const struct record_type *const types[] = {&run_type, &op_type};
const struct record_probe replay_probe = {"ioreplay", types, sizeof types / sizeof *types};

static int64_t bytes_of(const struct replay_operation *operation, int64_t result)
{
    if (replay_moves(operation) == MOVES_NOTHING)
        return RECORD_NULL_INT64;
    return result > 0 ? result : 0;
}

static int add_operation(struct record *out, const struct replay_run *run, uint32_t number,
                         const struct replay_outcome *outcome)
{
    const struct replay_operation *operation = &run->program->operations[number];
    const struct record_text texts[] = {
        record_text(replay_shapes[operation->call].name),
        record_text(divergences[compare(operation, outcome->result)]),
    };
    const struct op_row row = {.operation = number,
                               .due_ns = replay_due_ns(run, operation),
                               .start_ns = outcome->start_ns,
                               .waited_ns = outcome->waited_ns,
                               .latency_ns = outcome->latency_ns,
                               .bytes = bytes_of(operation, outcome->result),
                               .result = outcome->result,
                               .thread = operation->thread,
                               .inserted = operation->inserted};
    return record_add(out, &op_type, &row, texts);
}

static int add_run(struct record *out, const struct replay_report *report)
{
    const struct replay_run *run = report->run;
    const struct record_text texts[] = {record_text(report->run_id), record_text(run->program->sha256),
                                        record_text(modes[run->mode]), record_text(report->fs_type),
                                        record_text(report->device)};
    const struct run_row row = {.scale_ppm = run->mode == REPLAY_SCALED ? run->scale_ppm : RECORD_NULL_INT64,
                                .ts_ns = run->ts_ns,
                                .realtime_ns = run->realtime_ns,
                                .duration_ns = run->duration_ns,
                                .recorded_ns = run->program->duration_ns,
                                .operations = report->operations,
                                .done = report->done,
                                .inserted = report->inserted,
                                .diverged = report->diverged,
                                .files = report->files,
                                .files_bytes = report->files_bytes,
                                .cpu_user_ns = run->cpu_user_ns,
                                .cpu_system_ns = run->cpu_system_ns,
                                .threads = (int32_t)run->program->nr_threads,
                                .cold = report->cold,
                                .interrupted = run->interrupted,
                                .result = run->result};
    return record_add(out, &run_type, &row, texts);
}

int replay_record(struct record *out, const struct replay_report *report)
{
    for (uint32_t number = 0; number < report->run->program->nr_operations; number++) {
        const struct replay_outcome *outcome = replay_outcome(report->run, number);
        if (outcome && add_operation(out, report->run, number, outcome))
            return -1;
    }
    return add_run(out, report);
}
