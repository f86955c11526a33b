/* Calls of a replay that take paths. */
#include "ioreplay/replay.h"

#include <linux/fs.h>

#define PERMISSIONS 0777

/* Flags for opening a file by its descriptor. O_NOFOLLOW only affects the look-up, and O_CREAT and O_EXCL do not apply
 * to an existing file. */
#define OPENING                                                                                                        \
    (O_ACCMODE | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT | O_LARGEFILE | O_NOATIME |            \
     O_CLOEXEC | O_TMPFILE | O_PATH)

#define RENAMING (RENAME_NOREPLACE | RENAME_EXCHANGE)

/* Enough attempts against other processes that create and remove the same file. */
#define TRIES 64

/* The recorded times are not part of a program; setting the current time costs the same. */
static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

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

mode_t replay_mode(const struct replay_operation *operation, mode_t otherwise)
{
    return operation->mode == RECORD_NULL_INT32 ? otherwise : (mode_t)operation->mode & PERMISSIONS;
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
    flags = (flags & OPENING) | O_CLOEXEC;
    if (!result)
        do
            result = (int)or_errno(openat(sandbox->descriptors, number(node).text, flags, mode & PERMISSIONS));
        while (result == -EINTR);
    close(node);
    return result;
}

static int open_new(const struct sandbox *sandbox, const char *path, int flags, mode_t mode)
{
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name), opened;
    if (parent < 0)
        return parent == -EBUSY ? -EISDIR : parent;
    opened = openat(parent, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & PERMISSIONS);
    opened = (int)or_errno(opened);
    beneath_release(&sandbox->beneath, parent);
    return opened;
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

/* -- existing files ----------------------------------------------------------------------------------------------- */

/* Kernels before Linux 5.8 lack AT_EMPTY_PATH here and need the name of the file. */
static int can_access(const struct sandbox *sandbox, int node, int mode)
{
    int result = (int)syscall(SYS_faccessat2, node, "", mode, AT_EMPTY_PATH);
    return result < 0 && errno == ENOSYS ? faccessat(sandbox->descriptors, number(node).text, mode, 0) : result;
}

/* With an empty path, readlinkat returns ENOENT for anything but a link. */
static int64_t read_link(int node, int64_t bytes)
{
    char target[PATH_MAX];
    int64_t length = or_errno(readlinkat(node, "", target, bytes > 0 && bytes < PATH_MAX ? (size_t)bytes : PATH_MAX));
    return length == -ENOENT ? -EINVAL : length;
}

/* Refuse a symbolic link: stat would follow it, and links are not followed. */
static int64_t do_stat(int node, bool link)
{
    struct stat about;
    if (fstat(node, &about) < 0)
        return -errno;
    return !link && S_ISLNK(about.st_mode) ? -ELOOP : 0;
}

static int64_t truncate_file(const struct sandbox *sandbox, const char *path, int64_t length)
{
    int file = sandbox_open(sandbox, path, O_WRONLY, 0);
    int64_t result = file < 0 ? file : or_errno(ftruncate(file, length));
    close_file(file);
    return result;
}

/* Find the directory of a new name after the file, as the kernel does. */
static int64_t link_node(const struct sandbox *sandbox, int node, const char *path)
{
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name);
    if (parent < 0)
        return parent == -EBUSY ? -EEXIST : parent;
    int64_t result = or_errno(linkat(sandbox->descriptors, number(node).text, parent, name, AT_SYMLINK_FOLLOW));
    beneath_release(&sandbox->beneath, parent);
    return result;
}

/* Before Linux 3.12 fstatfs rejects O_PATH descriptors. All files below the directory are on its filesystem. */
static int64_t call_on_node(const struct sandbox *sandbox, const struct replay_operation *operation, int node,
                            const char *path2)
{
    struct statfs filesystem;
    switch (operation->call) {
    case CALL_STAT:
    case CALL_LSTAT:
        return do_stat(node, operation->call == CALL_LSTAT);
    case CALL_ACCESS:
        return or_errno(can_access(sandbox, node, operation->request));
    case CALL_READLINK:
        return read_link(node, operation->bytes);
    case CALL_STATFS:
        return or_errno(fstatfs(sandbox->beneath.directory, &filesystem));
    case CALL_CHMOD:
        return or_errno(fchmodat(sandbox->descriptors, number(node).text, replay_mode(operation, 0600), 0));
    case CALL_UTIMENS:
        return or_errno(utimensat(sandbox->descriptors, number(node).text, now, 0));
    default:
        return link_node(sandbox, node, path2);
    }
}

