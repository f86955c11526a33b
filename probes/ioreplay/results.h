/* Results of a replay: compared with the recording, summed up, recorded and printed. */
#pragma once

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

/* As in schemas/replay_ops.json. */
extern const char *const replay_divergence_names[REPLAY_DIVERGENCES];

/* Compare a result with the recorded one, as defined in schemas/replay_ops.json. The bytes of getdents are not
 * compared: they depend on the filesystem and on other entries of the directory. */
enum replay_divergence replay_compare(const struct replay_operation *operation, int64_t result);

/* Sums over operations; inserted ones are only counted. */
struct replay_tally {
    int64_t operations, done, inserted;
    int64_t divergences[REPLAY_DIVERGENCES], diverged;
};

void replay_tally_make(struct replay_tally *tally, const struct replay_run *run);

/* Settings and results of a replay. */
struct replay_report {
    const struct replay_run *run;
    struct replay_tally tally;
    char run_id[40];
    int64_t files, files_bytes; /* existing before the start */
    const char *fs_type;        /* NULL: unknown, or a device */
    const char *device;         /* NULL: unknown */
    int32_t cold;               /* null: unknown */
};

/* Write tables replay_runs and replay_ops. Returns 0, or -1 if the file cannot be written. */
int replay_record(struct record *out, const struct replay_report *report);
extern const struct record_probe replay_probe;

/* Print a one-line summary; the host derives everything else from the records. Returns 0, or -1 if it cannot
 * be written. */
int replay_print(FILE *out, const struct replay_report *report);
