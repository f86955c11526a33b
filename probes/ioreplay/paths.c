/* Calls of a replay that take paths. */
#include "ioreplay/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERMISSIONS 0777

/* Flags for opening a file by its descriptor. O_NOFOLLOW only affects the look-up, and O_CREAT and O_EXCL do not apply
 * to an existing file. */
#define OPENING                                                                                                        \
    (O_ACCMODE | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_LARGEFILE | O_NOATIME |            \
     O_CLOEXEC | O_TMPFILE | O_PATH)

#define RENAMING (RENAME_NOREPLACE | RENAME_EXCHANGE)

/* Enough attempts against other processes that create and remove the same file. */
#define TRIES 64

/* -- results ---------------------------------------------------------------------------------------------------- */

struct number {
    char text[12];
};

/* Return the name of an open file in `descriptors`. */
static struct number number(int descriptor)
{
    struct number number;

    snprintf(number.text, sizeof number.text, "%d", descriptor);
    return number;
}

static int answer(int result)
{
    return result < 0 ? -errno : result;
}

/* Return the result of a call on `node`, and close it. */
static int answer_and_close(int node, int result)
{
    int error = answer(result);

    close(node);
    return error;
}

static int reopen(const struct sandbox *sandbox, int node, int flags, mode_t mode)
{
    int opened;

    do {
        opened = openat(sandbox->descriptors, number(node).text, flags | O_CLOEXEC, mode & PERMISSIONS);
    } while (opened < 0 && errno == EINTR);
    return answer(opened);
}

/* Directory and name of an entry to create or remove. */
struct place {
    int parent;
    const char *name;
};

/* Find the directory and name of a path. `of_top` is the error for the top directory itself. */
static int find_place(const struct sandbox *sandbox, const char *path, int of_top, struct place *place)
{
    place->parent = beneath_parent(&sandbox->beneath, path, &place->name);
    if (place->parent == -EBUSY)
        return of_top;
    return place->parent < 0 ? place->parent : 0;
}

/* Return the result of a call in `place`, and release it. */
static int answer_and_release(const struct sandbox *sandbox, const struct place *place, int result)
{
    int error = answer(result);

    beneath_release(&sandbox->beneath, place->parent);
    return error;
}

/* -- open --------------------------------------------------------------------------------------------------------- */

static int check_kind(int node, int flags)
{
    struct stat about;

    if (fstat(node, &about) < 0)
        return -errno;
    if (S_ISDIR(about.st_mode))
        return flags & O_CREAT ? -EISDIR : 0;
    return S_ISREG(about.st_mode) ? 0 : -ENXIO;
}

static int open_node(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    int node = beneath_find(&sandbox->beneath, path, false), result;

    if (node < 0)
        return node;
    result = check_kind(node, flags);
    if (!result)
        result = reopen(sandbox, node, flags & OPENING, mode);
    close(node);
    return result;
}

static int open_new(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    struct place at;
    int error = find_place(sandbox, path, -EISDIR, &at);

    flags |= O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return error ? error : answer_and_release(sandbox, &at, openat(at.parent, at.name, flags, mode & PERMISSIONS));
}

int sandbox_open(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    int opened = -EEXIST;

    if (flags & ~(OPENING | O_CREAT | O_EXCL | O_NOFOLLOW))
        return -EINVAL;
    if (flags & O_PATH || !(flags & O_CREAT))
        return open_node(sandbox, path, flags & ~O_CREAT, mode);
    if (flags & O_EXCL)
        return open_new(sandbox, path, flags, mode);
    for (int tries = 0; tries < TRIES && opened == -EEXIST; tries++) {
        opened = open_node(sandbox, path, flags, mode);
        if (opened == -ENOENT)
            opened = open_new(sandbox, path, flags, mode);
    }
    return opened;
}

int sandbox_truncate(const struct sandbox *sandbox, const char *path, off_t length)
{
    int file = sandbox_open(sandbox, path, O_WRONLY, 0);

    return file < 0 ? file : answer_and_close(file, ftruncate(file, length));
}

/* -- files ------------------------------------------------------------------------------------------------------ */

int sandbox_stat(const struct sandbox *sandbox, const char *path, struct stat *about)
{
    int node = beneath_find(&sandbox->beneath, path, true);

    return node < 0 ? node : answer_and_close(node, fstat(node, about));
}

/* Kernels before Linux 5.8 lack AT_EMPTY_PATH here and need the name of the file. */
int sandbox_access(const struct sandbox *sandbox, const char *path, int mode)
{
    int node = beneath_find(&sandbox->beneath, path, false), result;

    if (node < 0)
        return node;
    result = (int)syscall(SYS_faccessat2, node, "", mode, AT_EMPTY_PATH);
    if (result < 0 && errno == ENOSYS)
        result = faccessat(sandbox->descriptors, number(node).text, mode, 0);
    return answer_and_close(node, result);
}

