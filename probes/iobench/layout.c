#include "common/payload.h"
#include "iobench/bench.h"

#define FILL_BYTES (INT64_C(1) << 20)

static int write_whole(const struct bench_job *job, int file, const char *path, uint32_t worker)
{
    struct payload payload;
    char *buffer = grow(NULL, FILL_BYTES, 1);
    int64_t left = job->file.size;
    int result = 0;
    payload_open(&payload, FILL_BYTES, (unsigned)job->compress, (unsigned)job->dedupe, job->seed, RNG_LAYOUT, worker);
    while (result == 0 && left > 0 && !bench_stopping()) {
        size_t bytes = (size_t)(left < FILL_BYTES ? left : FILL_BYTES);
        payload_fill(&payload, buffer, bytes);
        if (write_all(file, buffer, bytes) < 0)
            result = print_error("%s: %s; it cannot be written as a whole", path, strerror(errno));
        left -= (int64_t)bytes;
    }
    payload_close(&payload);
    free(buffer);
    return left > 0 ? -1 : result;
}

/* Return whether a file of an earlier run has no holes and no unwritten extents: reads of these would not reach the
 * device. Some filesystems report neither. */
static bool is_whole(const struct bench_job *job, int file, const struct stat *about)
{
    return about->st_size == job->file.size && (int64_t)about->st_blocks * 512 >= job->file.size &&
           lseek(file, 0, SEEK_HOLE) == about->st_size;
}

static int lay_out(const struct bench_job *job, int file, const char *path, uint32_t worker)
{
    struct stat about;
    if (fstat(file, &about) < 0)
        return print_error("%s: %s", path, strerror(errno));
    if (job->file.layout == LAYOUT_WRITTEN && is_whole(job, file, &about))
        return 0;
    if (ftruncate(file, 0) < 0 || lseek(file, 0, SEEK_SET) < 0)
        return print_error("%s: %s; it cannot be emptied", path, strerror(errno));
    if (job->file.layout == LAYOUT_WRITTEN)
        return write_whole(job, file, path, worker);
    if (job->file.layout == LAYOUT_ALLOCATED && fallocate(file, 0, 0, (off_t)job->file.size) < 0)
        return print_error("%s: %s; it cannot be allocated: try --fallocate none", path, strerror(errno));
    return 0;
}

int files_lay_out(const struct bench_job *job, const char *path, uint32_t worker)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return print_error("%s: %s; the run's file cannot be made", path, strerror(errno));
    int result = lay_out(job, file, path, worker);
    if (fsync(file) < 0 && result == 0)
        result = print_error("%s: %s; it does not reach its device", path, strerror(errno));
    close(file);
    return result;
}
