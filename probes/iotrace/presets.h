/* Which tracepoints a recording takes. */
#ifndef ANDROSTEP_IOTRACE_PRESETS_H
#define ANDROSTEP_IOTRACE_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/topology.h"
#include "iotrace/tracefs.h"

enum preset { PRESET_BLOCK, PRESET_FS, PRESET_SYSCALLS };

struct selection {
    struct event *events;
    size_t nr_events;
    char **absent; /* what the preset names and this kernel does not have */
    size_t nr_absent;
};

/* What decides about events beside the preset. */
struct needs {
    const struct topology *topology; /* with the traced devices marked */
    bool listed;                     /* whether existing extents are listed at the start */
    bool skip_self;                  /* whether this process writes to a traced filesystem */
    bool readahead;                  /* whether to tell which pages that were read in are asked for */
};

/* The tracepoints of `preset` that `tracefs` has for the filesystems mounted on the traced devices, without those of
 * calls.h and dynprobes.h. */
void selection_make(struct selection *selection, int tracefs, enum preset preset, const struct needs *needs);
void selection_free(struct selection *selection);

/* Adds an event, for what no preset table can name. Takes `filter`. */
void selection_add(struct selection *selection, const char *system, const char *name, char *filter);

/* Adds an event to those that are absent. */
void selection_miss(struct selection *selection, const char *system, const char *name);

/* Adds an event where `tracefs` has it, else to those that are absent. Takes `filter`. */
void selection_choose(struct selection *selection, int tracefs, const char *system, const char *name, char *filter);

/* Sorts the events by system and name, after the last was added. */
void selection_sort(struct selection *selection);

/* `field` is one of the traced devices, as an event filter; NULL where none is traced. */
char *filter_devices(const struct topology *topology, const char *field);

/* What other processes do and not this one, as an event filter. */
char *filter_others(void);

/* Whether such a filesystem is mounted on a traced device; also where none is mounted there yet. */
bool traces_filesystem(const struct topology *topology, bool (*is_type)(const char *fs_type));

/* Whether the driver of ext4 serves this type of filesystem: ext2 and ext3, too. */
bool is_ext(const char *fs_type);

/* Whether this type of filesystem has no tracepoints that tell where files lie. */
bool is_without_extent_events(const char *fs_type);

/* Whether listing files makes the kernel record this event once or more for each file. */
bool event_tells_extents(const struct event *event);

/* The preset of this name; -1 for any other. */
int preset_parse(const char *name);

#endif
