/* A job in words for people: its parameters by the names of the options. */
#ifndef ANDROSTEP_BENCH_WORDS_H
#define ANDROSTEP_BENCH_WORDS_H

#include "bench.h"

#define WORDS_SIZE 64

struct parameter {
    const char *name;
    /* Writes the value; leaves `text` empty where the job has none, or one that goes without saying. */
    void (*value)(const struct bench_job *job, char text[WORDS_SIZE]);
};

extern const struct parameter bench_parameters[];
extern const int nr_bench_parameters;

/* Numbers with a unit: "4 KiB", "1.536 MiB"; "27.1 us". */
void words_bytes(double bytes, char text[WORDS_SIZE]);
void words_time(double ns, char text[WORDS_SIZE]);

#endif
