/* Copies the ring buffers of a trace instance to one file per CPU. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "iotrace/tracefs.h"

struct drain_cpu {
    int raw; /* trace_pipe_raw */
    int out;
};

struct drain {
    struct drain_cpu *cpus;
    unsigned nr_cpus;
    size_t page_bytes;
    int pipe[2];
    size_t pipe_bytes;
    uint64_t written;
};

/* Open per_cpu/cpuN/trace_pipe_raw of all CPUs, and files cpuN in directory `dir` to append to. Returns -1 after
 * printing an error. */
int drain_open(struct drain *drain, const struct instance *instance, int dir);

/* Move all full pages to the files. Returns the number of bytes from the fullest buffer of a CPU, or -1 after printing
 * an error. */
int64_t drain_pages(struct drain *drain);

/* Move everything recorded so far: like drain_pages, and also the partly filled page of each CPU. */
int64_t drain_now(struct drain *drain);

/* Move everything, including partly filled pages. Called after tracing has stopped. */
int drain_rest(struct drain *drain);

/* Truncate the files of all CPUs after their pages were saved elsewhere. */
int drain_restart(struct drain *drain);

void drain_close(struct drain *drain);
