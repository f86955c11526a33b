/* The mount that contains an open directory, from /proc/self/mountinfo and /sys/dev/block. */
#pragma once

#include "common/base.h"

/* A line of /proc/self/mountinfo (Documentation/filesystems/proc.rst). The strings point into it. */
struct mount_line {
    int64_t id;
    const char *device; /* as MAJ:MIN */
    const char *root, *point, *options, *fs_type, *source, *fs_options;
};

/* Decode the \ooo escapes of blanks, newlines and backslashes in paths of /proc, in place. */
void mounts_unescape(char *text);

/* Split a line in place. Returns false if it is invalid. */
bool mount_line_parse(char *text, struct mount_line *line);

/* Owned strings; free them with mounts_release. */
struct mount {
    char *fs_type, *source, *point;
    char *options; /* options of the mount, then those of the filesystem */
    char *path;    /* path of the requested directory from the root of the filesystem */
};

/* Find the mount of the open directory `fd`. `mount_id` distinguishes stacked mounts; -1: unknown. Returns 0 or -1. */
int mounts_find(int fd, int64_t mount_id, struct mount *mount);

void mounts_release(struct mount *mount);

/* Return the ID of the mount that contains `name` in the open directory `directory`; `name` "": that of the open file
 * itself. Symbolic links are not followed. Returns -1 if the kernel does not report it: names need Linux 5.8, open
 * files 3.15. */
int64_t mounts_id(int directory, const char *name);

/* Return the size of a block device in sectors of 512 B, or -1. */
int64_t mounts_device_sectors(unsigned int major, unsigned int minor);
