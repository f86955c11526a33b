/* recording.json: metadata and outcome of a recording. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "common/topology.h"
#include "iotrace/presets.h"
#include "iotrace/tracefs.h"

struct recording {
    const struct topology *topology;
    const struct selection *selection;
    const char *preset, *trace_clock, *instance;
    int64_t buffer_kb;
    char *const *command; /* ends with NULL; empty if there is none */
    const char *const *listed;
    size_t nr_listed;
};

struct cpu_result {
    struct cpu_stats stats;
    bool known;      /* the kernel's counters are known */
    uint64_t events; /* in trace.dat and the earlier segments */
};

/* The part of a recording that was asked for, between the listings, in the clock of the trace. 0: unknown. */
struct window {
    int64_t start_ns, end_ns;
};

/* The outcome of a recording. */
struct outcome {
    const char *stopped_by; /* command, time, size, signal, error or killed */
    const int *command_status;
    pid_t command_pid; /* 0: none */
    const struct cpu_result *cpus;
    unsigned nr_cpus;
};

/* The kernel's clocks at one moment. */
struct clock_reading {
    int64_t boot_ns, mono_ns, realtime_ns;
};
struct clock_reading clock_reading(void);

/* Write the members known at the beginning of a recording: all those before recording_outcome, without the closing
 * brace. */
void recording_begin(FILE *out, const struct recording *recording);

/* Write the other members and the closing brace; `outcome` NULL: unknown so far, or forever. */
void recording_outcome(FILE *out, const struct window *window, const struct outcome *outcome);

/* Return the number of events missing from trace.dat, or -1 if a CPU's counters are unknown. */
int64_t lost_events(const struct cpu_result *cpus, unsigned nr_cpus);

/* Print a description of recording.json as JSON. */
void recording_describe(struct json *json);
