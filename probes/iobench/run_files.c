#define _GNU_SOURCE
#include "iobench/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/errors.h"

static bool only_read(const struct bench_job *job)
{
    return job->workload == BENCH_FILE && job->file.access == ACCESS_READ;
}

/* -- directory or device of a run
 * ----------------------------------------------------------------------------------- */

static int check_file(const struct bench_job *job, const struct stat *about)
{
    if (S_ISBLK(about->st_mode) && !job->raw)
        return print_error("%s is a block device; everything on it may be lost: add --raw --i-know if that is meant",
                           job->filename);
    if (!S_ISBLK(about->st_mode) && !S_ISREG(about->st_mode))
        return print_error("%s is neither a file nor a block device", job->filename);
    if (S_ISREG(about->st_mode) && !only_read(job) && !job->overwrite)
        return print_error("%s is there already and would be overwritten: add --i-know if that is meant",
                           job->filename);
    return 0;
}

/* Open a device with O_EXCL. This fails if it is mounted or used by device-mapper, and keeps both from using it until
 * it is closed. */
static int claim_device(struct bench_run *run)
{
    const struct bench_job *job = run->job;

    run->held = open(job->filename, (only_read(job) ? O_RDONLY : O_RDWR) | O_EXCL | O_CLOEXEC);
    if (run->held >= 0)
        return 0;
    if (errno == EBUSY)
        return print_error("%s is mounted or held by another device; unmount it first", job->filename);
    return print_error("%s: %s", job->filename, strerror(errno));
}

static int take_file(struct bench_run *run)
{
    struct stat about;

    if (stat(run->job->filename, &about) < 0)
        return print_error("%s: %s; --filename names a file or device that is there", run->job->filename,
                           strerror(errno));
    if (check_file(run->job, &about) < 0)
        return -1;
    return S_ISBLK(about.st_mode) ? claim_device(run) : 0;
}

static int make_parent(struct bench_run *run)
{
    const char *directory = run->job->directory;

    if (mkdir(directory, 0777) == 0)
        run->made_parent = true;
    else if (errno != EEXIST)
        return print_error("%s: %s; give a directory that is there, or a new one in it", directory, strerror(errno));
    return 0;
}

static int make_own(struct bench_run *run)
{
    int length = snprintf(run->directory, sizeof run->directory, "%s/%s", run->job->directory,
                          run->job->keep ? "iobench-kept" : "iobench-XXXXXX");

    errno = ENAMETOOLONG;
    if (length >= (int)sizeof run->directory ||
        (run->job->keep ? mkdir(run->directory, 0700) < 0 && errno != EEXIST : !mkdtemp(run->directory))) {
        print_error("%s: %s; the run needs a directory of its own in it", run->job->directory, strerror(errno));
        run->directory[0] = '\0';
        return -1;
    }
    return 0;
}

/* Check a kept directory, which may have become a link or belong to another user. The owner of a new directory is not
 * checked: filesystems without owners show all files as the user's. */
static int hold_own(struct bench_run *run)
{
    struct stat about;

    run->held = open(run->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (run->held < 0 || fstat(run->held, &about) < 0)
        return print_error("%s: %s", run->directory, strerror(errno));
    if (run->job->keep && about.st_uid != geteuid())
        return print_error("%s belongs to another user; remove it", run->directory);
    if (flock(run->held, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return print_error("%s is in use by another iobench; wait for its end", run->directory);
    return 0;
}

int files_enter(struct bench_run *run)
{
    if (run->job->filename)
        return take_file(run);
    if (make_parent(run) == 0 && make_own(run) == 0 && hold_own(run) == 0)
        return 0;
    files_leave(run);
    return -1;
}

static int remove_entry(int directory, const char *name, dev_t filesystem);

/* Remove the entries found; *removed: at least one was removed. */
static int empty_once(DIR *directory, dev_t filesystem, bool *removed)
{
    int result = 0;

    *removed = false;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (remove_entry(dirfd(directory), entry->d_name, filesystem) < 0)
            result = -1;
        else
            *removed = true;
    }
    return result;
}

/* Empty a directory and close its descriptor. Entries on another filesystem stay. The directory is read until nothing
 * more is removed, because removing entries during readdir may hide others. */
static int empty_directory(int fd, dev_t filesystem)
{
    DIR *directory = fdopendir(fd);
    bool removed;
    int result;

    if (!directory) {
        close(fd);
        return -1;
    }
    do {
        rewinddir(directory);
        result = empty_once(directory, filesystem, &removed);
    } while (removed);
    closedir(directory);
    return result;
}

static int remove_directory(int directory, const char *name, dev_t filesystem)
{
    struct stat about;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &about) < 0 || about.st_dev != filesystem) {
        close(fd);
        errno = EXDEV;
        return -1;
    }
    if (empty_directory(fd, filesystem) < 0)
        return -1;
    return unlinkat(directory, name, AT_REMOVEDIR);
}

