/* The record type of a repetition: what was asked for, on what, and what it did to the system. */
#ifndef ANDROSTEP_IOBENCH_REPORT_RECORD_H
#define ANDROSTEP_IOBENCH_REPORT_RECORD_H

#include "iobench/report/results.h"

extern const struct record_type bench_run_type;

/* Returns 0, or -1 when the file cannot be written. `command` is the command line. */
int bench_run_add(struct record *out, const struct bench_result *result, const char *command);

#endif
