/* An io_uring by its three system calls: Linux 5.1 and later, wherever it is allowed. */
#ifndef ANDROSTEP_IOBENCH_ENGINES_RING_H
#define ANDROSTEP_IOBENCH_ENGINES_RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ring {
    int ring;
    unsigned tail;     /* of all submissions so far */
    unsigned prepared; /* of them, what the kernel has not taken yet */
    unsigned *submitted_tail, submitted_mask;
    unsigned *completed_head, *completed_tail, completed_mask;
    struct io_uring_sqe *submissions;
    struct io_uring_cqe *completions;
    void *submitted_map, *completed_map;
    size_t submitted_bytes, completed_bytes, submissions_bytes;
};

/* Only the thread that opens the ring may use it. Returns 0, or -1 with errno. */
int ring_open(struct ring *ring, unsigned entries);
void ring_close(struct ring *ring);

/* From then on entries may name file 0 and the buffers by number. Returns 0, or -1 where the kernel refuses. */
int ring_keep_file(struct ring *ring, int file);
int ring_keep_buffers(struct ring *ring, const struct iovec *buffers, unsigned count);

/* The next entry to fill in, all zeros; there must not be more at a time than were asked for. */
struct io_uring_sqe *ring_prepare(struct ring *ring);

/* Submits what is prepared and waits for `least` completions (less after a signal). Returns 0, or -1 with errno. */
int ring_enter(struct ring *ring, unsigned least);

/* Takes a completion that is there. */
bool ring_take(struct ring *ring, struct io_uring_cqe *completion);

/* Waits until a completion is there, or until a time of CLOCK_MONOTONIC. Returns 0, or -1 with errno. */
int ring_await(const struct ring *ring, int64_t until_ns);

#endif
