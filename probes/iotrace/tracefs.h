/* Access to tracefs, and trace instances of iotrace in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/files.h"

/* Open tracefs as a directory. If it is not mounted, use a private mount that ends with the descriptor. Returns -1
 * after printing an error. */
int tracefs_open(void);

/* An instance under instances/ with the name androstep.PID.START.DIR. PID and START (the clock tick when the process
 * started) identify the process, so that instances of dead processes can be recognised. DIR is its output directory,
 * with %XX for characters other than letters and digits, or empty if it is too long. */
struct instance {
    int tracefs, dir;
    int held; /* an open file of it, which prevents its removal by others */
    char name[256];
    unsigned nr_cpus;
};

/* Create the instance of this process, with tracing off, to record into `output`. Returns -1 after printing an
 * error. */
int instance_create(struct instance *instance, int tracefs, const char *output);

/* Open an instance of another process. Returns -1 with errno set if there is none of this name. */
int instance_adopt(struct instance *instance, int tracefs, const char *name);

void instance_close(struct instance *instance);

/* Close and remove the instance with its events and buffers. Returns -1 with errno set; EBUSY: one of its files is
 * open. */
int instance_remove(struct instance *instance);

/* Return the output directory in the name of an instance (freed by the caller), or NULL if it has none. */
char *instance_output(const char *name);

/* List the names of instances of dead processes (each freed by the caller). Returns their number. */
size_t instances_dead(int tracefs, char ***names);

/* Return whether a running iotrace has an instance. */
bool instances_live(int tracefs);

/* An event to record; `filter` NULL: every occurrence. */
struct event {
    char *system, *name, *filter;
};

/* Return whether this kernel has the event. */
bool tracefs_has_event(int tracefs, const char *system, const char *name);

/* Set the event's filter. A filter that the kernel rejects is removed from `event`, and an error is printed. */
void instance_filter(const struct instance *instance, struct event *event);

/* Start or stop recording `event` in the instance. Returns -1 with errno set. */
int instance_enable(const struct instance *instance, const struct event *event, bool enable);

/* Exclude occurrences caused by thread `tid` from the event, or with 0 restore its filter. */
void instance_leave_out(const struct instance *instance, const struct event *event, int tid);

/* Per-CPU counters of the ring buffer, from per_cpu/cpuN/stats; counters that the kernel lacks are 0. */
struct cpu_stats {
    uint64_t entries, overrun, commit_overrun, dropped, read_events;
};

/* Return the file stats of a CPU (freed by the caller), or NULL if it cannot be read. */
char *instance_stats(const struct instance *instance, unsigned cpu);
struct cpu_stats cpu_stats(const char *text);

/* Copy the selected clock of trace_clock: the word in brackets, or "" if there is none. */
void trace_clock_name(const char *text, char *name, size_t size);
