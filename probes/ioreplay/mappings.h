/* Mapped files of a replay. A mapping is found by the descriptor it was created from and a file offset. It stays when
 * the descriptor is closed. Functions may be called by many threads at once; they return 0 or more, or a negative
 * errno. */
#pragma once

#include "ioreplay/program.h"
#include "ioreplay/transfer.h"

struct replay_mappings;

/* Create the table. Returns NULL if memory runs out. Installs a handler of SIGBUS, so that accesses beyond the end of a
 * file become errors. */
struct replay_mappings *replay_mappings_make(const struct replay_program *program);

/* Unmap everything that is still mapped. */
void replay_mappings_free(struct replay_mappings *mappings);

/* Map `file` for a CALL_MMAP operation. */
int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file);

/* Execute CALL_MUNMAP, CALL_MSYNC, CALL_MAPPED_READ or CALL_MAPPED_WRITE. Writes repeat the bytes of `buffer`. EINVAL:
 * no mapping. */
int64_t replay_mappings_do(const struct replay_mappings *mappings, const struct replay_operation *operation,
                           const struct replay_buffer *buffer);
