/* names.rec: what entries of directories were made, removed and renamed, as fanotify tells it of whole filesystems,
 * with the inodes. A kernel without kprobes tells the names of files that live and die in a recording by nothing else.
 */
#ifndef ANDROSTEP_IOTRACE_NAMES_H
#define ANDROSTEP_IOTRACE_NAMES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/record.h"
#include "common/topology.h"
#include "iotrace/name_events.h"

extern const struct record_probe names_probe;

/* The process that reads (0: none), what ends it when it is closed, also by the end of iotrace, and where it says that
 * it has begun and that it has ended well. It is no child of iotrace: whose children are gone has listed what there is.
 */
struct names {
    pid_t reader;
    int end, told;
};

/* Where a filesystem's events stand: which is the next, and when no event was waiting last. */
struct names_place {
    kernel_dev dev;
    uint64_t order;
    int64_t empty_ns;
};

/* Records the events that were read from a filesystem's queue at a time of CLOCK_RECORD. Returns 0, or -1 when `out`
 * cannot be written. */
int names_take(struct record *out, struct names_place *place, struct name_events events, int64_t read_ns);

/*
 * Begins to read the names of all traced filesystems into DIR/names.rec, and returns when none is missed any more. The
 * process that reads closes what it has of `unneeded` (-1: nothing). Where the kernel tells no inodes with names, the
 * file says why; so does a sentence on standard error, unless `are_probed`: kprobes tell them.
 */
void names_begin(struct names *names, const struct topology *topology, int dir, bool are_probed, const int *unneeded,
                 size_t nr_unneeded);

/* Reads what is waiting and ends the file. Complains where it is not whole. */
void names_end(struct names *names);

#endif
