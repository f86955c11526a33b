/* names.rec: created, removed and renamed directory entries with their inodes, as reported by fanotify for whole
 * filesystems. In a kernel without kprobes it is the only source of names of files that are created and deleted during
 * a recording. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/record.h"
#include "common/topology.h"
#include "iotrace/name_events.h"

extern const struct record_probe names_probe;

/* The reader process (0: none); a pipe that ends it when closed, also by the end of iotrace; and a pipe on which it
 * reports that it has started and ended successfully. It is not a child of iotrace, because waiting for all children
 * must not wait for it. */
struct names {
    pid_t reader;
    int end, status;
};

/* Position in the event queue of a filesystem: the next index, and when the queue was last empty. */
struct names_place {
    kernel_dev dev;
    uint64_t order;
    int64_t empty_ns;
};

/* Record events read from a filesystem's queue at a time of CLOCK_RECORD. Returns 0, or -1 if `out` cannot be
 * written. */
int names_take(struct record *out, struct names_place *place, struct name_events events, int64_t read_ns);

/* Start to read the names of all traced filesystems into DIR/names.rec. Returns when no event is missed any more. The
 * reader process closes its copies of the descriptors `unneeded` (-1: none). If the kernel does not report inodes with
 * names, the reason is recorded in the file, and printed unless `are_probed` (kprobes record the names). */
void names_begin(struct names *names, const struct topology *topology, int dir, bool are_probed, const int *unneeded,
                 size_t nr_unneeded);

/* Read the pending events and finish the file. Prints an error if it is incomplete. */
void names_end(struct names *names);
