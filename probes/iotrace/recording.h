/* recording.json: what a recording is of, and how it went. */
#ifndef ANDROSTEP_IOTRACE_RECORDING_H
#define ANDROSTEP_IOTRACE_RECORDING_H

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
    char *const *command; /* ends with NULL; empty where there is none */
    const char *const *listed;
    size_t nr_listed;
};

struct cpu_result {
    struct cpu_stats stats;
    bool known;      /* whether the kernel's counters are known */
    uint64_t events; /* in trace.dat and the segments before it */
};

/* How a recording ended. */
struct outcome {
    const char *stopped_by; /* command, time, size, signal, error or killed */
    const int *command_status;
    pid_t command_pid; /* 0: none */
    const struct cpu_result *cpus;
    unsigned nr_cpus;
};

/* The times of the kernel's clocks at one moment. */
struct clock_reading {
    int64_t boot_ns, mono_ns, realtime_ns;
};
struct clock_reading clock_reading(void);

/* Writes what is known when a recording begins: all members up to those of recording_outcome, without the closing
 * brace. */
void recording_begin(FILE *out, const struct recording *recording);

/* Writes the other members and the closing brace; `outcome` NULL: it is not known yet, or never will be. */
void recording_outcome(FILE *out, const struct outcome *outcome);

/* Events that were to be recorded and are not in trace.dat. Returns -1 where a CPU's counters are not known. */
int64_t lost_events(const struct cpu_result *cpus, unsigned nr_cpus);

/* Prints what recording.json holds, as JSON. */
void recording_describe(struct json *json);

#endif