/* With an empty path, readlinkat returns ENOENT for anything but a link. */
ssize_t sandbox_readlink(const struct sandbox *sandbox, const char *path, char *target, size_t room)
{
    int node = beneath_find(&sandbox->beneath, path, true);
    ssize_t length;

    if (node < 0)
        return node;
    length = readlinkat(node, "", target, room);
    if (length < 0)
        length = errno == ENOENT ? -EINVAL : -errno;
    close(node);
    return length;
}

/* Before Linux 3.12 fstatfs rejects O_PATH descriptors. All files below the directory are on its filesystem. */
int sandbox_statfs(const struct sandbox *sandbox, const char *path, struct statfs *about)
{
    int node = beneath_find(&sandbox->beneath, path, false);

    return node < 0 ? node : answer_and_close(node, fstatfs(sandbox->beneath.directory, about));
}

int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode)
{
    int node;

    if (!strcmp(path, "."))
        return -EPERM;
    node = beneath_find(&sandbox->beneath, path, false);
    return node < 0 ? node
                    : answer_and_close(node, fchmodat(sandbox->descriptors, number(node).text, mode & PERMISSIONS, 0));
}

int sandbox_fchmod(const struct sandbox *sandbox, int descriptor, mode_t mode)
{
    struct stat about;

    if (fstat(descriptor, &about) < 0)
        return -errno;
    if (about.st_dev == sandbox->about.st_dev && about.st_ino == sandbox->about.st_ino)
        return -EPERM;
    return answer(fchmod(descriptor, mode & PERMISSIONS));
}

int sandbox_utimens(const struct sandbox *sandbox, const char *path, const struct timespec times[2])
{
    int node = beneath_find(&sandbox->beneath, path, true);

    return node < 0 ? node : answer_and_close(node, utimensat(sandbox->descriptors, number(node).text, times, 0));
}

/* -- names ------------------------------------------------------------------------------------------------------ */

int sandbox_mkdir(const struct sandbox *sandbox, const char *path, mode_t mode)
{
    struct place at;
    int error = find_place(sandbox, path, -EEXIST, &at);

    return error ? error : answer_and_release(sandbox, &at, mkdirat(at.parent, at.name, mode & PERMISSIONS));
}

static int remove_name(const struct sandbox *sandbox, const char *path, int flags)
{
    struct place at;
    int error = find_place(sandbox, path, -EBUSY, &at);

    return error ? error : answer_and_release(sandbox, &at, unlinkat(at.parent, at.name, flags));
}

int sandbox_rmdir(const struct sandbox *sandbox, const char *path)
{
    return remove_name(sandbox, path, AT_REMOVEDIR);
}

int sandbox_unlink(const struct sandbox *sandbox, const char *path)
{
    return remove_name(sandbox, path, 0);
}

int sandbox_symlink(const struct sandbox *sandbox, const char *target, const char *path)
{
    struct place at;
    int error = find_place(sandbox, path, -EEXIST, &at);

    return error ? error : answer_and_release(sandbox, &at, symlinkat(target, at.parent, at.name));
}

/* RENAME_WHITEOUT is rejected because it creates a device. Kernels before 3.15 have only renameat. */
int sandbox_rename(const struct sandbox *sandbox, const char *path, const char *path2, unsigned int flags)
{
    struct place from, to;
    int error = flags & ~RENAMING ? -EINVAL : find_place(sandbox, path, -EBUSY, &from), result;

    if (error)
        return error;
    error = find_place(sandbox, path2, -EBUSY, &to);
    if (error) {
        beneath_release(&sandbox->beneath, from.parent);
        return error;
    }
    if (flags)
        result = (int)syscall(SYS_renameat2, from.parent, from.name, to.parent, to.name, flags);
    else
        result = renameat(from.parent, from.name, to.parent, to.name);
    result = answer_and_release(sandbox, &from, result);
    beneath_release(&sandbox->beneath, to.parent);
    return result;
}

/* Finds the file before the directory of its new name, as the kernel does. */
int sandbox_link(const struct sandbox *sandbox, const char *path, const char *path2)
{
    struct place at;
    int node = beneath_find(&sandbox->beneath, path, true), error;

    if (node < 0)
        return node;
    error = find_place(sandbox, path2, -EEXIST, &at);
    if (!error)
        error = answer_and_release(
            sandbox, &at, linkat(sandbox->descriptors, number(node).text, at.parent, at.name, AT_SYMLINK_FOLLOW));
    close(node);
    return error;
}
