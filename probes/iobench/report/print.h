/* The table of results for people: what its two forms share. */
#ifndef ANDROSTEP_IOBENCH_REPORT_PRINT_H
#define ANDROSTEP_IOBENCH_REPORT_PRINT_H

#include "iobench/report/job_words.h"
#include "iobench/report/summary.h"

const char *print_rate_name(const struct bench_job *job); /* IOPS or TPS */

/* Columns that the values of a parameter take; 0 where all points have the same. */
size_t print_width(const struct bench_results *results, const struct parameter *parameter);

/* The parameters that are the same in all points. */
void print_parameters(FILE *out, const struct bench_results *results);

void print_place(FILE *out, const struct bench_result *result);
void print_versions(FILE *out, const struct bench_result *result);

/* Why repetitions of a point are invalid, if any is. */
void print_invalid(FILE *out, const struct bench_results *results, int point);

/* print_sweep.c: a line for each point. `summary` is memory for one of them. */
void print_sweep(FILE *out, const struct bench_results *results, struct summary *summary);

#endif
