/*
 * Which blocks belong to which file, and which tasks there are, as the kernel tells it: the records that extmap writes
 * and that iotrace writes at the start and the end of a recording.
 */
#ifndef ANDROSTEP_EXTMAP_EXTMAP_H
#define ANDROSTEP_EXTMAP_EXTMAP_H

#include "common/record.h"
#include "extmap/packages.h"

extern const struct record_type filesystem_type, file_type, extent_type, task_type;

/* For a record_probe: all of the above. */
#define EXTMAP_TYPES &filesystem_type, &file_type, &extent_type, &task_type

/*
 * Records the filesystem that `root` lies in, and every file and extent below `root`, without following symbolic links
 * or entering other mounts. What changes, vanishes or cannot be read meanwhile is counted in `out`. Returns 0, or -1
 * and complains when `root` cannot be listed; or -1 when `out` cannot be written, of which record_close complains.
 */
int extmap_tree(const char *root, struct record *out);

/* Records every thread in /proc. Returns as extmap_tree does. */
int extmap_tasks(struct record *out);

/* Records the first thread of a process, if that has not ended. Returns 0, or -1 when `out` cannot be written. */
int extmap_process(struct record *out, int32_t pid, const struct packages *packages);

#endif
