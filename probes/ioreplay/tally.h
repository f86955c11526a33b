/* What a replay came to: sums over its operations. */
#ifndef ANDROSTEP_IOREPLAY_TALLY_H
#define ANDROSTEP_IOREPLAY_TALLY_H

#include "ioreplay/compare.h"
#include "ioreplay/run.h"

/* Of the operations that were due at some time: nearest ranks. */
struct replay_lateness {
    int64_t p50_ns, p99_ns, most_ns;
};

/* Without the operations that the cleaner inserted, but for their number. */
struct replay_tally {
    int64_t operations, done, inserted;
    int64_t divergences[REPLAY_DIVERGENCES], diverged;
    int64_t read, written; /* bytes */
    int64_t io_ns;         /* sum of the latencies */
    int64_t nr_due;
    struct replay_lateness late;
    struct replay_lateness own; /* the part of it that is the replayer's (schemas/definitions.toml, replay_lateness) */
};

/* 0, or -1 after it complained that there is no memory. */
int replay_tally_make(struct replay_tally *tally, const struct replay_run *run);

#endif
