#include "iobench/engines/ring.h"

#include <poll.h>

/* System call numbers, which old libraries lack; they are the same on every architecture. */
#define NR_SETUP    425
#define NR_ENTER    426
#define NR_REGISTER 427

/* Linux 5.19: no interrupt of the worker for each completion. Linux 6.0: no lock for a second thread. */
#define SETUP_COOP_TASKRUN  (1U << 8)
#define SETUP_SINGLE_ISSUER (1U << 12)

#define SECOND_NS 1000000000

static int set_up(unsigned entries, struct io_uring_params *params)
{
    static const unsigned wishes[] = {SETUP_COOP_TASKRUN | SETUP_SINGLE_ISSUER, SETUP_COOP_TASKRUN, 0};
    int ring = -1;
    for (size_t wish = 0; wish < sizeof wishes / sizeof *wishes; wish++) {
        memset(params, 0, sizeof *params);
        params->flags = wishes[wish];
        ring = (int)syscall(NR_SETUP, entries, params);
        if (ring >= 0 || errno != EINVAL)
            break;
    }
    return ring;
}

static void *map_part(const struct ring *ring, size_t bytes, uint64_t offset)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->ring, (off_t)offset);
    return map == MAP_FAILED ? NULL : map;
}

static int map_parts(struct ring *ring, const struct io_uring_params *params)
{
    ring->submitted_bytes = params->sq_off.array + params->sq_entries * sizeof(unsigned);
    ring->completed_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->submissions_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    ring->submitted_map = map_part(ring, ring->submitted_bytes, IORING_OFF_SQ_RING);
    if (!ring->submitted_map)
        return -1;
    ring->completed_map = map_part(ring, ring->completed_bytes, IORING_OFF_CQ_RING);
    if (!ring->completed_map)
        return -1;
    ring->submissions = map_part(ring, ring->submissions_bytes, IORING_OFF_SQES);
    return ring->submissions ? 0 : -1;
}

static void find_fields(struct ring *ring, const struct io_uring_params *params)
{
    unsigned char *submitted = ring->submitted_map, *completed = ring->completed_map;
    unsigned *array = (unsigned *)(submitted + params->sq_off.array);
    ring->submitted_tail = (unsigned *)(submitted + params->sq_off.tail);
    ring->submitted_mask = *(unsigned *)(submitted + params->sq_off.ring_mask);
    ring->completed_head = (unsigned *)(completed + params->cq_off.head);
    ring->completed_tail = (unsigned *)(completed + params->cq_off.tail);
    ring->completed_mask = *(unsigned *)(completed + params->cq_off.ring_mask);
    ring->completions = (struct io_uring_cqe *)(completed + params->cq_off.cqes);
    ring->tail = *ring->submitted_tail;
    for (unsigned entry = 0; entry < params->sq_entries; entry++)
        array[entry] = entry;
}

int ring_open(struct ring *ring, unsigned entries)
{
    struct io_uring_params params;
    int error;
    memset(ring, 0, sizeof *ring);
    ring->ring = set_up(entries, &params);
    if (ring->ring < 0)
        return -1;
    if (map_parts(ring, &params)) {
        error = errno;
        ring_close(ring);
        errno = error;
        return -1;
    }
    find_fields(ring, &params);
    return 0;
}

/* Unregister files and buffers before the ring is closed. A closed ring releases them later in the background; until
 * then the filesystem could not be unmounted. The kernel returns an error if none are registered, which is ignored. */
static void let_go(const struct ring *ring)
{
    (void)syscall(NR_REGISTER, ring->ring, IORING_UNREGISTER_FILES, NULL, 0);
    (void)syscall(NR_REGISTER, ring->ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

void ring_close(struct ring *ring)
{
    if (ring->ring < 0)
        return;
    let_go(ring);
    if (ring->submissions)
        munmap(ring->submissions, ring->submissions_bytes);
    if (ring->completed_map)
        munmap(ring->completed_map, ring->completed_bytes);
    if (ring->submitted_map)
        munmap(ring->submitted_map, ring->submitted_bytes);
    close(ring->ring);
    ring->ring = -1;
}

int ring_keep_file(struct ring *ring, int file)
{
    return (int)syscall(NR_REGISTER, ring->ring, IORING_REGISTER_FILES, &file, 1);
}

int ring_keep_buffers(struct ring *ring, const struct iovec *buffers, unsigned count)
{
    return (int)syscall(NR_REGISTER, ring->ring, IORING_REGISTER_BUFFERS, buffers, count);
}

struct io_uring_sqe *ring_prepare(struct ring *ring)
{
    struct io_uring_sqe *entry = &ring->submissions[ring->tail++ & ring->submitted_mask];
    ring->prepared++;
    memset(entry, 0, sizeof *entry);
    return entry;
}

int ring_enter(struct ring *ring, unsigned least)
{
    __atomic_store_n(ring->submitted_tail, ring->tail, __ATOMIC_RELEASE);
    long taken = syscall(NR_ENTER, ring->ring, ring->prepared, least, least ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
    if (taken < 0)
        return errno == EINTR || errno == EBUSY ? 0 : -1;
    ring->prepared -= (unsigned)taken;
    return 0;
}

bool ring_take(struct ring *ring, struct io_uring_cqe *completion)
{
    unsigned head = *ring->completed_head;
    if (head == __atomic_load_n(ring->completed_tail, __ATOMIC_ACQUIRE))
        return false;
    memcpy(completion, &ring->completions[head & ring->completed_mask], sizeof *completion);
    __atomic_store_n(ring->completed_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

int ring_await(const struct ring *ring, int64_t until_ns)
{
    struct pollfd waited = {.fd = ring->ring, .events = POLLIN};
    int64_t left_ns = until_ns - clock_now(CLOCK_MONOTONIC);
    struct timespec left = {.tv_sec = left_ns / SECOND_NS, .tv_nsec = left_ns % SECOND_NS};
    if (left_ns <= 0)
        return 0;
    return ppoll(&waited, 1, &left, NULL) < 0 && errno != EINTR ? -1 : 0;
}
