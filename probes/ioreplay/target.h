/* The target of a device-level program: a new file, or a block device with permission. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ioreplay/filling.h"
#include "ioreplay/program.h"

struct replay_target {
    const char *path;
    int file;
    bool is_device; /* else a file, removed at the end */
    bool direct;    /* direct I/O is possible */
    int64_t bytes;  /* of a file: bytes filled; else 0 */
};

/* Open block device `path` if `allowed` (NULL: none) names the same device and it is not in use (O_EXCL). Otherwise
 * create file `path`, which must not exist: as large as the program needs, with data in the ranges that the program
 * reads and writes, and out of the page cache. Returns 0, or -1 after printing an error or if `show` returned false. */
int replay_target_enter(struct replay_target *target, const char *path, const char *allowed,
                        const struct replay_program *program, replay_show *show);
int replay_target_leave(struct replay_target *target, bool keep);

/* Return a new descriptor, or a negative errno. Flags that create or truncate a file are dropped. */
int replay_target_open(const struct replay_target *target, int flags);

/* Discard bytes of an open block device. Returns 0 or a negative errno. */
int replay_target_discard(int file, int64_t offset, int64_t bytes);

/* Return the bytes of the file to create. */
int64_t replay_target_needs(const struct replay_program *program);
