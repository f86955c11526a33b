#include "common/page_cache.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#define LOOK_BYTES     (INT64_C(64) << 20) /* mapped at a time */
#define FILL_BYTES     (1 << 20)
#define EVICT_ATTEMPTS 8
#define EVICT_PAUSE_US 20000

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture */
#endif

const char *const cache_states[3] = {[CACHE_UNKNOWN] = "unknown", [CACHE_COLD] = "cold", [CACHE_WARM] = "warm"};

void cache_drop_all(struct cache_found *found)
{
    static const char path[] = "/proc/sys/vm/drop_caches";
    if (access(path, W_OK) < 0)
        return;
    /* Drop the caches of all filesystems: the file of a loop device is cached by another filesystem. */
    sync();
    found->dropped = file_command(AT_FDCWD, path, "3", 0) == 0;
}

int cache_fill(int file, int64_t bytes)
{
    char *buffer = grow(NULL, FILL_BYTES, 1);
    int64_t done = 0;
    ssize_t got = 1;
    while (done < bytes && got > 0) {
        got = pread(file, buffer, FILL_BYTES, (off_t)done);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            done += got;
    }
    int error = got < 0 ? errno : ENODATA;
    free(buffer);
    errno = error;
    return done < bytes ? -1 : 0;
}

/* Return whether mincore(2) can be trusted. Since Linux 5.2 it reports all pages as resident for a file that the caller
 * neither owns nor may write to. */
static bool mincore_is_reliable(int file)
{
    struct stat about;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return !geteuid() || (fstat(file, &about) == 0 && about.st_uid == geteuid()) || access(path, W_OK) == 0;
}

/* Return the number of resident bytes of a mapped range; -1: the kernel does not report them. */
static int64_t count_mapped(void *mapped, int64_t bytes)
{
    unsigned char pages[LOOK_BYTES >> 12];
    int64_t page = sysconf(_SC_PAGESIZE), resident = 0;
    if (mincore(mapped, (size_t)bytes, pages) < 0)
        return -1;
    for (int64_t index = 0; index * page < bytes; index++)
        if (pages[index] & 1)
            resident += bytes - index * page < page ? bytes - index * page : page;
    return resident;
}

static int64_t look_mapped(int file, int64_t bytes)
{
    int64_t resident = 0;
    if (!mincore_is_reliable(file))
        return -1;
    for (int64_t offset = 0; offset < bytes; offset += LOOK_BYTES) {
        int64_t stretch = bytes - offset < LOOK_BYTES ? bytes - offset : LOOK_BYTES, found;
        void *mapped = mmap(NULL, (size_t)stretch, PROT_READ, MAP_PRIVATE, file, (off_t)offset);
        if (mapped == MAP_FAILED)
            return -1;
        found = count_mapped(mapped, stretch);
        munmap(mapped, (size_t)stretch);
        if (found < 0)
            return -1;
        resident += found;
    }
    return resident;
}

/* Arguments of cachestat(2); headers before Linux 6.5 lack them. */
struct look_range {
    uint64_t offset, length;
};

struct look_answer {
    uint64_t resident, dirty, writeback, evicted, recently_evicted; /* pages */
};

/* Refuses files of an overlay: cachestat(2) counts the pages of the overlay's inode, which has none, instead of those
 * of the file below. */
static int64_t look_unmapped(int file, int64_t bytes)
{
    struct look_range range = {0, (uint64_t)bytes};
    struct look_answer answer = {0};
    struct statfs filesystem;
    if (fstatfs(file, &filesystem) < 0 || filesystem.f_type == OVERLAYFS_SUPER_MAGIC)
        return -1;
    if (syscall(SYS_cachestat, file, &range, &answer, 0) < 0)
        return -1;
    int64_t resident = (int64_t)answer.resident * sysconf(_SC_PAGESIZE);
    return resident < bytes ? resident : bytes;
}

/* Return the number of resident bytes among the first `bytes` of the file, and how it was found; -1: unknown. */
static int64_t look(int file, int64_t bytes, const char **by)
{
    int64_t resident = look_mapped(file, bytes);
    *by = "mincore";
    if (resident < 0) {
        resident = look_unmapped(file, bytes);
        *by = resident < 0 ? "none" : "cachestat";
    }
    return resident;
}

int cache_evict(int file)
{
    const char *by;
    struct stat about;
    if (fstat(file, &about) < 0 || fsync(file) < 0)
        return -1;
    if (S_ISBLK(about.st_mode) && ioctl(file, BLKFLSBUF, 0) < 0 && errno != EACCES && errno != EPERM)
        return -1;
    /* The kernel keeps pages that it uses itself at that moment, such as those that it migrates or looks at (DAMON). */
    for (int attempt = 0; attempt < EVICT_ATTEMPTS; attempt++) {
        int error = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        if (error) {
            errno = error;
            return -1;
        }
        if (look(file, about.st_size, &by) <= 0)
            break;
        usleep(EVICT_PAUSE_US);
    }
    return 0;
}

void cache_look(int file, int64_t bytes, struct cache_found *found)
{
    int64_t resident = look(file, bytes, &found->by);
    found->bytes += bytes;
    found->resident_bytes = resident < 0 || found->resident_bytes < 0 ? -1 : found->resident_bytes + resident;
}

void cache_conclude(struct cache_found *found)
{
    if (!found->by)
        found->by = "none";
    if (found->resident_bytes == 0)
        found->state = CACHE_COLD;
    else
        found->state = found->resident_bytes == found->bytes ? CACHE_WARM : CACHE_UNKNOWN;
}
