/* A job in words for people: its parameters by the names of the options. */
#ifndef ANDROSTEP_IOBENCH_REPORT_JOB_WORDS_H
#define ANDROSTEP_IOBENCH_REPORT_JOB_WORDS_H

#include "common/words.h"
#include "iobench/bench.h"

struct parameter {
    const char *name;
    /* Writes the value; leaves `text` empty where the job has none, or one that goes without saying. */
    void (*value)(const struct bench_job *job, char text[WORDS_SIZE]);
};

/* Lines of their own tell these two where all points have the same. */
enum { PARAMETER_PLACE, PARAMETER_LIBRARY, PARAMETERS_OF_A_LINE, NR_PARAMETERS = 42 };
extern const struct parameter bench_parameters[NR_PARAMETERS];

/* A second: "104.1", "1.2 MiB/s", "-" for what is no number. */
void words_rate(double rate, char text[WORDS_SIZE]);
void words_bandwidth(double rate, char text[WORDS_SIZE]);

#endif
