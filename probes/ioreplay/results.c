#include "ioreplay/results.h"

#include <inttypes.h>
#include <string.h>

#include "ioreplay/shapes.h"

/* -- comparison and sums ------------------------------------------------------------------------------------------ */

const char *const replay_divergence_names[REPLAY_DIVERGENCES] = {
    [DIVERGENCE_NONE] = "none",           [DIVERGENCE_UNKNOWN] = "unknown", [DIVERGENCE_FAILED] = "failed",
    [DIVERGENCE_SUCCEEDED] = "succeeded", [DIVERGENCE_ERROR] = "error",     [DIVERGENCE_BYTES] = "bytes",
};

/* Return whether the result is a number of bytes or a position, and not only success. */
static bool returns_number(const struct replay_operation *operation)
{
    return operation->call == CALL_LSEEK || operation->call == CALL_READLINK ||
           replay_moves(operation) != MOVES_NOTHING;
}

enum replay_divergence replay_compare(const struct replay_operation *operation, int64_t result)
{
    if (operation->failed < 0)
        return DIVERGENCE_UNKNOWN;
    if (operation->failed && result >= 0)
        return DIVERGENCE_SUCCEEDED;
    if (!operation->failed && result < 0)
        return DIVERGENCE_FAILED;
    if (!operation->failed && !returns_number(operation))
        return DIVERGENCE_NONE;
    if (operation->result == RECORD_NULL_INT64)
        return DIVERGENCE_UNKNOWN;
    if (operation->result == result)
        return DIVERGENCE_NONE;
    return operation->failed ? DIVERGENCE_ERROR : DIVERGENCE_BYTES;
}

static void add(struct replay_tally *tally, const struct replay_operation *operation,
                const struct replay_outcome *outcome)
{
    enum replay_divergence divergence = replay_compare(operation, outcome->result);

    if (operation->inserted) {
        tally->inserted++;
        return;
    }
    tally->done++;
    tally->divergences[divergence]++;
    tally->diverged += divergence != DIVERGENCE_NONE && divergence != DIVERGENCE_UNKNOWN;
}

void replay_tally_make(struct replay_tally *tally, const struct replay_run *run)
{
    const struct replay_program *program = run->program;

    *tally = (struct replay_tally){.operations = (int64_t)program->nr_operations - program->nr_inserted};
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_outcome *outcome = replay_outcome(run, number);

        if (outcome)
            add(tally, &program->operations[number], outcome);
    }
}

/* -- one line for people ------------------------------------------------------------------------------------------ */

static void print_divergences(FILE *out, const struct replay_tally *tally)
{
    const char *comma = " (";

    fprintf(out, ", %" PRId64 " diverged", tally->diverged);
    for (int kind = DIVERGENCE_UNKNOWN; kind < REPLAY_DIVERGENCES; kind++)
        if (tally->divergences[kind]) {
            fprintf(out, "%s%s %" PRId64, comma, replay_divergence_names[kind], tally->divergences[kind]);
            comma = ", ";
        }
    fputs(*comma == ',' ? ")\n" : "\n", out);
}

int replay_print(FILE *out, const struct replay_report *report)
{
    const struct replay_run *run = report->run;
    const struct replay_tally *tally = &report->tally;

    fprintf(out, "%.3f s (recorded %.3f s)%s, %" PRId64 " of %" PRId64 " operations done by %" PRIu32 " threads",
            (double)run->duration_ns / 1e9, (double)run->program->duration_ns / 1e9,
            run->interrupted ? ", a signal ended it early" : "", tally->done, tally->operations,
            run->program->nr_threads);
    print_divergences(out, tally);
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

#define FIELD(member, nullable, unit, meaning) RECORD_FIELD(run_row, member, nullable, unit, meaning)

static const struct record_field run_fields[] = {
    FIELD(scale_ppm, true, "1e-6", "Of a scaled replay: how many times as fast as recorded."),
    FIELD(ts_ns, false, "ns", "Start."),
    FIELD(realtime_ns, false, "ns", "The same moment in CLOCK_REALTIME."),
    FIELD(duration_ns, false, "ns", "Until the last operation ended."),
    FIELD(recorded_ns, false, "ns", "The same in the recording."),
    FIELD(operations, false, "operations", "Operations of the program, without inserted ones."),
    FIELD(done, false, "operations", "Completed operations, whatever their result."),
    FIELD(inserted, false, "operations", "Inserted operations that were done."),
    FIELD(diverged, false, "operations", "Number of `done` operations without the recorded result."),
    FIELD(files, false, "files", "Files that existed before the start."),
    FIELD(files_bytes, false, "B", "Their sizes."),
    FIELD(cpu_user_ns, false, "ns", "CPU time of the process in user mode."),
    FIELD(cpu_system_ns, false, "ns", "CPU time of the process in the kernel."),
    FIELD(threads, false, NULL, "Threads."),
    FIELD(cold, true, NULL, "1: the files were out of the page cache at the start; 0: not all were."),
    FIELD(interrupted, false, NULL, "1: a signal ended it early; else 0."),
    FIELD(result, false, NULL, "0, or the negative errno of the error that ended it early."),
    FIELD(run_id, false, NULL, "ID of the replay; different in each run."),
    FIELD(program, false, NULL, "SHA-256 of the program's file."),
    FIELD(mode, false, NULL, "as_recorded, as_fast or scaled."),
    FIELD(fs_type, true, NULL, "Type of the filesystem replayed on."),
    FIELD(device, true, NULL, "Source of its mount, or the target device or file."),
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

static struct record_text text(const char *bytes)
{
    return (struct record_text){bytes, bytes ? strlen(bytes) : 0};
}

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
        text(replay_shapes[operation->call].name),
        text(replay_divergence_names[replay_compare(operation, outcome->result)]),
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
    const struct record_text texts[] = {text(report->run_id), text(run->program->sha256),
                                        text(replay_mode_names[run->mode]), text(report->fs_type),
                                        text(report->device)};
    const struct run_row row = {.scale_ppm = run->mode == REPLAY_SCALED ? run->scale_ppm : RECORD_NULL_INT64,
                                .ts_ns = run->ts_ns,
                                .realtime_ns = run->realtime_ns,
                                .duration_ns = run->duration_ns,
                                .recorded_ns = run->program->duration_ns,
                                .operations = report->tally.operations,
                                .done = report->tally.done,
                                .inserted = report->tally.inserted,
                                .diverged = report->tally.diverged,
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
