/* Records of files, their extents and the running tasks. extmap writes them; iotrace writes them at the start and the
 * end of a recording. */
#pragma once

#include "common/record.h"
#include "extmap/packages.h"

extern const struct record_type filesystem_type, file_type, extent_type, task_type;

/* All of these types, for a record_probe. */
#define EXTMAP_TYPES &filesystem_type, &file_type, &extent_type, &task_type

/* Record the filesystem that contains `root`, and every file and extent below `root`. Does not follow symbolic links or
 * enter other mounts. Files that change, vanish or cannot be read are counted as losses in `out`.
 *
 * Returns 0, or -1 after printing an error if `root` cannot be listed. Also returns -1 if `out` cannot be written;
 * record_close then prints the error. */
int extmap_tree(const char *root, struct record *out);

/* Record every thread in /proc. Returns as extmap_tree does. */
int extmap_tasks(struct record *out);

/* Record the first thread of a process, unless it has ended. Returns 0, or -1 if `out` cannot be written. */
int extmap_process(struct record *out, int32_t pid, const struct packages *packages);
