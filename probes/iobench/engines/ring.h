/* An io_uring by its three system calls; needs Linux 5.1 and permission. */
#pragma once

#include "common/base.h"

#include <linux/io_uring.h>
#include <sys/uio.h>

struct ring {
    int ring;
    unsigned tail;     /* after the last prepared submission */
    unsigned prepared; /* submissions that the kernel has not consumed yet */
    unsigned *submitted_tail, submitted_mask;
    unsigned *completed_head, *completed_tail, completed_mask;
    struct io_uring_sqe *submissions;
    struct io_uring_cqe *completions;
    void *submitted_map, *completed_map;
    size_t submitted_bytes, completed_bytes, submissions_bytes;
};

/* Open a ring. It may be used only by the calling thread. Returns 0, or -1 with errno set. */
int ring_open(struct ring *ring, unsigned entries);
void ring_close(struct ring *ring);

/* Register a file and buffers. Entries may then use file 0 and the buffers by index. Returns 0, or -1 if the kernel
 * refuses. */
int ring_keep_file(struct ring *ring, int file);
int ring_keep_buffers(struct ring *ring, const struct iovec *buffers, unsigned count);

/* Return the next entry to fill in, zeroed. There must not be more at a time than requested from ring_open. */
struct io_uring_sqe *ring_prepare(struct ring *ring);

/* Submit the prepared entries and wait for `least` completions (fewer after a signal). Returns 0, or -1 with errno
 * set. */
int ring_enter(struct ring *ring, unsigned least);

/* Take the next completion. Returns false if there is none. */
bool ring_take(struct ring *ring, struct io_uring_cqe *completion);

/* Wait for a completion or until a time of CLOCK_MONOTONIC. Returns 0, or -1 with errno set. */
int ring_await(const struct ring *ring, int64_t until_ns);
