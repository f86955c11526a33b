#include "iobench/bench.h"

#include <linux/fs.h>

/* Fields of struct statx that libc before Linux 6.1 lacks: bits of the mask, and offsets of the fields. */
#define MNT_ID          0x1000u
#define DIOALIGN        0x2000u
#define AT_MNT_ID       0x90
#define AT_ALIGN_MEMORY 0x98
#define AT_ALIGN_OFFSET 0x9c

/* Smallest block of any disk. If this is too small, the kernel rejects the I/O. */
#define LEAST_BLOCK 512

/* Return the alignment that statx reports, or -1. qemu-user passes the mask through but does not fill in fields that it
 * does not know. It is recognised by mount ID 0, which no mount of Linux has. */
static int stated_by_statx(int file, struct direct_align *align)
{
    struct statx about;
    uint64_t mount;
    uint32_t memory, offset;
    memset(&about, 0, sizeof about);
    if (statx(file, "", AT_EMPTY_PATH, MNT_ID | DIOALIGN, &about) || !(about.stx_mask & DIOALIGN))
        return -1;
    memcpy(&mount, (const char *)&about + AT_MNT_ID, sizeof mount);
    memcpy(&memory, (const char *)&about + AT_ALIGN_MEMORY, sizeof memory);
    memcpy(&offset, (const char *)&about + AT_ALIGN_OFFSET, sizeof offset);
    if (!mount)
        return -1;
    *align = (struct direct_align){memory, offset};
    return 0;
}

/* A partition has no queue directory; that of its disk is in the parent directory. */
static size_t block_of_device(dev_t dev)
{
    static const char *const places[] = {"queue", "../queue"};
    for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        char path[128], text[32];
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s/logical_block_size", major(dev), minor(dev),
                 places[place]);
        if (procfs_line(path, text, sizeof text) > 0)
            return strtoul(text, NULL, 10);
    }
    return 0;
}

struct direct_align direct_align(int file)
{
    struct direct_align align;
    struct stat about;
    size_t block = 0;
    int sector = 0;
    if (!stated_by_statx(file, &align))
        return align;
    if (!fstat(file, &about)) {
        if (!S_ISBLK(about.st_mode))
            block = block_of_device(about.st_dev);
        else if (!ioctl(file, BLKSSZGET, &sector))
            block = (size_t)sector;
    }
    if (block < LEAST_BLOCK)
        block = LEAST_BLOCK;
    return (struct direct_align){block, block};
}
