/* Moving bytes between files and a thread's own memory. */
#ifndef ANDROSTEP_IOREPLAY_TRANSFER_H
#define ANDROSTEP_IOREPLAY_TRANSFER_H

#include <errno.h>
#include <stddef.h>

#include "common/rng.h"
#include "ioreplay/program.h"

/* What a system call returned, as results have it. */
static inline int64_t or_errno(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* Of one thread, and as large as its largest operation needs. What does not fit goes through it in several pieces of
 * the same call. */
struct replay_buffer {
    char *memory; /* NULL: none of its operations needs any */
    size_t room;
    struct rng rng;
};

/* The largest a buffer may be so that all threads together stay within a bound. */
size_t replay_buffer_most(const struct replay_program *program);

/* 0, or -1 where there is no memory. */
int replay_buffer_open(struct replay_buffer *buffer, const struct replay_program *program, uint32_t thread,
                       size_t most);
void replay_buffer_close(struct replay_buffer *buffer);

/* Gets ready for an operation. What it writes does not compress, and differs from all that was written before; only in
 * a write that is larger than the buffer its contents come again. */
void replay_buffer_prepare(struct replay_buffer *buffer, const struct replay_operation *operation);

/* Does what the operation asks for, by the call that was recorded where that is possible; at the file's own position
 * where `offset` is null. Bytes moved, or a negative errno. */
int64_t replay_transfer(const struct replay_buffer *buffer, const struct replay_operation *operation, int file,
                        bool writes, int64_t offset);

#endif
