/* From the ring buffers of a trace instance to one file per CPU. */
#ifndef ANDROSTEP_IOTRACE_DRAIN_H
#define ANDROSTEP_IOTRACE_DRAIN_H

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

/* Opens per_cpu/cpuN/trace_pipe_raw of all CPUs and, for appending, files cpuN in directory `dir`. Returns -1 with a
 * sentence on standard error. */
int drain_open(struct drain *drain, const struct instance *instance, int dir);

/* Moves the whole pages that are there to the files. Returns the bytes moved from the fullest CPU's buffer, or -1 with
 * a sentence where they cannot be written. */
int64_t drain_pages(struct drain *drain);

/* Moves all that is written by now: as drain_pages, and also the page of each CPU that is not full. */
int64_t drain_now(struct drain *drain);

/* After tracing has stopped: moves everything, the pages that are not full too. */
int drain_rest(struct drain *drain);

/* Empties the files of all CPUs, whose pages are elsewhere. */
int drain_restart(struct drain *drain);

void drain_close(struct drain *drain);

#endif
