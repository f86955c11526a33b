#include "ioreplay/compare.h"

#include "ioreplay/moves.h"

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

bool replay_diverged(enum replay_divergence divergence)
{
    return divergence != DIVERGENCE_NONE && divergence != DIVERGENCE_UNKNOWN;
}
