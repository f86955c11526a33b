/* The ways of making writes durable, by name. */
#ifndef ANDROSTEP_IOBENCH_MODES_H
#define ANDROSTEP_IOBENCH_MODES_H

#include "iobench/bench.h"

/* Finds buffered, osync, odsync, fsync, fdatasync, direct, direct_osync, mmap, mmap_async, mmap_sync,
 * sync_file_range, rwf_dsync, fbarrier, fdatabarrier; false: no such name. */
bool mode_by_name(const char *name, struct file_mode *mode);

/* The name of a combination: one of the above, or its words joined by +, behind the word of the engine. */
#define MODE_NAME 64 /* bytes */
void mode_name(const struct file_mode *mode, const struct bench_engine *engine, char name[MODE_NAME]);

/* The flags of sync_file_range, by fio's words. */
#define MODE_RANGE_FLAGS 3
struct mode_range_flag {
    const char *word;
    unsigned flag;
};
extern const struct mode_range_flag mode_range_flags[MODE_RANGE_FLAGS];

#endif
