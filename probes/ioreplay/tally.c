#include "ioreplay/results.h"
#include "ioreplay/shapes.h"

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
