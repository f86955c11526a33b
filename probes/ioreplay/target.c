#include "ioreplay/replay.h"

#include <linux/fs.h>

#define RANGE_BYTES (INT64_C(1) << 20)

/* -- range of a program ----------------------------------------------------------------------------------------- */

/* A range in whole MiB. */
struct range {
    int64_t start, end;
};

static bool range_of(const struct replay_operation *operation, struct range *range)
{
    int64_t end;
    if (operation->offset_bytes < 0 || operation->bytes <= 0 ||
        __builtin_add_overflow(operation->offset_bytes, operation->bytes, &end) || end > INT64_MAX - RANGE_BYTES)
        return false;
    range->start = operation->offset_bytes / RANGE_BYTES * RANGE_BYTES;
    range->end = (end + RANGE_BYTES - 1) / RANGE_BYTES * RANGE_BYTES;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct range *first = a, *second = b;
    return (first->start > second->start) - (first->start < second->start);
}

static int64_t merge(struct range *ranges, int64_t count)
{
    int64_t merged = 0;
    for (int64_t index = 1; index < count; index++) {
        if (ranges[index].start > ranges[merged].end)
            ranges[++merged] = ranges[index];
        else if (ranges[index].end > ranges[merged].end)
            ranges[merged].end = ranges[index].end;
    }
    return count ? merged + 1 : 0;
}

/* List the ranges sorted and merged (freed by the caller). */
static int64_t ranges_of(const struct replay_program *program, struct range **ranges)
{
    int64_t count = 0;
    *ranges = grow(NULL, program->nr_operations + (size_t)1, sizeof **ranges);
    for (uint32_t number = 0; number < program->nr_operations; number++)
        count += range_of(&program->operations[number], *ranges + count);
    qsort(*ranges, (size_t)count, sizeof **ranges, by_start);
    return merge(*ranges, count);
}

static int64_t sum(const struct range *ranges, int64_t count)
{
    int64_t bytes = 0;
    for (int64_t index = 0; index < count; index++)
        bytes += ranges[index].end - ranges[index].start;
    return bytes;
}

int64_t replay_target_needs(const struct replay_program *program)
{
    struct range *ranges;
    int64_t count = ranges_of(program, &ranges), bytes = sum(ranges, count);
    free(ranges);
    return bytes;
}

/* -- a file ------------------------------------------------------------------------------------------------------- */

/* Fill the ranges. Returns 0, a negative errno, or 1 if `show` stopped it. */
static int fill_ranges(struct replay_filling *filling, int file, const struct range *ranges, int64_t count)
{
    int error = 0;
    for (int64_t index = 0; index < count && !error; index++)
        error = lseek(file, ranges[index].start, SEEK_SET) < 0
                    ? -errno
                    : replay_fill(filling, file, ranges[index].end - ranges[index].start);
    if (!error && fsync(file))
        error = -errno;
    return error ? error : -posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static int fill(struct replay_target *target, const struct replay_program *program, replay_show *show)
{
    struct replay_filling filling;
    struct range *ranges;
    int64_t count = ranges_of(program, &ranges);
    replay_filling_open(&filling, sum(ranges, count), show);
    int error =
        files_room(target->file, target->path, filling.all) ? 1 : fill_ranges(&filling, target->file, ranges, count);
    if (error < 0)
        print_error("%s: %s; the file could not be written completely", target->path, strerror(-error));
    target->bytes = filling.done;
    replay_filling_close(&filling);
    free(ranges);
    return error ? -1 : 0;
}

static int make_file(struct replay_target *target)
{
    target->file = open(target->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (target->file >= 0)
        return 0;
    if (errno == EEXIST)
        return print_error("%s exists already; name a new file, which is removed at the end, or a block device",
                           target->path);
    return print_error("%s: %s; it cannot be made", target->path, strerror(errno));
}

/* -- a block device ----------------------------------------------------------------------------------------------- */

static int check_allowed(const char *path, const char *allowed, const struct stat *about)
{
    struct stat other;
    if (allowed && stat(allowed, &other) == 0 && S_ISBLK(other.st_mode) && other.st_rdev == about->st_rdev)
        return 0;
    return print_error("%s is a block device, and its data would be overwritten; give --allow-device %s to allow this",
                       path, path);
}

/* Return the end of the last operation. */
static int64_t reach_of(const struct replay_program *program)
{
    int64_t reach = 0;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        if (operation->offset_bytes >= 0 && operation->bytes > 0 && operation->offset_bytes + operation->bytes > reach)
            reach = operation->offset_bytes + operation->bytes;
    }
    return reach;
}

static int check_size(const struct replay_target *target, const struct replay_program *program)
{
    int64_t reach = reach_of(program);
    uint64_t bytes = 0;
    if (ioctl(target->file, BLKGETSIZE64, &bytes) || bytes >= (uint64_t)reach)
        return 0;
    return print_error("%s has %" PRIu64 " bytes and the program reaches up to %" PRId64 "; choose a larger device",
                       target->path, bytes, reach);
}

/* Check that the name still refers to the same device as before. */
static int check_same(const struct replay_target *target, const struct stat *about)
{
    struct stat opened;
    if (fstat(target->file, &opened) == 0 && S_ISBLK(opened.st_mode) && opened.st_rdev == about->st_rdev)
        return 0;
    return print_error("%s has become another device; name a stable path", target->path);
}

static int open_device(struct replay_target *target, const struct stat *about)
{
    target->file = device_claim(target->path, O_RDWR);
    return target->file < 0 ? -1 : check_same(target, about);
}

int replay_target_discard(int file, int64_t offset, int64_t bytes)
{
    uint64_t range[2] = {(uint64_t)offset, (uint64_t)bytes};
    return ioctl(file, BLKDISCARD, range) ? -errno : 0;
}

/* -- common ----------------------------------------------------------------------------------------------------- */

/* Reopen the file by its descriptor, so that another file with the same name is not used. */
static int open_again(const struct replay_target *target, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", target->file);
    int file = open(path, (flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW)) | O_CLOEXEC);
    return file < 0 ? -errno : file;
}

int replay_target_open(const struct replay_target *target, int flags)
{
    return open_again(target, target->direct ? flags : flags & ~O_DIRECT);
}

static void find_out_direct(struct replay_target *target)
{
    int file = open_again(target, O_RDONLY | O_DIRECT);
    target->direct = file >= 0;
    close_file(file);
}

static int prepare(struct replay_target *target, const char *allowed, const struct replay_program *program,
                   replay_show *show)
{
    struct stat about;
    target->is_device = stat(target->path, &about) == 0 && S_ISBLK(about.st_mode);
    if (target->is_device)
        return check_allowed(target->path, allowed, &about) || open_device(target, &about)
                   ? -1
                   : check_size(target, program);
    return make_file(target) ? -1 : fill(target, program, show);
}

int replay_target_enter(struct replay_target *target, const char *path, const char *allowed,
                        const struct replay_program *program, replay_show *show)
{
    *target = (struct replay_target){.path = path, .file = -1};
    if (prepare(target, allowed, program, show)) {
        replay_target_leave(target, false);
        return -1;
    }
    find_out_direct(target);
    return 0;
}

int replay_target_leave(struct replay_target *target, bool keep)
{
    struct stat open_one, named;
    if (target->file < 0)
        return 0;
    bool same = fstat(target->file, &open_one) == 0 && stat(target->path, &named) == 0 &&
                open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
    close(target->file);
    target->file = -1;
    if (keep || target->is_device || (same && unlink(target->path) == 0))
        return 0;
    return print_error("%s: %s; it could not be removed", target->path,
                       same ? strerror(errno) : "another file is there");
}
