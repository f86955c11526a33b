/* Records of files, their extents and the running tasks. extmap writes them; iotrace writes them at the start and the
 * end of a recording. */
#pragma once

#include "common/record.h"

/* -- packages.c: Android packages of processes, by user and name --------------------------------------------------- */

#define PACKAGES_LIST "/data/system/packages.list"

struct package {
    char *name;
    unsigned int app; /* uid mod 100000: the app without the Android user */
};

/* A list of packages; all zero: empty. */
struct packages {
    struct package *list;
    size_t count;
};

/* Append the packages of a packages.list. Returns 0, or -1 with errno set. */
int packages_read(struct packages *packages, const char *path);

/* Return the package of a process of user `uid` with a command line that begins with `process` ("package" or
 * "package:part"). If none has this name, return the only package of that user. Returns NULL if several share the user,
 * or none has it. */
const char *packages_of(const struct packages *packages, unsigned int uid, const char *process);

void packages_release(struct packages *packages);

/* -- filemap.c: extents of one open file from FIEMAP, or from FIBMAP if the filesystem has no FIEMAP (FAT, exFAT) ---
 */

/* Set together with FIEMAP_EXTENT_*: the extent comes from FIBMAP, which reports no state. */
#define FILEMAP_BY_FIBMAP 0x80000000U

struct filemap_extent {
    int64_t file_offset_bytes, physical_bytes, nr_bytes;
    uint32_t flags; /* FIEMAP_EXTENT_* */
};

/* Receive one extent. Returns 0, or any other value to stop. */
typedef int filemap_take(void *context, const struct filemap_extent *extent);

/* Call `take` for every extent of the regular file or directory `fd` of `size_bytes`, in file order. Dirty pages
 * without a block are reported as delayed allocation and not written. Returns 0, the value of `take` if not 0, or -1
 * with errno set: EOPNOTSUPP if the filesystem does not report extents. */
int filemap(int fd, int64_t size_bytes, filemap_take *take, void *context);

/* -- tree.c, tasks.c ----------------------------------------------------------------------------------------------- */

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
