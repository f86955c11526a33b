/*
 * trace.dat, version 6: the file format of trace-cmd and KernelShark (trace-cmd.dat.v6(5)).
 *
 * While a recording runs, its parts are files in one directory: `head` (the file up to the comms), `clock`, `uname` and
 * raw pages in cpu0, cpu1, ... That is all it takes to put trace.dat together, also after the recorder was killed.
 */
#ifndef ANDROSTEP_IOTRACE_TRACEDAT_H
#define ANDROSTEP_IOTRACE_TRACEDAT_H

#include <stddef.h>
#include <stdint.h>

#include "common/files.h"
#include "iotrace/ringbuffer.h"
#include "iotrace/tracefs.h"

/* Writes the file `head` into directory `dir`: page and event headers and the formats of `events`, which are sorted by
 * system, as `tracefs` has them, and `cmdlines` ("PID COMM" lines). Returns -1 with a sentence on standard error. */
int tracedat_head(int dir, int tracefs, const struct event *events, size_t nr_events, const struct contents *cmdlines);

/* Number of files cpuN in `dir`. */
unsigned tracedat_cpus(int dir);

/* Counts the events in file cpuN. */
uint64_t tracedat_events(int dir, unsigned cpu);

/* Writes `dir`'s parts to file descriptor `out`; `stats` are texts of per_cpu/cpuN/stats, one for each CPU, or NULL
 * where they are not known. Returns -1 with a sentence on standard error. */
int tracedat_pack(int dir, int out, const struct contents *stats);

#endif
