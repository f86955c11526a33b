/* Mobibench's words for a job and for how long it took. */
#ifndef ANDROSTEP_IOBENCH_REPORT_MOBIBENCH_H
#define ANDROSTEP_IOBENCH_REPORT_MOBIBENCH_H

#include "iobench/report/results.h"

/* The numbers of its -a and -d. -1: it had no such test. */
int mobibench_access(const struct file_job *job);
int mobibench_operation(const struct sqlite_job *job);

/* Its line [TIME], without the end of the line. */
void mobibench_time(FILE *out, const struct bench_result *result);

#endif
