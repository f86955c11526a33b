/* The device and filesystem of a path. */
#pragma once

#include <sys/types.h>

struct storage {
    dev_t dev;               /* of the block device; 0: unknown */
    char device[64];         /* its name, as in /proc/diskstats; empty: unknown */
    char filesystem[64];     /* type as in /proc/self/mountinfo */
    char mount_options[512]; /* of the mount and the superblock */
    char mount_point[4096];
    char model[128]; /* of the disk, if sysfs has it */
};

/* Find the storage of a path; if it does not exist, that of its parent directory. Returns 0, or -1 after printing an
 * error. */
int storage_of(const char *path, struct storage *storage);
