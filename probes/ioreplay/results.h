/* What a replay came to: beside what was recorded, summed up, as records, and for people. */
#ifndef ANDROSTEP_IOREPLAY_RESULTS_H
#define ANDROSTEP_IOREPLAY_RESULTS_H

#include <stdio.h>

#include "common/record.h"
#include "ioreplay/run.h"

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

/* Without the operations that the cleaner inserted, but for their number. */
struct replay_tally {
    int64_t operations, done, inserted;
    int64_t divergences[REPLAY_DIVERGENCES], diverged;
};

/* tally.c */
void replay_tally_make(struct replay_tally *tally, const struct replay_run *run);

/* Where and how it was done. */
struct replay_report {
    const struct replay_run *run;
    struct replay_tally tally;
    char run_id[40];
    int64_t files, files_bytes; /* there before the start */
    const char *fs_type;        /* NULL: not known, or a device */
    const char *device;         /* NULL: not known */
    int32_t cold;               /* null: not known */
};

/* record.c: tables replay_runs and replay_ops. Returns 0, or -1 when the file cannot be written. */
int replay_record(struct record *out, const struct replay_report *report);
extern const struct record_probe replay_probe;

/* print.c: a line of what was done; the host has the rest from the records. Returns 0, or -1 where it cannot be
 * written. */
int replay_print(FILE *out, const struct replay_report *report);

#endif
