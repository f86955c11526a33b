/* Find files below an open directory without leaving it: symbolic links are not followed and mounts not entered, even
 * if other processes rename or create entries at the same time.
 *
 * Files are opened with O_PATH, which has no effect on devices and pipes. Since Linux 5.6 this is one openat2(2); on
 * older kernels each component is opened in turn. A hard link looks like any other name of its file: a user with write
 * permission for the directory can add such a file.
 *
 * All functions return 0 or more, or a negative errno. Paths are relative and have no component "", "." or ".." (EXDEV,
 * EINVAL), except for the path "." itself. */
#pragma once

#include "common/base.h"

struct beneath {
    int directory;
    bool walks;    /* the kernel has no openat2 */
    dev_t device;  /* of the directory, for walks */
    int64_t mount; /* of the directory, for walks; -1: not reported by the kernel, so the device is compared instead */
};

/* Choose between openat2 and a walk. If the mount is unknown, a walk enters bind mounts of the same filesystem. */
void beneath_begin(struct beneath *beneath, int directory, dev_t device);

/* Return an O_PATH descriptor of the file, directory or other entry; a symbolic link gives ELOOP unless `link`. */
int beneath_find(const struct beneath *beneath, const char *path, bool link);

/* Return an O_PATH descriptor of the directory that contains `path`, or `directory` itself; release it with
 * beneath_release. *name is the last component. Returns EBUSY for ".". */
int beneath_parent(const struct beneath *beneath, const char *path, const char **name);

void beneath_release(const struct beneath *beneath, int parent);
