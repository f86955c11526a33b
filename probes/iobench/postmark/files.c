#include "iobench/postmark/engine.h"

/* Close the file without losing the errno of an earlier error. Returns 0 or -1. */
static int finish(int file, int result)
{
    int error = errno;
    if (close(file) && !result)
        return -1;
    errno = error;
    return result;
}

int postmark_write(struct postmark_worker *own, const char *path, int flags, int64_t bytes)
{
    int file = open(path, O_WRONLY | O_CLOEXEC | flags, 0666), result = 0;
    if (file < 0)
        return -1;
    for (int64_t left = bytes; left && !result;) {
        size_t now = left < (int64_t)own->write_bytes ? (size_t)left : own->write_bytes;
        payload_fill(&own->payload, own->buffer, now);
        result = write_all(file, own->buffer, now);
        left -= (int64_t)now;
    }
    return finish(file, result);
}

int postmark_read(struct postmark_worker *own, const char *path, int64_t bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC), result = 0;
    if (file < 0)
        return -1;
    for (int64_t left = bytes; left && !result;) {
        ssize_t got = read(file, own->buffer, left < (int64_t)own->read_bytes ? (size_t)left : own->read_bytes);
        if (got > 0)
            left -= got;
        else if (!got)
            errno = ENODATA;
        if (!got || (got < 0 && errno != EINTR))
            result = -1;
    }
    return finish(file, result);
}

const struct pool_file *postmark_create(struct postmark_worker *own, char path[POOL_PATH])
{
    int64_t range = own->job->most - own->job->least;
    struct pool_file *file = pool_add(&own->pool, &own->choices);
    file->size = own->job->least + (range ? (int64_t)rng_below(&own->choices, (uint64_t)range) : 0);
    pool_path(&own->pool, file, path);
    return postmark_write(own, path, O_CREAT | O_EXCL, file->size) ? NULL : file;
}

void postmark_count(struct bench_tally *tally, int64_t from_ns, int64_t to_ns, int64_t bytes)
{
    hist_add(&tally->latency_ns, (uint64_t)(to_ns - from_ns));
    tally->ops++;
    tally->bytes += bytes;
}
