/* The calls of a replay that take paths. */
#define _GNU_SOURCE
#include "ioreplay/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERMISSIONS 0777

/* Without O_NOFOLLOW, which only decides what is found, and O_CREAT with O_EXCL, which do not apply to what is there.
 */
#define OPENING                                                                                                        \
    (O_ACCMODE | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_LARGEFILE | O_NOATIME |            \
     O_CLOEXEC | O_TMPFILE | O_PATH)

#define RENAMING (RENAME_NOREPLACE | RENAME_EXCHANGE)

/* More often nobody loses against others who make and remove the same file. */
#define TRIES 64

/* -- what was found ----------------------------------------------------------------------------------------------- */

struct number {
    char text[12];
};

/* Name of an open file in `descriptors`. */
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

/* The result of a call on `found`, which is closed. */
static int answer_and_close(int found, int result)
{
    int error = answer(result);

    close(found);
    return error;
}

static int reopen(const struct sandbox *sandbox, int found, int flags, mode_t mode)
{
    int opened;

    do {
        opened = openat(sandbox->descriptors, number(found).text, flags | O_CLOEXEC, mode & PERMISSIONS);
    } while (opened < 0 && errno == EINTR);
    return answer(opened);
}

/* -- open --------------------------------------------------------------------------------------------------------- */

static int check_kind(int found, int flags)
{
    struct stat about;

    if (fstat(found, &about) < 0)
        return -errno;
    if (S_ISDIR(about.st_mode))
        return flags & O_CREAT ? -EISDIR : 0;
    return S_ISREG(about.st_mode) ? 0 : -ENXIO;
}

static int open_found(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    int found = beneath_find(&sandbox->beneath, path, false), result;

    if (found < 0)
        return found;
    result = check_kind(found, flags);
    if (!result)
        result = reopen(sandbox, found, flags & OPENING, mode);
    close(found);
    return result;
}

static int open_new(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name), made;

    if (parent < 0)
        return parent == -EBUSY ? -EISDIR : parent;
    made = answer(openat(parent, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & PERMISSIONS));
    beneath_release(&sandbox->beneath, parent);
    return made;
}

int sandbox_open(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    int opened = -EEXIST;

    if (flags & ~(OPENING | O_CREAT | O_EXCL | O_NOFOLLOW))
        return -EINVAL;
    if (flags & O_PATH || !(flags & O_CREAT))
        return open_found(sandbox, path, flags & ~O_CREAT, mode);
    if (flags & O_EXCL)
        return open_new(sandbox, path, flags, mode);
    for (int tries = 0; tries < TRIES && opened == -EEXIST; tries++) {
        opened = open_found(sandbox, path, flags, mode);
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

/* -- of the file itself ------------------------------------------------------------------------------------------- */

int sandbox_stat(const struct sandbox *sandbox, const char *path, struct stat *about)
{
    int found = beneath_find(&sandbox->beneath, path, true);

    return found < 0 ? found : answer_and_close(found, fstat(found, about));
}

/* Before Linux 5.8 the file has to be named. */
int sandbox_access(const struct sandbox *sandbox, const char *path, int mode)
{
    int found = beneath_find(&sandbox->beneath, path, false), result;

    if (found < 0)
        return found;
    result = (int)syscall(SYS_faccessat2, found, "", mode, AT_EMPTY_PATH);
    if (result < 0 && errno == ENOSYS)
        result = faccessat(sandbox->descriptors, number(found).text, mode, 0);
    return answer_and_close(found, result);
}

/* Without a path readlinkat says ENOENT of what is no link. */
ssize_t sandbox_readlink(const struct sandbox *sandbox, const char *path, char *target, size_t room)
{
    int found = beneath_find(&sandbox->beneath, path, true);
    ssize_t length;

    if (found < 0)
        return found;
    length = readlinkat(found, "", target, room);
    if (length < 0)
        length = errno == ENOENT ? -EINVAL : -errno;
    close(found);
    return length;
}

/* Before Linux 3.12 fstatfs takes no O_PATH descriptor; what is beneath the directory is of its filesystem. */
int sandbox_statfs(const struct sandbox *sandbox, const char *path, struct statfs *about)
{
    int found = beneath_find(&sandbox->beneath, path, false);

    return found < 0 ? found : answer_and_close(found, fstatfs(sandbox->beneath.directory, about));
}

int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode)
{
    int found;

    if (!strcmp(path, "."))
        return -EPERM;
    found = beneath_find(&sandbox->beneath, path, false);
    return found < 0
               ? found
               : answer_and_close(found, fchmodat(sandbox->descriptors, number(found).text, mode & PERMISSIONS, 0));
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
    int found = beneath_find(&sandbox->beneath, path, true);

    return found < 0 ? found : answer_and_close(found, utimensat(sandbox->descriptors, number(found).text, times, 0));
}

/* -- of its name -------------------------------------------------------------------------------------------------- */

int sandbox_mkdir(const struct sandbox *sandbox, const char *path, mode_t mode)
{
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name), result;

    if (parent < 0)
        return parent == -EBUSY ? -EEXIST : parent;
    result = answer(mkdirat(parent, name, mode & PERMISSIONS));
    beneath_release(&sandbox->beneath, parent);
    return result;
}

