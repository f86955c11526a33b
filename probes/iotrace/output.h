/*
 * DIR, which a recording is written into, and DIR/unfinished, which holds its parts until they are packed: those of
 * tracedat.h, `recording` (recording.json up to what is known at the end), `instance` (its name), `stats` (the
 * kernel's counters when the instance was last read) and `segmented` (how many events of each CPU are in segments).
 */
#ifndef ANDROSTEP_IOTRACE_OUTPUT_H
#define ANDROSTEP_IOTRACE_OUTPUT_H

#include <stdbool.h>

#include "common/files.h"
#include "iotrace/tracefs.h"

struct output {
    const char *path;
    int dir, parts; /* DIR and DIR/unfinished */
};

/* Makes and opens DIR. Returns -1 with a sentence on standard error, as output_begin does. */
int output_open(struct output *output, const char *path);

/* Makes DIR/unfinished, which is locked until output_close: DIR must hold no recording yet. */
int output_begin(struct output *output);

/* Opens and locks what output_begin made. Returns -1 with errno set: EWOULDBLOCK where another process has it. */
int output_reopen(struct output *output, const char *path);
void output_close(struct output *output);

/* Whether the recording is from the instance of this name. */
bool output_is_of(const struct output *output, const char *instance);

/* Writes recording.json without its end, and `begin` into the parts for output_pack. */
int output_save_begin(const struct output *output, const struct contents *begin);

/* Takes room for the counters, which must still be written when the disk is full, and writes them. */
int output_reserve_stats(const struct output *output, unsigned nr_cpus);
int output_save_stats(const struct output *output, const struct instance *instance);

/* Puts what the parts hold by now together as segment-TIME.dat, a trace.dat of its own with all from before this time,
 * and leaves the parts. Returns -1 with a sentence on standard error. */
int output_pack_segment(const struct output *output, int64_t end_ns);

/* Puts trace.dat and recording.json together from the parts and removes these. `stopped_by`,
 * `command_status` and `command_pid` are as in struct outcome. Returns -1 with a sentence on standard error. */
int output_pack(const struct output *output, const char *stopped_by, const int *command_status, pid_t command_pid);

/* Removes DIR/unfinished and what it holds. */
void output_discard(const struct output *output);

#endif
