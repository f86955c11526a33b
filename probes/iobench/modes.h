/* Named methods of making writes durable. */
#pragma once

#include "iobench/bench.h"

/* Find a mode by name: buffered, osync, odsync, fsync, fdatasync, direct, direct_osync, mmap, mmap_async, mmap_sync,
 * sync_file_range, rwf_dsync, fbarrier, fdatabarrier. Returns false if there is no such name. */
bool mode_by_name(const char *name, struct file_mode *mode);

/* Write the name of a combination: a name of mode_by_name, or words joined by +, after the prefix of the engine. */
#define MODE_NAME 64 /* bytes */
void mode_name(const struct file_mode *mode, const struct bench_engine *engine, char name[MODE_NAME]);

/* Flags of sync_file_range with fio's words. */
#define MODE_RANGE_FLAGS 3
struct mode_range_flag {
    const char *word;
    unsigned flag;
};
extern const struct mode_range_flag mode_range_flags[MODE_RANGE_FLAGS];