static int remove_name(const struct sandbox *sandbox, const char *path, int flags)
{
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name), result;

    if (parent < 0)
        return parent;
    result = answer(unlinkat(parent, name, flags));
    beneath_release(&sandbox->beneath, parent);
    return result;
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
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name), result;

    if (parent < 0)
        return parent == -EBUSY ? -EEXIST : parent;
    result = answer(symlinkat(target, parent, name));
    beneath_release(&sandbox->beneath, parent);
    return result;
}

struct pair {
    int parent, parent2;
    const char *name, *name2;
};

static int find_pair(const struct sandbox *sandbox, const char *path, const char *path2, struct pair *pair)
{
    pair->parent = beneath_parent(&sandbox->beneath, path, &pair->name);
    if (pair->parent < 0)
        return pair->parent;
    pair->parent2 = beneath_parent(&sandbox->beneath, path2, &pair->name2);
    if (pair->parent2 >= 0)
        return 0;
    beneath_release(&sandbox->beneath, pair->parent);
    return pair->parent2;
}

static int release_pair(const struct sandbox *sandbox, const struct pair *pair, int result)
{
    int error = answer(result);

    beneath_release(&sandbox->beneath, pair->parent);
    beneath_release(&sandbox->beneath, pair->parent2);
    return error;
}

/* RENAME_WHITEOUT would make a device. Kernels before 3.15 have renameat only. */
int sandbox_rename(const struct sandbox *sandbox, const char *path, const char *path2, unsigned int flags)
{
    struct pair pair;
    int error = flags & ~RENAMING ? -EINVAL : find_pair(sandbox, path, path2, &pair);

    if (error)
        return error;
    if (!flags)
        return release_pair(sandbox, &pair, renameat(pair.parent, pair.name, pair.parent2, pair.name2));
    return release_pair(sandbox, &pair,
                        (int)syscall(SYS_renameat2, pair.parent, pair.name, pair.parent2, pair.name2, flags));
}

/* The kernel, too, looks for the file before the place of its new name. */
int sandbox_link(const struct sandbox *sandbox, const char *path, const char *path2)
{
    const char *name;
    int found = beneath_find(&sandbox->beneath, path, true), parent, result;

    if (found < 0)
        return found;
    parent = beneath_parent(&sandbox->beneath, path2, &name);
    if (parent < 0) {
        close(found);
        return parent == -EBUSY ? -EEXIST : parent;
    }
    result = linkat(sandbox->descriptors, number(found).text, parent, name, AT_SYMLINK_FOLLOW);
    result = answer_and_close(found, result);
    beneath_release(&sandbox->beneath, parent);
    return result;
}
