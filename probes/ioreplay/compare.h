/* What came of an operation beside what was recorded. */
#ifndef ANDROSTEP_IOREPLAY_COMPARE_H
#define ANDROSTEP_IOREPLAY_COMPARE_H

#include "ioreplay/program.h"

enum replay_divergence {
    DIVERGENCE_NONE,
    DIVERGENCE_UNKNOWN,
    DIVERGENCE_FAILED,
    DIVERGENCE_SUCCEEDED,
    DIVERGENCE_ERROR,
    DIVERGENCE_BYTES,
    REPLAY_DIVERGENCES
};

/* As schemas/replay_ops.json has them. */
extern const char *const replay_divergence_names[REPLAY_DIVERGENCES];

/* What schemas/replay_ops.json says of this result. Bytes of getdents are not compared: how many entries fit and which
 * others are in a directory is not the program's. */
enum replay_divergence replay_compare(const struct replay_operation *operation, int64_t result);

/* Whether that is another result than the recorded one. */
bool replay_diverged(enum replay_divergence divergence);

#endif
