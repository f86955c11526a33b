#include "iobench/bench.h"

#include "common/mounts.h"
#include "common/topology.h"

static void take_text(char *into, size_t size, const char *text)
{
    snprintf(into, size, "%.*s", (int)size - 1, text);
}

/* Find the directory to which an overlay writes: upperdir= in its options. Returns 0, or -1 if it cannot be reached. */
static int upper_of(const struct mount *mount, char *path, size_t size)
{
    static const char key[] = "upperdir=";
    const char *found = strstr(mount->options, key);
    struct stat about;
    if (!found)
        return -1;
    found += strlen(key);
    snprintf(path, size, "%.*s", (int)strcspn(found, ","), found);
    return stat(path, &about);
}

/* Return the device of a filesystem whose files have no block device number (btrfs) or that lies on another filesystem
 * (overlay). */
static dev_t device_below(const struct mount *mount)
{
    char path[4096];
    struct stat about;
    struct storage upper;
    if (!strcmp(mount->fs_type, "overlay") && upper_of(mount, path, sizeof path) == 0)
        return storage_of(path, &upper) < 0 ? 0 : upper.dev;
    if (mount->source[0] == '/' && stat(mount->source, &about) == 0 && S_ISBLK(about.st_mode))
        return about.st_rdev;
    return 0;
}

static void name_device(struct storage *storage)
{
    char link[64], target[4096];
    snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(storage->dev), minor(storage->dev));
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return;
    target[length] = '\0';
    const char *name = strrchr(target, '/');
    take_text(storage->device, sizeof storage->device, name ? name + 1 : target);
}

/* Check access first, because topology_read prints an error that would be misleading here. */
static void find_model(struct storage *storage)
{
    struct topology topology;
    if (access("/sys/dev/block", R_OK) < 0 || access("/proc/self/mountinfo", R_OK) < 0 || topology_read(&topology) < 0)
        return;
    char *model = topology_model(&topology, KERNEL_DEV(major(storage->dev), minor(storage->dev)));
    take_text(storage->model, sizeof storage->model, model ? model : "");
    free(model);
    topology_free(&topology);
}

static void take_mount(const struct mount *mount, struct storage *storage)
{
    take_text(storage->filesystem, sizeof storage->filesystem, mount->fs_type);
    take_text(storage->mount_options, sizeof storage->mount_options, mount->options);
    take_text(storage->mount_point, sizeof storage->mount_point, mount->point);
}

/* Find the device and mount of an open file that is not a device. */
static void take_place(int file, dev_t number, struct storage *storage)
{
    struct mount mount = {0};
    storage->dev = major(number) ? number : 0;
    if (mounts_find(file, mounts_id(file, ""), &mount) < 0)
        return;
    take_mount(&mount, storage);
    if (!storage->dev)
        storage->dev = device_below(&mount);
    mounts_release(&mount);
}

/* Open the path, or the parent of a directory that does not exist yet. */
static int open_place(const char *path)
{
    int file = open(path, O_PATH | O_CLOEXEC);
    char *slash;
    if (file >= 0 || errno != ENOENT)
        return file;
    char *parent = format("%s%s", path[0] == '/' ? "" : "./", path);
    for (slash = strrchr(parent, '/'); slash > parent && !slash[1]; slash = strrchr(parent, '/'))
        *slash = '\0';
    slash[slash == parent] = '\0';
    file = open(parent, O_PATH | O_CLOEXEC);
    free(parent);
    return file;
}

int storage_of(const char *path, struct storage *storage)
{
    struct stat about;
    int file = open_place(path);
    *storage = (struct storage){0};
    if (file < 0 || fstat(file, &about) < 0) {
        int error = errno;
        close_file(file);
        return print_error("%s: %s; give a path that is there", path, strerror(error));
    }
    if (S_ISBLK(about.st_mode))
        storage->dev = about.st_rdev;
    else
        take_place(file, about.st_dev, storage);
    close(file);
    if (!storage->dev)
        return 0;
    name_device(storage);
    find_model(storage);
    return 0;
}
