#include "iobench/bench.h"

#include <ftw.h>
#include <linux/fs.h>
#include <sys/file.h>

static bool only_read(const struct bench_job *job)
{
    return job->workload == BENCH_FILE && job->file.access == ACCESS_READ;
}

/* -- the directory or device of a run ------------------------------------------------------------------------------ */

static int take_file(struct bench_run *run)
{
    struct stat about;
    if (stat(run->job->filename, &about) < 0)
        return print_error("%s: %s; --filename names a file or device that is there", run->job->filename,
                           strerror(errno));
    if (S_ISBLK(about.st_mode) != run->job->raw)
        return print_error("%s has become another file since the options were checked", run->job->filename);
    if (S_ISBLK(about.st_mode))
        run->held = device_claim(run->job->filename, only_read(run->job) ? O_RDONLY : O_RDWR);
    return S_ISBLK(about.st_mode) && run->held < 0 ? -1 : 0;
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

static bool some_removed;

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    some_removed |= remove(path) == 0;
    return 0;
}

/* Remove `name` in the run's directory with all contents; ".": only the contents. The path begins with the descriptor,
 * so that no other process can put another directory in its place. Repeats until nothing more is removed, because
 * changes during the walk may hide entries. Returns -1 with errno set. */
static int remove_tree(const struct bench_run *run, const char *name)
{
    char *path = path_in(run->held, name);
    int result;
    do {
        some_removed = false;
        result = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    } while (some_removed);
    free(path);
    return result;
}

int files_remove(const struct bench_run *run, const char *name)
{
    remove_tree(run, name);
    return unlinkat(run->held, name, 0) < 0 && errno != ENOENT ? -1 : 0;
}

static int remove_own(struct bench_run *run)
{
    int result = remove_tree(run, ".");
    return rmdir(run->directory) < 0 || result < 0 ? -1 : 0;
}

int files_leave(struct bench_run *run)
{
    int result = 0;
    if (run->directory[0] && !run->job->keep && remove_own(run) < 0)
        result = print_error("%s: %s; remove it yourself", run->directory, strerror(errno));
    close_file(run->held);
    run->held = -1;
    if (run->made_parent && !run->job->keep && rmdir(run->job->directory) < 0 && !result)
        result = print_error("%s: %s; remove it yourself", run->job->directory, strerror(errno));
    return result;
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
