/* Engine that copies records to and from a mapping of the file. Each worker has its own mapping. */

#include "iobench/engines/file.h"

struct mmap_worker {
    struct file_worker file;
    unsigned char *map; /* NULL: none */
    int64_t page;       /* bytes; msync needs whole pages */
};

static int check(const struct bench_job *job)
{
    const struct file_mode *mode = &job->file.mode;
    bool durable = mode->after == AFTER_NONE || mode->after == AFTER_MSYNC_ASYNC || mode->after == AFTER_MSYNC_SYNC;
    return REFUSE(
               {job->file.depth > 1, "--iodepth: more than one request in flight needs --ioengine io_uring"},
               {mode->open_flags || mode->write_flags,
                "--ioengine mmap: a mapping lies in the page cache and its writes are no system calls; leave out "
                "--direct and --sync"},
               {!durable, "--ioengine mmap: a mapping is made durable by msync; choose --mode mmap_sync or mmap_async"},
               {job->file.layout == LAYOUT_EMPTY,
                "--ioengine mmap: a mapping does not make its file longer; leave out append and --overwrite 0, or "
                "say --fallocate native"},
               {(uint64_t)job->file.size > SIZE_MAX, "--size: too large for a mapping in a program of 32 bits"})
               ? -1
               : file_check(job);
}

static int map_file(struct bench_worker *worker, struct mmap_worker *own)
{
    int access = PROT_READ | (worker->job->file.access == ACCESS_READ ? 0 : PROT_WRITE);
    void *map = mmap(NULL, (size_t)worker->job->file.size, access, MAP_SHARED, own->file.file, 0);
    if (map == MAP_FAILED)
        return bench_fail(worker, errno, "%s: cannot be mapped (%s)", own->file.path, strerror(errno));
    own->map = map;
    return 0;
}

static void close_worker(struct bench_worker *worker)
{
    struct mmap_worker *own = worker->state;
    if (own->map)
        munmap(own->map, (size_t)worker->job->file.size);
    file_close(&own->file);
}

static int open_worker(struct bench_worker *worker)
{
    struct mmap_worker *own = worker->state;
    own->page = sysconf(_SC_PAGESIZE);
    return file_open(worker, &own->file, 1) < 0 ? -1 : map_file(worker, own);
}

static int make_durable(const struct mmap_worker *own, const struct file_mode *mode, const struct file_step *step)
{
    int64_t start = step->sync_offset / own->page * own->page;
    return msync(own->map + start, (size_t)(step->sync_offset + step->sync_bytes - start),
                 mode->after == AFTER_MSYNC_SYNC ? MS_SYNC : MS_ASYNC);
}

static int operate(struct bench_worker *worker, struct mmap_worker *own, const struct file_step *step)
{
    unsigned char *place = own->map + step->offset;
    if (step->write)
        memcpy(place, own->file.buffers, own->file.record);
    else
        memcpy(own->file.buffers, place, own->file.record);
    int64_t done_ns = clock_now(CLOCK_MONOTONIC);
    if (step->sync && make_durable(own, &worker->job->file.mode, step))
        return file_fail_sync(worker, &own->file, errno);
    file_count(worker, &own->file, step, done_ns, step->sync ? clock_now(CLOCK_MONOTONIC) : done_ns);
    return 0;
}

static int work(struct bench_worker *worker)
{
    struct mmap_worker *own = worker->state;
    struct file_step step;
    while (file_next(worker, &own->file, own->file.buffers, &step))
        if (operate(worker, own, &step))
            return -1;
    return file_finish(worker, &own->file, own->map);
}

const struct bench_engine file_mmap = {
    .name = "mmap",
    FILE_ENGINE,
    .maps = true,
    .state_bytes = sizeof(struct mmap_worker),
    .check = check,
    .open = open_worker,
    .work = work,
    .close = close_worker,
};
