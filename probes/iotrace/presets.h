/* Selection of tracepoints for a recording. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/topology.h"
#include "iotrace/tracefs.h"

enum preset { PRESET_BLOCK, PRESET_FS, PRESET_SYSCALLS };

struct selection {
    struct event *events;
    size_t nr_events;
    char **absent; /* events in the preset that this kernel lacks */
    size_t nr_absent;
};

/* Conditions for events other than the preset. */
struct needs {
    const struct topology *topology; /* with the traced devices marked */
    bool listed;                     /* existing extents are listed at the start */
    bool skip_self;                  /* this process writes to a traced filesystem */
    bool readahead;                  /* record which of the pages read in are requested */
};

/* Select the tracepoints of `preset` that `tracefs` has for the filesystems on the traced devices, without those of
 * calls.h and dynprobes.h. */
void selection_make(struct selection *selection, int tracefs, enum preset preset, const struct needs *needs);
void selection_free(struct selection *selection);

/* Add an event that is not in the preset tables. Takes ownership of `filter`. */
void selection_add(struct selection *selection, const char *system, const char *name, char *filter);

/* Add an event to the absent ones. */
void selection_miss(struct selection *selection, const char *system, const char *name);

/* Add an event if `tracefs` has it, or else to the absent ones. Takes ownership of `filter`. */
void selection_choose(struct selection *selection, int tracefs, const char *system, const char *name, char *filter);

/* Sort the events by system and name. Called after the last one was added. */
void selection_sort(struct selection *selection);

/* Return an event filter that compares `field` with the traced devices; NULL if no device is traced. */
char *filter_devices(const struct topology *topology, const char *field);

/* Return an event filter that excludes this process. */
char *filter_others(void);

/* Return whether such a filesystem is mounted on a traced device, or none is mounted there yet. */
bool traces_filesystem(const struct topology *topology, bool (*is_type)(const char *fs_type));

/* Return whether the driver of ext4 handles this type, which includes ext2 and ext3. */
bool is_ext(const char *fs_type);

/* Return whether this type of filesystem has no tracepoints with file extents. */
bool is_without_extent_events(const char *fs_type);

/* Return whether listing files causes one or more of this event for each file. */
bool event_has_extents(const struct event *event);

/* Return the preset of this name, or -1. */
int preset_parse(const char *name);
