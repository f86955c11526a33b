/* Parts of procmon: what is read, how it becomes records, and when. */
#ifndef ANDROSTEP_PROCMON_PROCMON_H
#define ANDROSTEP_PROCMON_PROCMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/opts.h"
#include "common/record.h"
#include "procmon/text.h"

#define SECOND_NS INT64_C(1000000000)

enum group {
    GROUP_CPU,
    GROUP_MEMORY,
    GROUP_DISK,
    GROUP_NET,
    GROUP_PRESSURE,
    GROUP_PROCESS,
    GROUP_FREQUENCY,
    GROUP_THERMAL,
    GROUP_FILESYSTEM,
    GROUP_HEALTH,
    GROUPS,
};

struct asked {
    const char *output;
    int64_t hz, interval_ns, time_ns;
    bool groups[GROUPS];
    struct opt_list processes, users;
    int64_t most;
    bool quiet;
    char *const *words; /* the command to run; ends with NULL */
};

extern const struct record_probe procmon_probe;

/* -- counters as records, in series.c ------------------------------------------------------------------------------ */

/* What a counter is of, and what it is called: `file`.`field`. */
struct about {
    const char *scope, *file, *unit;
    struct span field, instance; /* instance: empty where there is none */
    uint32_t dev;                /* 0: none */
    int32_t pid;                 /* RECORD_NULL_INT32: none */
    bool from_zero;              /* told of only when it is not 0 any more */
};

/* A counter and its last reading. All zero: never read. */
struct series {
    uint32_t number; /* 0: not yet told of */
    bool known, written;
    int64_t ts_ns, value;
};

struct output {
    struct record *record;
    uint32_t count; /* of counters told of */
    bool failed;
};

/* Takes a reading. It is written where it differs from the one before, and then that too, if it was not. */
void series_read(struct output *out, struct series *series, const struct about *about, int64_t ts_ns, int64_t value);

/* Writes the last reading if it was not: there may be none after it. */
void series_end(struct output *out, struct series *series, const struct about *about);

/* How one tick went. */
struct tick {
    int64_t ts_ns; /* when it was to be */
    int64_t late_ns, took_ns, cpu_ns;
    uint32_t missed, processes, began, ended;
};
void tick_write(struct output *out, const struct tick *tick);

/* -- files of one line per thing, in tables.c ---------------------------------------------------------------------- */

/* Reads a file that is kept open from its start into `buffer`, which grows. Returns false with errno set. */
struct buffer {
    char *bytes;
    size_t room;
};
bool buffer_read(struct buffer *buffer, int file, struct span *text);

struct tables;
struct tables *tables_open(const char *root, const bool groups[GROUPS]);
void tables_read(struct tables *tables, struct output *out);
void tables_close(struct tables *tables, struct output *out);

/* -- files of one value, in values.c ------------------------------------------------------------------------------- */

struct values;
struct values *values_open(const char *root, const bool groups[GROUPS]);
/* Reads those that are due; `all`: every one. */
void values_read(struct values *values, struct output *out, bool all);
void values_close(struct values *values, struct output *out);

/* -- processes, in processes.c ------------------------------------------------------------------------------------- */

struct processes;
struct processes *processes_open(const struct asked *asked, int64_t interval_ns);
/* Reads those whose turn it is, or `all`, and counts them in `tick`. */
void processes_read(struct processes *processes, struct output *out, bool all, struct tick *tick);
void processes_close(struct processes *processes, struct output *out);

/* -- in run.c ------------------------------------------------------------------------------------------------------ */

/* Samples until the end that is asked for, a signal or an error. Returns -1 with a sentence on standard error. */
int procmon_run(const struct asked *asked);

#endif
