/* Parts of procmon: what is read, how it becomes records, and when. */
#ifndef ANDROSTEP_PROCMON_PROCMON_H
#define ANDROSTEP_PROCMON_PROCMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/record.h"

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

struct request {
    const char *output;
    int64_t hz, time_ns;
    bool groups[GROUPS];
    bool quiet;
    char *const *words; /* the command to run; ends with NULL */
};

extern const struct record_probe procmon_probe;

struct output {
    struct record *record;
    uint32_t files;  /* that were numbered */
    int descriptors; /* that may still be kept open */
    char *bytes;     /* what was read last */
    size_t room;
    bool failed;
};

/* -- texts of files as records, in text.c -------------------------------------------------------------------------- */

/* Bytes that need no NUL behind them. */
struct span {
    const char *at, *end;
};

/* A file of the kernel, and what it was when it was last read. */
struct text {
    char *path;
    int file;        /* -1: opened for each reading */
    uint32_t number; /* 0: not yet in a record */
    int64_t read_ns, written_ns, whole_ns;
    char *bytes;
    size_t length, room;
};

/* `path` is for text_end to free. */
struct text text_of(char *path);

/* Reads a file into memory that is valid until the next is read. Returns false with errno set. */
bool text_load(struct output *out, struct text *text, struct span *now);

/* Records what text_load read at `ts_ns`: the whole text, or what became of its numbers. Nothing is written where it is
 * as before, but once that is over, when it was last so. Returns whether it differs. */
bool text_take(struct output *out, struct text *text, int64_t ts_ns, struct span now, bool whole);

/* Records the last reading if that is not yet, and frees what `text` holds. */
void text_end(struct output *out, struct text *text);

/* Writes the numbers of `now` that differ from those of `before` to `changes` (FORMAT.md). Returns how many bytes, or
 * -1 where the texts differ in more than numbers, or in too many. */
long text_changes(struct span before, struct span now, char changes[RECORD_TEXT_BYTES]);

/* How one tick went. */
struct tick {
    int64_t ts_ns; /* when it was to be */
    int64_t late_ns, took_ns, cpu_ns;
    uint32_t missed, processes, began, ended;
};
void tick_write(struct output *out, const struct tick *tick);

/* -- files of the system, in files.c ------------------------------------------------------------------------------- */

struct files;
struct files *files_open(const char *root, const bool groups[GROUPS]);
/* Reads those that are due; `all`: every one. */
void files_read(struct files *files, struct output *out, bool all);
void files_close(struct files *files, struct output *out);

/* -- processes, in processes.c ------------------------------------------------------------------------------------- */

struct processes;
struct processes *processes_open(int64_t interval_ns);
/* Reads those whose turn it is, or `all`, and counts them in `tick`. */
void processes_read(struct processes *processes, struct output *out, bool all, struct tick *tick);
void processes_close(struct processes *processes, struct output *out);

/* -- in run.c ------------------------------------------------------------------------------------------------------ */

/* Samples until the end that is requested, a signal or an error. Returns -1 with a sentence on standard error. */
int procmon_run(const struct request *request);

#endif
