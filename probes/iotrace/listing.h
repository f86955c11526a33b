/* before.rec and after.rec: listings of files with their extents and of all threads, at the start and at the end of a
 * recording. If system calls are recorded, they include open descriptors. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/opts.h"
#include "common/record.h"
#include "common/topology.h"

extern const struct record_probe listing_probe;

/* Mount points to list, and the devices mounted there when they were chosen. */
struct listing {
    const char **paths;
    dev_t *devs;
    size_t nr;
    bool descriptors; /* also list open descriptors of processes */
};

/* Choose the requested mount points ("none": no mount point), or by default those of all traced filesystems. */
void listing_choose(struct listing *listing, const struct opt_list *asked, const struct topology *topology);
void listing_free(struct listing *listing);

/* Sync the filesystems that are still mounted there. */
void listing_sync(const struct listing *listing);

/* Sync the filesystems that are still mounted there and list them into file `name` of directory `dir`. Returns -1 after
 * printing an error. */
int listing_write(const struct listing *listing, int dir, const char *name);

/* List all threads, but no files, into tasks.rec, replacing the file. Returns -1 after printing an error. */
int listing_write_tasks(int dir);
