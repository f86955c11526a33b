/* What a replay found, as records and for people. */
#ifndef ANDROSTEP_IOREPLAY_RESULTS_H
#define ANDROSTEP_IOREPLAY_RESULTS_H

#include <stdio.h>

#include "common/record.h"
#include "ioreplay/run.h"
#include "ioreplay/tally.h"

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

/* print.c: the summary. Returns 0, or -1 where it cannot be written. */
int replay_print(FILE *out, const struct replay_report *report);

#endif
