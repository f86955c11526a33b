/* FIEMAP and FIBMAP agree about a file. Each argument is a file on a filesystem that has both, synced and without
 * preallocated blocks. */
#include "extmap/filemap.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXTENTS 4096

struct extents {
    size_t count;
    struct filemap_extent list[EXTENTS];
};

/* Append an extent without the part after the last byte, merged with the previous one if they are contiguous. */
static int add(void *context, const struct filemap_extent *extent)
{
    struct extents *extents = context;
    struct filemap_extent *last = extents->count ? &extents->list[extents->count - 1] : NULL;

    if (last && last->physical_bytes + last->nr_bytes == extent->physical_bytes &&
        last->file_offset_bytes + last->nr_bytes == extent->file_offset_bytes) {
        last->nr_bytes += extent->nr_bytes;
        return 0;
    }
    if (extents->count == EXTENTS)
        return 1;
    extents->list[extents->count++] = *extent;
    return 0;
}

static bool same(const struct extents *one, const struct extents *other)
{
    for (size_t index = 0; index < one->count && index < other->count; index++) {
        const struct filemap_extent *left = &one->list[index], *right = &other->list[index];

        if (left->file_offset_bytes != right->file_offset_bytes || left->physical_bytes != right->physical_bytes ||
            left->nr_bytes != right->nr_bytes)
            return false;
    }
    return one->count == other->count;
}

static int differ(const char *path)
{
    static struct extents one, other;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    int failed;

    one.count = other.count = 0;
    failed = fd < 0 || fstat(fd, &about) || filemap(fd, about.st_size, add, &one) ||
             filemap_by_fibmap(fd, about.st_size, add, &other);
    if (failed)
        perror(path);
    else if (!same(&one, &other)) {
        printf("%s: %zu extents by FIEMAP, %zu by FIBMAP, or others\n", path, one.count, other.count);
        failed = 1;
    }
    if (fd >= 0)
        close(fd);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int index = 1; index < argc; index++)
        failed |= differ(argv[index]);
    return failed;
}
