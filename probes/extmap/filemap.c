#include "extmap/extmap.h"

#include <linux/fiemap.h>
#include <linux/fs.h>

#define BATCH 256

/* A struct fiemap with capacity for a batch. It is a union because the struct ends in a flexible array. */
union batch {
    struct fiemap head;
    unsigned char room[sizeof(struct fiemap) + BATCH * sizeof(struct fiemap_extent)];
};

static int ioctl_retried(int fd, unsigned long request, void *argument)
{
    int done;
    do
        done = ioctl(fd, request, argument);
    while (done < 0 && errno == EINTR);
    return done;
}

static int by_fiemap(int fd, filemap_take *take, void *context)
{
    uint64_t start = 0;
    bool last = false;
    while (!last) {
        uint64_t before = start;
        union batch batch;
        memset(&batch.head, 0, sizeof batch.head);
        batch.head.fm_start = start;
        batch.head.fm_length = FIEMAP_MAX_OFFSET - start;
        batch.head.fm_extent_count = BATCH;
        if (ioctl_retried(fd, FS_IOC_FIEMAP, &batch.head))
            return -1;
        last = batch.head.fm_mapped_extents < BATCH;
        for (uint32_t index = 0; index < batch.head.fm_mapped_extents; index++) {
            const struct fiemap_extent *found = &batch.head.fm_extents[index];
            struct filemap_extent extent = {(int64_t)found->fe_logical, (int64_t)found->fe_physical,
                                            (int64_t)found->fe_length, found->fe_flags};
            /* Skip extents behind the current offset: a file that changes during the listing must not restart it. */
            if (found->fe_logical + found->fe_length <= start)
                continue;
            int stop = take(context, &extent);
            if (stop)
                return stop;
            start = found->fe_logical + found->fe_length;
            last |= found->fe_flags & FIEMAP_EXTENT_LAST;
        }
        last |= start == before;
    }
    return 0;
}

static int by_fibmap(int fd, int64_t size_bytes, filemap_take *take, void *context)
{
    struct filemap_extent run = {0, 0, 0, FILEMAP_BY_FIBMAP};
    int block_bytes = 0;
    if (ioctl_retried(fd, FIGETBSZ, &block_bytes))
        return -1;
    if (block_bytes <= 0 || (size_bytes - 1) / block_bytes >= INT_MAX) {
        errno = EOPNOTSUPP;
        return -1;
    }
    for (int64_t offset = 0; offset < size_bytes; offset += block_bytes) {
        int block = (int)(offset / block_bytes);
        if (ioctl_retried(fd, FIBMAP, &block))
            return -1;
        int64_t place = (int64_t)(unsigned int)block * block_bytes;
        if (run.nr_bytes && place == run.physical_bytes + run.nr_bytes) {
            run.nr_bytes += block_bytes;
            continue;
        }
        if (run.nr_bytes) {
            int stop = take(context, &run);
            if (stop)
                return stop;
        }
        /* Block 0 is a hole: no file has data there. */
        run.file_offset_bytes = offset;
        run.physical_bytes = place;
        run.nr_bytes = block ? block_bytes : 0;
    }
    return run.nr_bytes ? take(context, &run) : 0;
}

int filemap(int fd, int64_t size_bytes, filemap_take *take, void *context)
{
    int done = by_fiemap(fd, take, context);
    if (done != -1 || (errno != EOPNOTSUPP && errno != ENOTTY))
        return done;
    done = by_fibmap(fd, size_bytes, take, context);
    if (done == -1 && (errno == ENOTTY || errno == EINVAL))
        errno = EOPNOTSUPP;
    return done;
}
