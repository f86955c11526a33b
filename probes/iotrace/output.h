/* The output directory DIR of a recording, and DIR/unfinished with its parts until they are packed: those of
 * tracedat.h, `recording` (recording.json without the members known only at the end), `instance` (its name), `stats`
 * (the kernel's counters at the last read of the instance), `segmented` (number of events of each CPU in segments) and
 * `window` (its begin and end as text, once they are known). */
#pragma once

#include <stdbool.h>

#include "common/files.h"
#include "iotrace/recording.h"
#include "iotrace/tracefs.h"

struct output {
    const char *path;
    int dir, parts; /* DIR and DIR/unfinished */
};

/* Create and open DIR. Returns -1 after printing an error, like output_begin. */
int output_open(struct output *output, const char *path);

/* Create DIR/unfinished and lock it until output_close. DIR must not contain a recording. */
int output_begin(struct output *output);

/* Open and lock the parts created by output_begin. Returns -1 with errno set; EWOULDBLOCK: another process uses
 * them. */
int output_reopen(struct output *output, const char *path);
void output_close(struct output *output);

/* Return whether the recording is from the instance of this name. */
bool output_is_of(const struct output *output, const char *instance);

/* Write recording.json without its end, and store `begin` for output_pack. */
int output_save_begin(const struct output *output, const struct contents *begin);

/* Store the begin and the end of the window (recording.h), also in recording.json for readers of the running recording.
 * Returns -1 after printing an error. */
int output_save_window(const struct output *output, const struct window *window);

/* Reserve space for the counters, which must be written even if the disk is full, and write them. */
int output_reserve_stats(const struct output *output, unsigned nr_cpus);
int output_save_stats(const struct output *output, const struct instance *instance);

/* Pack the current contents of the parts as segment-TIME.dat, a trace.dat with everything before this time, and keep
 * the parts. Returns -1 after printing an error. */
int output_pack_segment(const struct output *output, int64_t end_ns);

/* Pack the parts into trace.dat and recording.json and remove them. `stopped_by`, `command_status` and `command_pid`
 * are as in struct outcome. Returns -1 after printing an error. */
int output_pack(const struct output *output, const char *stopped_by, const int *command_status, pid_t command_pid);

/* Remove DIR/unfinished with its contents. */
void output_discard(const struct output *output);
