/* Block devices and how they lie on each other, and what is mounted on them. */
#ifndef ANDROSTEP_COMMON_TOPOLOGY_H
#define ANDROSTEP_COMMON_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"

/* A device number as the kernel's tracepoints print it: major << 20 | minor. */
typedef uint32_t kernel_dev;

#define KERNEL_DEV(major, minor) ((kernel_dev)((major) << 20 | (minor)))
#define DEV_MAJOR(dev)           ((dev) >> 20)
#define DEV_MINOR(dev)           ((dev) & 0xfffff)

struct block_device {
    kernel_dev dev;
    char *name;
    bool partition;
    bool has_parent;       /* the device that all of this one lies on in one piece */
    kernel_dev parent;     /* whole disk of a partition, what a linear dm device maps to */
    uint64_t start_sector; /* on the parent, in 512 B */
    uint64_t nr_sectors;
    kernel_dev *lower; /* devices below it: dm slaves, the disk of a partition */
    size_t nr_lower;
    bool traced;
};

struct mounted {
    kernel_dev dev;
    char *path, *fs_type, *options;
    bool whole;          /* its root is the filesystem's root, not a directory of it */
    int64_t block_bytes; /* unit of the filesystem's block numbers (statfs, f_bsize); 0: not to be had */
};

struct topology {
    struct block_device *devices;
    size_t nr_devices;
    struct mounted *mounts; /* of block devices only, in the order of /proc/self/mountinfo */
    size_t nr_mounts;
};

/* Reads /sys/dev/block and /proc/self/mountinfo. Returns 0, or -1 with a sentence on standard error. */
int topology_read(struct topology *topology);
void topology_free(struct topology *topology);

/* Marks a device as traced, with all that its data passes through (whole disk, dm slaves) and all that lies on it
 * (partitions, dm devices). Returns -1 where there is no such device. */
int topology_trace(struct topology *topology, kernel_dev dev);

/* Whether a mounted filesystem lies on a traced device. */
bool topology_traces(const struct topology *topology, kernel_dev dev);

/* What `argument` names: MAJ:MIN, a block device, or any file, whose filesystem is meant. Returns -1 with a sentence
 * on standard error. */
int topology_resolve(const char *argument, kernel_dev *dev);

/* Members `devices` and `mounts` of recording.json. */
void topology_json(const struct topology *topology, struct json *json);

/* Model of the disk that `dev` lies on, for the caller to free; NULL where sysfs does not tell. */
char *topology_model(const struct topology *topology, kernel_dev dev);

#endif
