/* The repetitions of one point of a sweep together. */
#ifndef ANDROSTEP_IOBENCH_REPORT_SUMMARY_H
#define ANDROSTEP_IOBENCH_REPORT_SUMMARY_H

#include "iobench/report/results.h"

/* Of the valid ones, or where there is none, of all. */
struct summary {
    const struct bench_result *first; /* of them */
    int repeats, valid;               /* all, and those that are valid */
    struct bench_tally parts[NR_PARTS];
    struct usage usage;
    struct system_usage system;
    double seconds;
};

void summarise(struct summary *summary, const struct bench_results *results, int point);

/* Where no repetition is valid, what all of them did; not a number where that took no time. */
struct estimate summary_iops(const struct bench_results *results, const struct summary *summary);
struct estimate summary_bandwidth(const struct bench_results *results, const struct summary *summary);

#endif
