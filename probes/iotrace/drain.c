#include "iotrace/iotrace.h"

enum { PIPE_BYTES = 1 << 20 };

/* Seek to the end of the last complete page: a killed recorder may have left a partial one. */
static int seek_end(int out, size_t page_bytes)
{
    struct stat status;
    if (fstat(out, &status) < 0)
        return -1;
    return lseek(out, status.st_size - status.st_size % (off_t)page_bytes, SEEK_SET) < 0 ? -1 : 0;
}

static int open_cpu(struct drain_cpu *cpu, const struct instance *instance, int dir, unsigned nr, size_t page_bytes)
{
    char path[48];
    snprintf(path, sizeof path, "per_cpu/cpu%u/trace_pipe_raw", nr);
    cpu->raw = openat(instance->dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (cpu->raw < 0)
        return print_error("tracefs/instances/%s/%s: %s", instance->name, path, strerror(errno));
    snprintf(path, sizeof path, "cpu%u", nr);
    /* Not O_APPEND, because splice(2) refuses it. */
    cpu->out = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (cpu->out < 0)
        return print_error("%s: %s; it cannot be written", path, strerror(errno));
    return seek_end(cpu->out, page_bytes) < 0 ? print_error("%s: %s", path, strerror(errno)) : 0;
}

int drain_open(struct drain *drain, const struct instance *instance, int dir)
{
    struct page_layout layout;
    *drain = (struct drain){.pipe = {-1, -1}};
    if (page_layout_read(instance->tracefs, &layout) < 0)
        return -1;
    drain->page_bytes = layout.bytes;
    if (pipe2(drain->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return print_error("pipe: %s", strerror(errno));
    int bytes = fcntl(drain->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    if (bytes < 0)
        bytes = fcntl(drain->pipe[1], F_GETPIPE_SZ);
    drain->pipe_bytes = (size_t)bytes;
    drain->cpus = grow(NULL, instance->nr_cpus, sizeof *drain->cpus);
    for (unsigned cpu = 0; cpu < instance->nr_cpus; cpu++) {
        drain->cpus[cpu] = (struct drain_cpu){-1, -1};
        drain->nr_cpus = cpu + 1;
        if (open_cpu(&drain->cpus[cpu], instance, dir, cpu, drain->page_bytes) < 0) {
            drain_close(drain);
            return -1;
        }
    }
    return 0;
}

static int cannot_write(void)
{
    return print_error("the recording cannot be written: %s", strerror(errno));
}

/* Copy for a filesystem to which splice(2) cannot write. */
static int copy_pipe(struct drain *drain, int out, size_t size)
{
    char *buffer = grow(NULL, size, 1);
    ssize_t got = read(drain->pipe[0], buffer, size);
    int result = got == (ssize_t)size ? write_all(out, buffer, size) : -1;
    free(buffer);
    return result;
}

static int empty_pipe(struct drain *drain, int out, size_t size)
{
    while (size > 0) {
        ssize_t moved = splice(drain->pipe[0], NULL, out, NULL, size, SPLICE_F_MOVE);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 && errno == EINVAL)
            return copy_pipe(drain, out, size);
        if (moved <= 0)
            return -1;
        size -= (size_t)moved;
    }
    return 0;
}

/* Move at most one pipe of pages. Returns the number of bytes; 0 if no page is full. */
static ssize_t drain_some(struct drain *drain, struct drain_cpu *cpu)
{
    ssize_t got;
    do
        got = splice(cpu->raw, NULL, drain->pipe[1], NULL, drain->pipe_bytes, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return 0;
    if (empty_pipe(drain, cpu->out, (size_t)got) < 0)
        return cannot_write();
    drain->written += (uint64_t)got;
    return got;
}

int64_t drain_pages(struct drain *drain)
{
    int64_t most = 0;
    for (unsigned cpu = 0; cpu < drain->nr_cpus; cpu++) {
        int64_t moved = 0;
        ssize_t some;
        while ((some = drain_some(drain, &drain->cpus[cpu])) > 0)
            moved += some;
        if (some < 0)
            return -1;
        most = moved > most ? moved : most;
    }
    return most;
}

/* Copy a page that may be partly filled to the file. Returns 1, 0 if there is none, or -1 after printing an error. */
static int drain_page(struct drain *drain, const struct drain_cpu *cpu, char *page)
{
    ssize_t got = read(cpu->raw, page, drain->page_bytes);
    if (got <= 0)
        return 0;
    memset(page + got, 0, drain->page_bytes - (size_t)got);
    if (write_all(cpu->out, page, drain->page_bytes) < 0)
        return cannot_write();
    drain->written += drain->page_bytes;
    return 1;
}

/* Copy at most `most` partly filled pages of each CPU after the full pages. Copying all of them during tracing would
 * never end. */
static int drain_begun(struct drain *drain, unsigned most)
{
    char *page = grow(NULL, drain->page_bytes, 1);
    int result = 0;
    for (unsigned cpu = 0; result >= 0 && cpu < drain->nr_cpus; cpu++) {
        result = 1;
        for (unsigned nr = 0; result > 0 && nr < most; nr++)
            result = drain_page(drain, &drain->cpus[cpu], page);
    }
    free(page);
    return result < 0 ? -1 : 0;
}

/* Each step runs twice, because some kernels move no full page after a part of one was copied. */
int64_t drain_now(struct drain *drain)
{
    int64_t first = drain_pages(drain);
    if (first < 0 || drain_begun(drain, 1) < 0)
        return -1;
    int64_t second = drain_pages(drain);
    if (second < 0 || drain_begun(drain, 1) < 0)
        return -1;
    return first > second ? first : second;
}

int drain_rest(struct drain *drain)
{
    return drain_pages(drain) < 0 ? -1 : drain_begun(drain, UINT_MAX);
}

int drain_restart(struct drain *drain)
{
    for (unsigned cpu = 0; cpu < drain->nr_cpus; cpu++)
        if (ftruncate(drain->cpus[cpu].out, 0) < 0 || lseek(drain->cpus[cpu].out, 0, SEEK_SET) < 0)
            return cannot_write();
    return 0;
}

void drain_close(struct drain *drain)
{
    for (unsigned cpu = 0; cpu < drain->nr_cpus; cpu++) {
        close_file(drain->cpus[cpu].raw);
        close_file(drain->cpus[cpu].out);
    }
    free(drain->cpus);
    for (int end = 0; end < 2; end++)
        close_file(drain->pipe[end]);
    *drain = (struct drain){.pipe = {-1, -1}};
}
