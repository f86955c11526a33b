/* before.rec and after.rec: which file has which blocks, all threads, and where calls are recorded what is open, at the
 * start and at the end. */
#ifndef ANDROSTEP_IOTRACE_LISTING_H
#define ANDROSTEP_IOTRACE_LISTING_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/opts.h"
#include "common/record.h"
#include "common/topology.h"

extern const struct record_probe listing_probe;

/* Mount points to list, and the device of what was mounted there when they were chosen. */
struct listing {
    const char **paths;
    dev_t *devs;
    size_t nr;
    bool descriptors; /* whether to list what processes have open, too */
};

/* Takes the mount points asked for ("none" is none), or where none is, those of all traced filesystems. */
void listing_choose(struct listing *listing, const struct opt_list *asked, const struct topology *topology);
void listing_free(struct listing *listing);

/* Syncs the filesystems that are still mounted there and lists them into file `name` of directory `dir`. Returns -1
 * with a sentence on standard error. */
int listing_write(const struct listing *listing, int dir, const char *name);

/* Lists all threads, and no files, into tasks.rec, in place of what it held. Returns -1 with a sentence. */
int listing_write_tasks(int dir);

#endif
