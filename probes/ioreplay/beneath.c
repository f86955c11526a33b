#include "ioreplay/beneath.h"

#include <linux/openat2.h>

#include "common/mounts.h"

#define PLAIN (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

static bool is_top(const char *path)
{
    return !strcmp(path, ".");
}

static int check_component(const char *name, size_t length)
{
    if (length == 2 && name[0] == '.' && name[1] == '.')
        return -EXDEV;
    if (length == 0 || (length == 1 && name[0] == '.'))
        return -EINVAL;
    return length > NAME_MAX ? -ENAMETOOLONG : 0;
}

/* Return 0 if a path is valid, or else the error of every operation on it. */
static int beneath_check(const char *path)
{
    size_t length;
    int error;
    if (is_top(path))
        return 0;
    if (*path == '/')
        return -EXDEV;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    do {
        length = strcspn(path, "/");
        error = check_component(path, length);
        path += length;
    } while (!error && *path++);
    return error;
}

/* -- openat2 ------------------------------------------------------------------------------------------------------ */

static int open_whole(int directory, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags), .resolve = PLAIN};
    long opened;
    do {
        opened = syscall(SYS_openat2, directory, path, &how, sizeof how);
    } while (opened < 0 && errno == EINTR);
    return (int)or_errno(opened);
}

/* -- walking by components --------------------------------------------------------------------------------------- */

/* Return the mount of an open file. name_to_handle_at is the only call for this that is older than openat2 and parses
 * no text. It returns the mount even if the buffer is too small for the handle. */
static int64_t mount_of(int fd)
{
    struct file_handle handle = {.handle_bytes = 0};
    int mount = -1;
    if (name_to_handle_at(fd, "", &handle, &mount, AT_EMPTY_PATH) < 0 && errno != EOVERFLOW)
        mount = -1;
    return mount >= 0 ? mount : mounts_id(fd, "");
}

static bool is_here(const struct beneath *beneath, int fd, const struct stat *about)
{
    return beneath->mount < 0 ? about->st_dev == beneath->device : mount_of(fd) == beneath->mount;
}

/* Open an entry of an open directory. */
static int step(const struct beneath *beneath, int from, const char *name, struct stat *about)
{
    int node = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), error = 0;
    if (node < 0)
        return -errno;
    if (fstat(node, about) < 0)
        error = -errno;
    else if (!is_here(beneath, node, about))
        error = -EXDEV;
    if (!error)
        return node;
    close(node);
    return error;
}

static int check_kind(const struct stat *about, bool link, bool directory)
{
    if (S_ISLNK(about->st_mode) && !link)
        return -ELOOP;
    return directory && !S_ISDIR(about->st_mode) ? -ENOTDIR : 0;
}

/* Walk the first `length` bytes of the path. */
static int walk(const struct beneath *beneath, const char *path, size_t length, bool link, bool directory)
{
    const char *end = path + length;
    int from = beneath->directory;
    while (path < end) {
        struct stat about = {0};
        char name[NAME_MAX + 1] = {0};
        size_t part = strcspn(path, "/");
        bool last = path + part >= end;
        memcpy(name, path, part);
        int node = step(beneath, from, name, &about);
        beneath_release(beneath, from);
        if (node < 0)
            return node;
        int error = check_kind(&about, link && last, directory || !last);
        if (error) {
            close(node);
            return error;
        }
        from = node;
        path += part + 1;
    }
    return from;
}

/* -- common ----------------------------------------------------------------------------------------------------- */

void beneath_begin(struct beneath *beneath, int directory, dev_t device)
{
    int node = open_whole(directory, ".", 0);
    *beneath = (struct beneath){directory, node < 0, device, mount_of(directory)};
    close_file(node);
}

int beneath_find(const struct beneath *beneath, const char *path, bool link)
{
    int error = beneath_check(path);
    if (error)
        return error;
    if (is_top(path))
        return (int)or_errno(openat(beneath->directory, ".", O_PATH | O_CLOEXEC));
    if (beneath->walks)
        return walk(beneath, path, strlen(path), link, false);
    return open_whole(beneath->directory, path, link ? O_NOFOLLOW : 0);
}

static int find_directory(const struct beneath *beneath, const char *path, size_t length)
{
    char copy[PATH_MAX];
    if (beneath->walks)
        return walk(beneath, path, length, false, true);
    memcpy(copy, path, length);
    copy[length] = '\0';
    return open_whole(beneath->directory, copy, O_DIRECTORY);
}

int beneath_parent(const struct beneath *beneath, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    int error = beneath_check(path);
    if (error)
        return error;
    if (is_top(path))
        return -EBUSY;
    *name = slash ? slash + 1 : path;
    return slash ? find_directory(beneath, path, (size_t)(slash - path)) : beneath->directory;
}

void beneath_release(const struct beneath *beneath, int parent)
{
    if (parent != beneath->directory)
        close(parent);
}