static int64_t call_with_file(const struct sandbox *sandbox, const struct replay_operation *operation, const char *path,
                              const char *path2)
{
    bool link = operation->call != CALL_ACCESS && operation->call != CALL_STATFS && operation->call != CALL_CHMOD;
    int node =
        operation->call == CALL_CHMOD && !strcmp(path, ".") ? -EPERM : beneath_find(&sandbox->beneath, path, link);
    int64_t result = node < 0 ? node : call_on_node(sandbox, operation, node, path2);
    close_file(node);
    return result;
}

int sandbox_chmod(const struct sandbox *sandbox, const char *path, mode_t mode)
{
    const struct replay_operation operation = {.call = CALL_CHMOD, .mode = (int32_t)mode};
    return (int)call_with_file(sandbox, &operation, path, NULL);
}

int sandbox_fchmod(const struct sandbox *sandbox, int descriptor, mode_t mode)
{
    struct stat about;
    if (fstat(descriptor, &about) < 0)
        return -errno;
    if (about.st_dev == sandbox->about.st_dev && about.st_ino == sandbox->about.st_ino)
        return -EPERM;
    return (int)or_errno(fchmod(descriptor, mode & PERMISSIONS));
}

/* -- names -------------------------------------------------------------------------------------------------------- */

static int64_t call_with_name(const struct sandbox *sandbox, const struct replay_operation *operation, const char *path,
                              const char *path2)
{
    bool removes = operation->call == CALL_UNLINK || operation->call == CALL_RMDIR;
    const char *name;
    int parent = beneath_parent(&sandbox->beneath, path, &name);
    int64_t result;
    if (parent < 0)
        return parent == -EBUSY && !removes ? -EEXIST : parent;
    if (removes)
        result = or_errno(unlinkat(parent, name, operation->call == CALL_RMDIR ? AT_REMOVEDIR : 0));
    else if (operation->call == CALL_MKDIR)
        result = or_errno(mkdirat(parent, name, replay_mode(operation, 0700)));
    else
        result = or_errno(symlinkat(path2, parent, name));
    beneath_release(&sandbox->beneath, parent);
    return result;
}

/* RENAME_WHITEOUT is rejected because it creates a device. Kernels before 3.15 have only renameat. */
static int64_t rename_file(const struct sandbox *sandbox, const char *path, const char *path2, unsigned int flags)
{
    const char *name, *name2;
    int parent = flags & ~RENAMING ? -EINVAL : beneath_parent(&sandbox->beneath, path, &name), parent2;
    if (parent < 0)
        return parent;
    int64_t result = parent2 = beneath_parent(&sandbox->beneath, path2, &name2);
    if (parent2 >= 0) {
        result = or_errno(flags ? (int)syscall(SYS_renameat2, parent, name, parent2, name2, flags)
                                : renameat(parent, name, parent2, name2));
        beneath_release(&sandbox->beneath, parent2);
    }
    beneath_release(&sandbox->beneath, parent);
    return result;
}

int64_t sandbox_do(const struct sandbox *sandbox, const struct replay_program *program,
                   const struct replay_operation *operation)
{
    const char *path = program->strings[operation->path];
    const char *path2 = operation->path2 == REPLAY_NONE ? NULL : program->strings[operation->path2];
    switch (operation->call) {
    case CALL_TRUNCATE:
        return truncate_file(sandbox, path, operation->bytes);
    case CALL_RENAME:
        return rename_file(sandbox, path, path2,
                           operation->flags == RECORD_NULL_INT64 ? 0 : (unsigned)operation->flags);
    case CALL_MKDIR:
    case CALL_RMDIR:
    case CALL_UNLINK:
    case CALL_SYMLINK:
        return call_with_name(sandbox, operation, path, path2);
    default:
        return call_with_file(sandbox, operation, path, path2);
    }
}
