/*
 * Files that a replay has mapped. A mapping is found by the descriptor that it was made from and a place in the file,
 * and stays when the descriptor is closed. Functions may be called by many threads at once, and return 0 or more, or a
 * negative errno.
 */
#ifndef ANDROSTEP_IOREPLAY_MAPPINGS_H
#define ANDROSTEP_IOREPLAY_MAPPINGS_H

#include "ioreplay/program.h"
#include "ioreplay/transfer.h"

struct replay_mappings;

/* NULL where there is no memory. Accesses to memory that the file does not reach become errors: from now on SIGBUS is
 * handled. */
struct replay_mappings *replay_mappings_make(const struct replay_program *program);

/* Unmaps what is still mapped. */
void replay_mappings_free(struct replay_mappings *mappings);

/* Maps `file` as the operation (CALL_MMAP) says. */
int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file);

/* Does what CALL_MUNMAP, CALL_MSYNC, CALL_MAPPED_READ and CALL_MAPPED_WRITE say; writes the bytes of `buffer` over and
 * over. EINVAL: nothing is mapped there. */
int64_t replay_mappings_do(const struct replay_mappings *mappings, const struct replay_operation *operation,
                           const struct replay_buffer *buffer);

#endif
