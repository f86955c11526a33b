/* The parts of procmon: what it reads, how this becomes records, and when. */
#pragma once

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
    uint32_t files;  /* number of files with an ID */
    int descriptors; /* descriptors that may still be kept open */
    char *bytes;     /* last text that was read */
    size_t capacity;
    bool failed;
};

/* -- texts of files as records, in text.c -------------------------------------------------------------------------- */

/* A range of bytes without a terminating NUL. */
struct span {
    const char *at, *end;
};

/* A file of the kernel and its last reading. */
struct text {
    char *path;
    int file;        /* -1: opened for each reading */
    uint32_t number; /* 0: not recorded yet */
    int64_t read_ns, written_ns, whole_ns;
    char *bytes;
    size_t length, capacity;
};

/* Return a text for `path`; text_end frees the path. */
struct text text_of(char *path);

/* Read a file into memory that is valid until the next read. Returns false with errno set. */
bool text_load(struct output *out, struct text *text, struct span *now);

/* Record a reading of `ts_ns` by text_load: the whole text, or the changes of its numbers. An unchanged text is not
 * written; when it changes, the time of its last unchanged reading is recorded first. Returns whether it changed. */
bool text_take(struct output *out, struct text *text, int64_t ts_ns, struct span now, bool whole);

/* Record the last reading unless it was recorded, and free the contents of `text`. */
void text_end(struct output *out, struct text *text);

/* Write the numbers of `now` that differ from those of `before` to `changes` (FORMAT.md). Returns the number of bytes,
 * or -1 if the texts differ in more than numbers, or in too many. */
long text_changes(struct span before, struct span now, char changes[RECORD_TEXT_BYTES]);

/* Timing and counts of one tick. */
struct tick {
    int64_t ts_ns; /* when it was due */
    int64_t late_ns, took_ns, cpu_ns;
    uint32_t missed, processes, began, ended;
};
void tick_write(struct output *out, const struct tick *tick);

/* -- files of the system, in files.c ------------------------------------------------------------------------------- */

struct files;
struct files *files_open(const bool groups[GROUPS]);
/* Read the files that are due; `all`: every file. */
void files_read(struct files *files, struct output *out, bool all);
void files_close(struct files *files, struct output *out);

/* -- processes, in processes.c ------------------------------------------------------------------------------------- */

struct processes;
struct processes *processes_open(int64_t interval_ns);
/* Read the processes that are due, or all of them, and count them in `tick`. */
void processes_read(struct processes *processes, struct output *out, bool all, struct tick *tick);
void processes_close(struct processes *processes, struct output *out);

/* -- in run.c ------------------------------------------------------------------------------------------------------ */

/* Sample until the requested end, a signal or an error. Returns -1 after printing an error. */
int procmon_run(const struct request *request);
