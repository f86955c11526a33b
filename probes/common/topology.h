/* Block devices, the devices below them, and the filesystems mounted on them. */
#pragma once

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
    bool has_parent;       /* all of this device is one contiguous range of the parent */
    kernel_dev parent;     /* whole disk of a partition, or target of a linear dm device */
    uint64_t start_sector; /* on the parent, in 512 B */
    uint64_t nr_sectors;
    kernel_dev *lower; /* devices below it: dm slaves, the disk of a partition */
    size_t nr_lower;
    bool traced;
};

struct mounted {
    kernel_dev dev;
    char *path, *fs_type, *options;
    bool whole;          /* its root is that of the filesystem, not a directory in it */
    int64_t block_bytes; /* unit of the filesystem's block numbers (statfs, f_bsize); 0: unavailable */
};

struct swap_space {
    kernel_dev dev;
    int64_t inode; /* of a swap file on dev; 0: the device itself */
    char *path;
};

struct topology {
    struct block_device *devices;
    size_t nr_devices;
    struct mounted *mounts; /* of block devices only, in the order of /proc/self/mountinfo */
    size_t nr_mounts;
    struct swap_space *swaps;
    size_t nr_swaps;
};

/* Read /sys/dev/block, /proc/self/mountinfo and /proc/swaps. Returns 0, or -1 after printing an error. */
int topology_read(struct topology *topology);
void topology_free(struct topology *topology);

/* Mark a device as traced, with all devices below it (whole disk, dm slaves) and all devices above it (partitions, dm
 * devices). Returns -1 if there is no such device. */
int topology_trace(struct topology *topology, kernel_dev dev);

/* Return whether the device of a mounted filesystem is traced. */
bool topology_traces(const struct topology *topology, kernel_dev dev);

/* Resolve `argument`: MAJ:MIN, a block device, or any file, which selects the device of its filesystem. Returns -1
 * after printing an error. */
int topology_resolve(const char *argument, kernel_dev *dev);

/* Write members `devices`, `mounts` and `swaps` of recording.json. */
void topology_json(const struct topology *topology, struct json *json);

/* Return the model of the disk below `dev` (freed by the caller), or NULL if sysfs does not have it. */
char *topology_model(const struct topology *topology, kernel_dev dev);