static int remove_entry(int directory, const char *name, dev_t filesystem)
{
    if (unlinkat(directory, name, 0) == 0)
        return 0;
    return errno == EISDIR || errno == EPERM ? remove_directory(directory, name, filesystem) : -1;
}

int files_remove(const struct bench_run *run, const char *name)
{
    struct stat about;

    if (fstat(run->held, &about) < 0)
        return -1;
    return remove_entry(run->held, name, about.st_dev) < 0 && errno != ENOENT ? -1 : 0;
}

static int remove_own(struct bench_run *run)
{
    struct stat about;
    int again = openat(run->held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = -1;

    if (again >= 0 && fstat(again, &about) == 0)
        result = empty_directory(again, about.st_dev);
    else if (again >= 0)
        close(again);
    return rmdir(run->directory) < 0 || result < 0 ? -1 : 0;
}

int files_leave(struct bench_run *run)
{
    int result = 0;

    if (run->directory[0] && !run->job->keep && remove_own(run) < 0)
        result = print_error("%s: %s; remove it yourself", run->directory, strerror(errno));
    if (run->held >= 0)
        close(run->held);
    run->held = -1;
    if (run->made_parent && !run->job->keep && rmdir(run->job->directory) < 0 && !result)
        result = print_error("%s: %s; remove it yourself", run->job->directory, strerror(errno));
    return result;
}

int files_room(const char *directory, int64_t bytes)
{
    struct statvfs filesystem;
    int64_t room, wanted;

    if (statvfs(directory, &filesystem) < 0)
        return print_error("%s: %s; its free space cannot be read", directory, strerror(errno));
    room = (int64_t)filesystem.f_bavail * (int64_t)filesystem.f_frsize;
    if (__builtin_add_overflow(bytes, bytes / 20, &wanted))
        wanted = INT64_MAX;
    if (wanted <= room)
        return 0;
    return print_error("%s: %" PRId64 " bytes are free, but the run needs %" PRId64 "; ask for less, or make room",
                       directory, room, wanted);
}

/* -- a file ------------------------------------------------------------------------------------------------------- */

int files_path(const struct bench_run *run, int32_t worker, char *path, size_t size)
{
    const struct bench_job *job = run->job;
    int length = job->filename ? snprintf(path, size, "%s", job->filename)
                               : snprintf(path, size, "%s/test.dat%d", run->directory, job->shared ? 0 : worker);

    return length < 0 || (size_t)length >= size ? -1 : 0;
}

static int64_t size_of(int file)
{
    struct stat about;
    uint64_t bytes;

    if (fstat(file, &about) < 0)
        return -1;
    if (!S_ISBLK(about.st_mode))
        return about.st_size;
    return ioctl(file, BLKGETSIZE64, &bytes) < 0 ? -1 : (int64_t)bytes;
}

int files_open(const struct bench_job *job, const char *path, int flags, const char **why)
{
    int access = job->filename && only_read(job) ? O_RDONLY : O_RDWR;
    int file = open(path, access | flags | O_CLOEXEC | (job->filename ? 0 : O_NOFOLLOW));

    *why = "it cannot be opened";
    if (file < 0)
        return -1;
    if (job->file.layout == LAYOUT_EMPTY || size_of(file) >= job->file.size)
        return file;
    *why = "it is smaller than --size";
    close(file);
    errno = ENODATA;
    return -1;
}
