/* What /proc/self/mountinfo and /sys/dev/block say of the mount that an open directory lies in. */
#ifndef ANDROSTEP_COMMON_MOUNTS_H
#define ANDROSTEP_COMMON_MOUNTS_H

#include <stdint.h>

/* Strings of the caller's, for mounts_release. */
struct mount {
    char *fs_type, *source, *point;
    char *options; /* of the mount, then of the filesystem */
    char *path;    /* of the directory asked for, from the root of the filesystem */
};

/* The mount of open directory `fd`; `mount_id` helps where mounts lie upon each other, -1: unknown. 0, or -1. */
int mounts_find(int fd, int64_t mount_id, struct mount *mount);

void mounts_release(struct mount *mount);

/*
 * Number of the mount that `name` in open directory `directory` lies in; `name` "": that of the open file itself. Links
 * are not followed. -1 where the kernel does not tell: names need Linux 5.8, open files 3.15.
 */
int64_t mounts_id(int directory, const char *name);

/* Size of a block device in sectors of 512 B, or -1. */
int64_t mounts_device_sectors(unsigned int major, unsigned int minor);

#endif
