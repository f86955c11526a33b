/* Engine with one read(2) or write(2) after the other, as in most programs. */
#include <sys/uio.h>

#include "iobench/engines/file.h"

/* System calls of the barrier-enabled kernels of Won et al. (FAST '18). */
#define NR_FBARRIER     548
#define NR_FDATABARRIER 549

/* Call pwritev2 by its number, because old libraries lack it. The kernel takes the offset as two words. */
static ssize_t write_with_flags(int file, void *data, size_t bytes, off_t offset, int flags)
{
    struct iovec all = {data, bytes};
    return syscall(SYS_pwritev2, file, &all, 1UL, (unsigned long)offset, (unsigned long)((uint64_t)offset >> 32),
                   flags);
}

/* Return whether the system calls exist: with an invalid file they give EBADF, else ENOSYS. */
static bool has_barriers(void)
{
    return syscall(NR_FBARRIER, -1) < 0 && errno == EBADF;
}

static int check(const struct bench_job *job)
{
    const struct file_mode *mode = &job->file.mode;
    bool barrier = mode->after == AFTER_FBARRIER || mode->after == AFTER_FDATABARRIER;
    return REFUSE(
               {job->file.depth > 1, "--iodepth: more than one request in flight needs --ioengine io_uring"},
               {mode->after == AFTER_MSYNC_ASYNC || mode->after == AFTER_MSYNC_SYNC,
                "msync is for mappings: --ioengine mmap"},
               {barrier && !has_barriers(),
                "this kernel has no fbarrier and fdatabarrier (system calls 548 and 549 of barrier-enabled kernels): "
                "choose another --mode"},
               {mode->write_flags && write_with_flags(-1, NULL, 0, 0, mode->write_flags) < 0 && errno == ENOSYS,
                "this kernel has no pwritev2 (Linux 4.7): choose another --mode than rwf_dsync"})
               ? -1
               : file_check(job);
}

static void close_worker(struct bench_worker *worker)
{
    file_close(worker->state);
}

static int open_worker(struct bench_worker *worker)
{
    return file_open(worker, worker->state, 1);
}

/* Transfer until the record is complete. Returns 0, an errno, or -1 at the end of the file. */
static int transfer(const struct file_worker *own, const struct file_step *step, int write_flags)
{
    size_t done = 0;
    while (done < own->record) {
        void *data = own->buffers + done;
        size_t bytes = own->record - done;
        off_t offset = step->offset + (off_t)done;
        ssize_t moved = !step->write  ? pread(own->file, data, bytes, offset)
                        : write_flags ? write_with_flags(own->file, data, bytes, offset, write_flags)
                                      : pwrite(own->file, data, bytes, offset);
        if (!moved)
            return -1;
        if (moved > 0)
            done += (size_t)moved;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static int make_durable(const struct file_mode *mode, int file, const struct file_step *step)
{
    switch (mode->after) {
    case AFTER_FSYNC:
        return fsync(file);
    case AFTER_FDATASYNC:
        return fdatasync(file);
    case AFTER_RANGE:
        return sync_file_range(file, step->sync_offset, step->sync_bytes, mode->range_flags);
    case AFTER_FBARRIER:
        return (int)syscall(NR_FBARRIER, file);
    case AFTER_FDATABARRIER:
        return (int)syscall(NR_FDATABARRIER, file);
    case AFTER_NONE:
    case AFTER_MSYNC_ASYNC:
    case AFTER_MSYNC_SYNC:
        break;
    }
    return 0;
}

static int operate(struct bench_worker *worker, struct file_worker *own, const struct file_step *step)
{
    const struct file_mode *mode = &worker->job->file.mode;
    int error = transfer(own, step, mode->write_flags);
    int64_t done_ns = clock_now(CLOCK_MONOTONIC);
    if (error)
        return file_fail(worker, own, step, error < 0 ? 0 : error);
    if (step->sync && make_durable(mode, own->file, step))
        return file_fail_sync(worker, own, errno);
    file_count(worker, own, step, done_ns, step->sync ? clock_now(CLOCK_MONOTONIC) : done_ns);
    return 0;
}

static int work(struct bench_worker *worker)
{
    struct file_worker *own = worker->state;
    struct file_step step;
    while (file_next(worker, own, own->buffers, &step))
        if (operate(worker, own, &step))
            return -1;
    return file_finish(worker, own, NULL);
}

const struct bench_engine file_psync = {
    .name = "psync",
    FILE_ENGINE,
    .state_bytes = sizeof(struct file_worker),
    .check = check,
    .open = open_worker,
    .work = work,
    .close = close_worker,
};
