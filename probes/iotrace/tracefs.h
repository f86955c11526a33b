/* tracefs: where it is, and trace instances of our own in it. */
#ifndef ANDROSTEP_IOTRACE_TRACEFS_H
#define ANDROSTEP_IOTRACE_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/files.h"

/* Opens tracefs as a directory, also where it is mounted nowhere: then by a mount that nobody else sees and that ends
 * with the descriptor. Returns -1 with a sentence on standard error. */
int tracefs_open(void);

/* An instance under instances/, named androstep.PID.START.DIR after the process that made it, the clock tick at which
 * that process began, so that one whose maker is dead can be told from one in use, and the directory it records into
 * (what is no letter or digit as %XX; empty where it is too long for a name). */
struct instance {
    int tracefs, dir;
    int held; /* any file of it that is open keeps others from removing it */
    char name[256];
    unsigned nr_cpus;
};

/* Makes the instance of this process, not tracing yet, to record into `output`. Returns -1 with a sentence on standard
 * error. */
int instance_create(struct instance *instance, int tracefs, const char *output);

/* Opens an instance that another process left. Returns -1 with errno set where there is none of this name. */
int instance_adopt(struct instance *instance, int tracefs, const char *name);

void instance_close(struct instance *instance);

/* Closes and removes the instance with all its events and buffers. Returns -1 with errno set: EBUSY where one of its
 * files is open. */
int instance_remove(struct instance *instance);

/* The directory that an instance of this name records into, for the caller to free; NULL where the name has none. */
char *instance_output(const char *name);

/* The names of instances whose makers are dead, for the caller to free one by one. Returns how many. */
size_t instances_dead(int tracefs, char ***names);

/* Whether an iotrace runs that has an instance. */
bool instances_live(int tracefs);

/* An event to be recorded; with `filter` NULL every occurrence of it. */
struct event {
    char *system, *name, *filter;
};

/* Whether this kernel has the event. */
bool tracefs_has_event(int tracefs, const char *system, const char *name);

/* Sets the event's filter; one that the kernel refuses is taken off `event`, with a sentence on standard error. */
void instance_filter(const struct instance *instance, struct event *event);

/* Records `event` in the instance from now on, or no longer. Returns -1 with errno set. */
int instance_enable(const struct instance *instance, const struct event *event, bool enable);

/* Leaves what thread `tid` causes out of the event's record, or with 0 nothing that its filter does not. */
void instance_leave_out(const struct instance *instance, const struct event *event, int tid);

/* Per-CPU counters of the ring buffer, from per_cpu/cpuN/stats; what the kernel does not have is 0. */
struct cpu_stats {
    uint64_t entries, overrun, commit_overrun, dropped, read_events;
};

/* The file stats of a CPU, for the caller to free; NULL where it cannot be read. */
char *instance_stats(const struct instance *instance, unsigned cpu);
struct cpu_stats cpu_stats(const char *text);

/* The selected clock of trace_clock: the word in brackets. Empty where it cannot be told. */
void trace_clock_name(const char *text, char *name, size_t size);

#endif
