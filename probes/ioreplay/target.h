/* What a device-level program is replayed to: a file that is made for it, or a block device that was allowed. */
#ifndef ANDROSTEP_IOREPLAY_TARGET_H
#define ANDROSTEP_IOREPLAY_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ioreplay/filling.h"
#include "ioreplay/program.h"

struct replay_target {
    const char *path;
    int file;
    bool is_device; /* else a file, which is removed at the end */
    bool direct;    /* whether direct I/O is possible */
    int64_t bytes;  /* of a file how much of it was made; else 0 */
};

/*
 * Opens block device `path` where `allowed` (NULL: none) names the same one and nothing uses it (O_EXCL). Else makes
 * file `path`, which must not be there: as large as what the program reaches, with data where it reads and writes, and
 * out of the page cache. Returns 0, or -1 after it complained or `show` said false.
 */
int replay_target_enter(struct replay_target *target, const char *path, const char *allowed,
                        const struct replay_program *program, replay_show *show);
int replay_target_leave(struct replay_target *target, bool keep);

/* A descriptor of its own, or a negative errno. Flags that make or empty a file are left out. */
int replay_target_open(const struct replay_target *target, int flags);

/* Discards bytes of an open block device. 0, or a negative errno. */
int replay_target_discard(int file, int64_t offset, int64_t bytes);

/* Bytes of the file that would be made. */
int64_t replay_target_needs(const struct replay_program *program);

#endif
