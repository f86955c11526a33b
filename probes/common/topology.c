#include "common/topology.h"

#include <sys/statvfs.h>

#include "common/devmapper.h"
#include "common/mounts.h"
#include "common/swaps.h"

#define SYSFS_BLOCK "/sys/dev/block"

static bool parse_dev(const char *text, kernel_dev *dev)
{
    unsigned major, minor;
    int end = -1;
    if (!text || sscanf(text, "%u:%u%n", &major, &minor, &end) != 2 || end < 0 || text[end] != '\0')
        return false;
    if (major >> 12 || minor >> 20)
        return false;
    *dev = KERNEL_DEV(major, minor);
    return true;
}

static bool read_dev(int dir, const char *path, kernel_dev *dev)
{
    char *text = file_line(dir, path);
    bool found = parse_dev(text, dev);
    free(text);
    return found;
}

static uint64_t read_number(int dir, const char *path)
{
    char *text = file_line(dir, path);
    uint64_t number = text ? strtoull(text, NULL, 10) : 0;
    free(text);
    return number;
}

static void add_lower(struct block_device *device, kernel_dev lower)
{
    device->lower = grow(device->lower, device->nr_lower + 1, sizeof *device->lower);
    device->lower[device->nr_lower++] = lower;
}

static void read_slaves(int dir, struct block_device *device)
{
    int fd = openat(dir, "slaves", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *slaves = fd < 0 ? NULL : fdopendir(fd);
    if (!slaves) {
        close_file(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(slaves));) {
        char *path = format("%s/dev", entry->d_name);
        kernel_dev lower;
        if (entry->d_name[0] != '.' && read_dev(fd, path, &lower))
            add_lower(device, lower);
        free(path);
    }
    closedir(slaves);
}

static void read_partition(int dir, struct block_device *device)
{
    device->partition = faccessat(dir, "partition", F_OK, 0) == 0;
    if (!device->partition)
        return;
    device->start_sector = read_number(dir, "start");
    device->has_parent = read_dev(dir, "../dev", &device->parent);
    if (device->has_parent)
        add_lower(device, device->parent);
}

/* Read the mapping if it is one linear target: only then all of the device has one parent. */
static void read_mapping(struct block_device *device)
{
    char *target;
    uint64_t start;
    if (!devmapper_linear(DEV_MAJOR(device->dev), DEV_MINOR(device->dev), &target, &start))
        return;
    device->has_parent = parse_dev(target, &device->parent);
    device->start_sector = device->has_parent ? start : 0;
    free(target);
}

/* Return the name of the device in sysfs: the last part of the path to which the link resolves. */
static char *read_name(const char *link)
{
    char *path = realpath(link, NULL);
    char *slash = path ? strrchr(path, '/') : NULL;
    char *name = slash ? format("%s", slash + 1) : NULL;
    free(path);
    return name;
}

static int read_device(const char *number, struct block_device *device)
{
    char *path = format(SYSFS_BLOCK "/%s", number);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *device = (struct block_device){0};
    if (dir >= 0 && parse_dev(number, &device->dev)) {
        device->name = read_name(path);
        device->nr_sectors = read_number(dir, "size");
        read_partition(dir, device);
        read_slaves(dir, device);
        if (faccessat(dir, "dm", F_OK, 0) == 0)
            read_mapping(device);
    }
    free(path);
    close_file(dir);
    if (device->name)
        return 0;
    free(device->lower);
    return -1;
}

static int by_dev(const void *left, const void *right)
{
    kernel_dev a = ((const struct block_device *)left)->dev, b = ((const struct block_device *)right)->dev;
    return (a > b) - (a < b);
}

static int read_devices(struct topology *topology)
{
    DIR *all = opendir(SYSFS_BLOCK);
    if (!all)
        return print_error(SYSFS_BLOCK ": %s; mount sysfs, which lists the block devices", strerror(errno));
    for (struct dirent *entry; (entry = readdir(all));) {
        struct block_device device;
        if (entry->d_name[0] == '.' || read_device(entry->d_name, &device) < 0)
            continue;
        topology->devices = grow(topology->devices, topology->nr_devices + 1, sizeof device);
        topology->devices[topology->nr_devices++] = device;
    }
    closedir(all);
    if (topology->nr_devices)
        qsort(topology->devices, topology->nr_devices, sizeof *topology->devices, by_dev);
    return 0;
}

/* Return the block size, or 0 if another mount hides this one or the path cannot be reached. */
static int64_t block_bytes(const struct mounted *mount)
{
    struct stat status;
    struct statvfs filesystem;
    if (stat(mount->path, &status) < 0 || KERNEL_DEV(major(status.st_dev), minor(status.st_dev)) != mount->dev ||
        statvfs(mount->path, &filesystem) < 0)
        return 0;
    return (int64_t)filesystem.f_bsize;
}

/* Returns false if no block device is mounted there. */
static bool parse_mount(char *text, struct mounted *mount)
{
    struct mount_line line;
    if (!mount_line_parse(text, &line) || !parse_dev(line.device, &mount->dev) || DEV_MAJOR(mount->dev) == 0)
        return false;
    mount->whole = strcmp(line.root, "/") == 0;
    mount->path = format("%s", line.point);
    mount->fs_type = format("%s", line.fs_type);
    mount->options = format("%s,%s", line.options, line.fs_options);
    mount->block_bytes = block_bytes(mount);
    return true;
}

static int read_mounts(struct topology *topology)
{
    struct contents file;
    if (file_read(AT_FDCWD, "/proc/self/mountinfo", &file) < 0)
        return print_error("/proc/self/mountinfo: %s; mount /proc, which lists the mounts", strerror(errno));
    for (char *rest, *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct mounted mount;
        if (!parse_mount(line, &mount))
            continue;
        topology->mounts = grow(topology->mounts, topology->nr_mounts + 1, sizeof mount);
        topology->mounts[topology->nr_mounts++] = mount;
    }
    free(file.data);
    return 0;
}

int topology_read(struct topology *topology)
{
    *topology = (struct topology){0};
    swaps_read(topology);
    if (read_devices(topology) == 0 && read_mounts(topology) == 0)
        return 0;
    topology_free(topology);
    return -1;
}

void topology_free(struct topology *topology)
{
    for (size_t i = 0; i < topology->nr_devices; i++) {
        free(topology->devices[i].name);
        free(topology->devices[i].lower);
    }
    for (size_t i = 0; i < topology->nr_mounts; i++) {
        free(topology->mounts[i].path);
        free(topology->mounts[i].fs_type);
        free(topology->mounts[i].options);
    }
    free(topology->devices);
    free(topology->mounts);
    swaps_free(topology);
    *topology = (struct topology){0};
}

static struct block_device *find(const struct topology *topology, kernel_dev dev)
{
    const struct block_device key = {.dev = dev};
    if (!topology->nr_devices)
        return NULL;
    return bsearch(&key, topology->devices, topology->nr_devices, sizeof key, by_dev);
}

static void trace_below(const struct topology *topology, struct block_device *device)
{
    device->traced = true;
    for (size_t i = 0; i < device->nr_lower; i++) {
        struct block_device *lower = find(topology, device->lower[i]);
        if (lower && !lower->traced)
            trace_below(topology, lower);
    }
}

static bool lies_on(const struct topology *topology, const struct block_device *device, kernel_dev base)
{
    if (device->dev == base)
        return true;
    for (size_t i = 0; i < device->nr_lower; i++) {
        const struct block_device *lower = find(topology, device->lower[i]);
        if (lower && lies_on(topology, lower, base))
            return true;
    }
    return false;
}

int topology_trace(struct topology *topology, kernel_dev dev)
{
    if (!find(topology, dev))
        return -1;
    for (size_t i = 0; i < topology->nr_devices; i++)
        if (lies_on(topology, &topology->devices[i], dev))
            trace_below(topology, &topology->devices[i]);
    return 0;
}

bool topology_traces(const struct topology *topology, kernel_dev dev)
{
    const struct block_device *device = find(topology, dev);
    return device && device->traced;
}

int topology_resolve(const char *argument, kernel_dev *dev)
{
    struct stat status;
    if (parse_dev(argument, dev))
        return 0;
    if (stat(argument, &status) < 0)
        return print_error("%s: %s; give a block device, MAJ:MIN or a path on a filesystem", argument, strerror(errno));
    dev_t number = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
    *dev = KERNEL_DEV(major(number), minor(number));
    return 0;
}

static void dev_json(struct json *json, const char *key, const kernel_dev *dev)
{
    char text[16] = "";
    if (dev)
        snprintf(text, sizeof text, "%u:%u", DEV_MAJOR(*dev), DEV_MINOR(*dev));
    json_string(json, key, dev ? text : NULL);
}

static void device_json(const struct block_device *device, struct json *json)
{
    json_open(json, NULL, '{');
    dev_json(json, "dev", &device->dev);
    json_string(json, "name", device->name);
    dev_json(json, "parent", device->has_parent ? &device->parent : NULL);
    json_integer(json, "start_sector", (int64_t)device->start_sector);
    json_integer(json, "nr_sectors", (int64_t)device->nr_sectors);
    json_open(json, "lies_on", '[');
    for (size_t i = 0; i < device->nr_lower; i++)
        dev_json(json, NULL, &device->lower[i]);
    json_close(json, ']');
    json_bool(json, "traced", device->traced);
    json_close(json, '}');
}

void topology_json(const struct topology *topology, struct json *json)
{
    json_open(json, "devices", '[');
    for (size_t i = 0; i < topology->nr_devices; i++)
        if (topology->devices[i].nr_sectors || topology->devices[i].traced)
            device_json(&topology->devices[i], json);
    json_close(json, ']');
    json_open(json, "mounts", '[');
    for (size_t i = 0; i < topology->nr_mounts; i++) {
        const struct mounted *mount = &topology->mounts[i];
        json_open(json, NULL, '{');
        dev_json(json, "dev", &mount->dev);
        json_string(json, "path", mount->path);
        json_string(json, "fs_type", mount->fs_type);
        json_string(json, "options", mount->options);
        json_maybe(json, "block_bytes", mount->block_bytes, mount->block_bytes != 0);
        json_close(json, '}');
    }
    json_close(json, ']');
    swaps_json(topology, "swaps", json);
}

char *topology_model(const struct topology *topology, kernel_dev dev)
{
    const struct block_device *device = find(topology, dev);
    while (device && device->nr_lower)
        device = find(topology, device->lower[0]);
    if (!device)
        return NULL;
    static const char *const files[] = {"device/model", "device/name"};
    char *model = NULL;
    for (size_t i = 0; i < 2 && !model; i++) {
        char *path = format(SYSFS_BLOCK "/%u:%u/%s", DEV_MAJOR(device->dev), DEV_MINOR(device->dev), files[i]);
        model = file_line(AT_FDCWD, path);
        free(path);
    }
    for (size_t end = model ? strlen(model) : 0; end && model[end - 1] == ' '; end--)
        model[end - 1] = '\0';
    return model;
}
