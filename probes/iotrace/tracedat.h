/* trace.dat, version 6: the file format of trace-cmd and KernelShark (trace-cmd.dat.v6(5)).
 *
 * During a recording its parts are files in one directory: `head` (the file up to the comms), `clock`, `uname` and raw
 * pages in cpu0, cpu1, ... They suffice to pack trace.dat, even after the recorder was killed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/files.h"
#include "iotrace/ringbuffer.h"
#include "iotrace/tracefs.h"

/* Write the file `head` into directory `dir`: page and event headers, the formats of `events` (sorted by system) from
 * `tracefs`, and `cmdlines` ("PID COMM" lines). Returns -1 after printing an error. */
int tracedat_head(int dir, int tracefs, const struct event *events, size_t nr_events, const struct contents *cmdlines);

/* Return the number of files cpuN in `dir`. */
unsigned tracedat_cpus(int dir);

/* Count the events in file cpuN. */
uint64_t tracedat_events(int dir, unsigned cpu);

/* Pack the parts in `dir` to file descriptor `out`. `stats` are the texts of per_cpu/cpuN/stats for each CPU, or NULL
 * if unknown. Returns -1 after printing an error. */
int tracedat_pack(int dir, int out, const struct contents *stats);
