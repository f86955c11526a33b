/* tracefs: where it is, and trace instances of our own in it. */
#ifndef ANDROSTEP_TRACEFS_H
#define ANDROSTEP_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files.h"

/* Opens tracefs as a directory, also where it is mounted nowhere: then by a mount that nobody else sees and that ends
 * with the descriptor. Returns -1 with a sentence on standard error. */
int tracefs_open(void);

/* An instance under instances/, named androstep.PID.START after the process that made it and the clock tick at which
 * that process began, so that one whose maker is dead can be told from one in use. */
struct instance {
    int tracefs, dir;
    char name[64];
    unsigned nr_cpus;
};

/* Makes the instance of this process, not tracing yet. Returns -1 with a sentence on standard error. */
int instance_create(struct instance *instance, int tracefs);

/* Opens an instance that another process left. Returns -1 where there is none of this name. */
int instance_adopt(struct instance *instance, int tracefs, const char *name);

/* Removes the instance with all its events and buffers; no file of it may be open any more. */
int instance_remove(struct instance *instance);

/* Whether the process that made an instance of this name still runs. */
bool instance_is_live(const char *name);

/* Removes the instances of dead iotraces and reports each on standard error. Returns how many are left that could not
 * be removed, or -1 where instances/ cannot be read. */
int instances_clean(int tracefs);

/* Whether an iotrace runs that has an instance. */
bool instances_live(int tracefs);

/* An event to be recorded; with `filter` NULL every occurrence of it. */
struct event {
    char *system, *name, *filter;
};

/* Records `event` in the instance from now on. Returns -1 with errno set; a filter that the kernel refuses is taken
 * off `event` instead, with a sentence on standard error. */
int instance_enable(const struct instance *instance, struct event *event);

/* Leaves what thread `tid` causes out of the event's record, or with 0 nothing that its filter does not. */
void instance_leave_out(const struct instance *instance, const struct event *event, int tid);

/* Per-CPU counters of the ring buffer, from per_cpu/cpuN/stats; what the kernel does not have is 0. */
struct cpu_stats {
    uint64_t entries, overrun, commit_overrun, dropped, read_events;
};

/* Reads the counters and, where `text` is not NULL, the file as it is (for the caller to free). */
int instance_stats(const struct instance *instance, unsigned cpu, struct cpu_stats *stats, struct contents *text);

/* The selected clock of trace_clock: the word in brackets. Empty where it cannot be told. */
void trace_clock_name(const char *text, char *name, size_t size);

#endif
