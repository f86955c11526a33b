#include "ioreplay/results.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/complain.h"
#include "ioreplay/shapes.h"

const char *const replay_divergence_names[REPLAY_DIVERGENCES] = {
    [DIVERGENCE_NONE] = "none",           [DIVERGENCE_UNKNOWN] = "unknown", [DIVERGENCE_FAILED] = "failed",
    [DIVERGENCE_SUCCEEDED] = "succeeded", [DIVERGENCE_ERROR] = "error",     [DIVERGENCE_BYTES] = "bytes",
};

/* A number of bytes or a position is returned; else only whether it succeeded. */
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

/* Of the operations that were due. */
struct late {
    int64_t *all, *own;
};

/* One that began before it was due, as the clock of a guest may tell it, is not late. */
static int64_t late_by(const struct replay_outcome *outcome, int64_t due_ns)
{
    return outcome->start_ns > due_ns ? outcome->start_ns - due_ns : 0;
}

/* What is left of lateness without the time in which the thread was still in its operation before, and that in which it
 * waited for others. A thread's outcomes lie one behind the other. */
static int64_t own_part(const struct replay_operation *operation, const struct replay_outcome *outcome, int64_t due_ns)
{
    int64_t late_ns = late_by(outcome, due_ns), most_ns = late_ns;
    int64_t busy_ns = operation->index ? outcome[-1].start_ns + outcome[-1].latency_ns - due_ns : 0;

    if (busy_ns < 0)
        busy_ns = 0;
    if (busy_ns > most_ns)
        busy_ns = most_ns;
    most_ns -= busy_ns;
    return late_ns - busy_ns - (outcome->waited_ns < most_ns ? outcome->waited_ns : most_ns);
}

static void add(struct replay_tally *tally, const struct replay_run *run, const struct replay_operation *operation,
                const struct replay_outcome *outcome, const struct late *late)
{
    int64_t due_ns = replay_due_ns(run, operation);
    enum replay_divergence divergence = replay_compare(operation, outcome->result);
    enum replay_moves moves = replay_moves(operation);
    int64_t bytes = outcome->result > 0 ? outcome->result : 0;

    if (operation->inserted) {
        tally->inserted++;
        return;
    }
    tally->done++;
    tally->divergences[divergence]++;
    tally->diverged += divergence != DIVERGENCE_NONE && divergence != DIVERGENCE_UNKNOWN;
    tally->read += moves & MOVES_READ ? bytes : 0;
    tally->written += moves & MOVES_WRITTEN ? bytes : 0;
    tally->io_ns += outcome->latency_ns;
    if (due_ns != RECORD_NULL_INT64) {
        late->all[tally->nr_due] = late_by(outcome, due_ns);
        late->own[tally->nr_due++] = own_part(operation, outcome, due_ns);
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

static struct replay_lateness percentiles(int64_t *late, int64_t count)
{
    if (!count)
        return (struct replay_lateness){0};
    qsort(late, (size_t)count, sizeof *late, by_value);
    return (struct replay_lateness){
        .p50_ns = late[(count * 50 + 99) / 100 - 1],
        .p99_ns = late[(count * 99 + 99) / 100 - 1],
        .most_ns = late[count - 1],
    };
}

int replay_tally_make(struct replay_tally *tally, const struct replay_run *run)
{
    const struct replay_program *program = run->program;
    size_t room = program->nr_operations + (size_t)1;
    int64_t *memory = calloc(room, 2 * sizeof *memory);
    struct late late = {memory, memory ? memory + room : NULL};

    *tally = (struct replay_tally){.operations = (int64_t)program->nr_operations - program->nr_inserted};
    if (!memory)
        return complain("no memory for the summary of %" PRIu32 " operations", program->nr_operations);
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_outcome *outcome = replay_outcome(run, number);

        if (outcome)
            add(tally, run, &program->operations[number], outcome, &late);
    }
    tally->late = percentiles(late.all, tally->nr_due);
    tally->own = percentiles(late.own, tally->nr_due);
    free(memory);
    return 0;
}
