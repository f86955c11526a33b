/* Transfers between files and the memory of a thread. */
#pragma once

#include <errno.h>
#include <stddef.h>

#include "common/rng.h"
#include "ioreplay/program.h"

/* Return the result of a system call, or a negative errno. */
static inline int64_t or_errno(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* Buffer of one thread, sized for its largest operation. Larger transfers repeat the buffer in the vector of one
 * call. */
struct replay_buffer {
    char *memory; /* NULL: not needed by any operation */
    size_t capacity;
    struct rng rng;
};

/* Return the largest buffer size that keeps all threads within the limit. */
size_t replay_buffer_most(const struct replay_program *program);

/* Allocate the buffer of a thread. Returns 0, or -1 if memory runs out. */
int replay_buffer_open(struct replay_buffer *buffer, const struct replay_program *program, uint32_t thread,
                       size_t most);
void replay_buffer_close(struct replay_buffer *buffer);

/* Fill the buffer for a write. The data does not compress and differs from all earlier writes; only a write larger than
 * the buffer repeats it. */
void replay_buffer_prepare(struct replay_buffer *buffer, const struct replay_operation *operation);

/* Execute a transfer, by the recorded call if possible; `offset` null: at the current position. Returns the bytes
 * moved, or a negative errno. */
int64_t replay_transfer(const struct replay_buffer *buffer, const struct replay_operation *operation, int file,
                        bool writes, int64_t offset);
