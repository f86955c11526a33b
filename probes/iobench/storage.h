/* Which device and filesystem hold a path. */
#ifndef ANDROSTEP_IOBENCH_STORAGE_H
#define ANDROSTEP_IOBENCH_STORAGE_H

#include <sys/types.h>

struct storage {
    dev_t dev;               /* of the block device; 0: unknown */
    char device[64];         /* its name, as in /proc/diskstats; empty: unknown */
    char filesystem[64];     /* type as in /proc/self/mountinfo */
    char mount_options[512]; /* of mount and superblock */
    char mount_point[4096];
    char model[128]; /* of the disk, where /sys tells */
};

/* Of a path that is not there: where its directory is. 0, or -1 after it complained. */
int storage_of(const char *path, struct storage *storage);

#endif
