/*
 * Files that a replay has mapped. A mapping is found by the descriptor that it was made from and a place in the file,
 * and stays when the descriptor is closed. Functions may be called by many threads at once, and return 0 or more, or a
 * negative errno.
 */
#ifndef ANDROSTEP_IOREPLAY_MAPPINGS_H
#define ANDROSTEP_IOREPLAY_MAPPINGS_H

#include "ioreplay/program.h"

struct replay_mappings;

/* NULL where there is no memory. Accesses to memory that the file does not reach become errors: from now on SIGBUS is
 * handled. */
struct replay_mappings *replay_mappings_make(const struct replay_program *program);

/* Unmaps what is still mapped. */
void replay_mappings_free(struct replay_mappings *mappings);

/* Maps `file` as the operation (CALL_MMAP) says. */
int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file);

/* What CALL_MUNMAP, CALL_MSYNC and CALL_MAPPED_READ say. EINVAL: nothing is mapped there. */
int replay_mappings_unmap(struct replay_mappings *mappings, const struct replay_operation *operation);
int replay_mappings_sync(struct replay_mappings *mappings, const struct replay_operation *operation);
int64_t replay_mappings_read(struct replay_mappings *mappings, const struct replay_operation *operation);

/* CALL_MAPPED_WRITE, with the bytes of `data` over and over. */
int64_t replay_mappings_write(struct replay_mappings *mappings, const struct replay_operation *operation,
                              const char *data, size_t size);

#endif
