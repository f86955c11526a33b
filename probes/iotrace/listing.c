#include "iotrace/iotrace.h"

#include "extmap/extmap.h"

static const struct record_type *const types[] = {EXTMAP_TYPES, &descriptor_type};
const struct record_probe listing_probe = {"iotrace", types, sizeof types / sizeof *types};

static dev_t device_of(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 ? 0 : status.st_dev;
}

static void add(struct listing *listing, const char *path)
{
    listing->paths = grow(listing->paths, listing->nr + 1, sizeof *listing->paths);
    listing->devs = grow(listing->devs, listing->nr + 1, sizeof *listing->devs);
    listing->devs[listing->nr] = device_of(path);
    listing->paths[listing->nr++] = path;
}

static bool mounted_before(const struct topology *topology, size_t mount)
{
    for (size_t i = 0; i < mount; i++)
        if (topology->mounts[i].dev == topology->mounts[mount].dev && topology->mounts[i].whole)
            return true;
    return false;
}

void listing_choose(struct listing *listing, const struct opt_list *asked, const struct topology *topology)
{
    for (size_t i = 0; i < asked->count; i++)
        if (strcmp(asked->items[i], "none") != 0)
            add(listing, asked->items[i]);
    for (size_t i = 0; !asked->count && i < topology->nr_mounts; i++) {
        const struct mounted *mount = &topology->mounts[i];
        if (mount->whole && topology_traces(topology, mount->dev) && !mounted_before(topology, i))
            add(listing, mount->path);
    }
}

void listing_free(struct listing *listing)
{
    free(listing->paths);
    free(listing->devs);
}

/* After an unmount the path leads to another filesystem, which must not be listed. */
static bool is_mounted(const struct listing *listing, size_t i)
{
    return device_of(listing->paths[i]) == listing->devs[i];
}

static void sync_mount(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    syncfs(fd);
    close(fd);
}

void listing_sync(const struct listing *listing)
{
    for (size_t i = 0; i < listing->nr; i++)
        if (is_mounted(listing, i))
            sync_mount(listing->paths[i]);
}

int listing_write(const struct listing *listing, int dir, const char *name)
{
    listing_sync(listing);
    char *path = path_in(dir, name);
    struct record *out = record_open(path, &listing_probe);
    int result = out ? extmap_tasks(out) : -1;
    if (result == 0 && listing->descriptors)
        result = descriptors_record(out);
    for (size_t i = 0; out && result == 0 && i < listing->nr; i++)
        if (is_mounted(listing, i))
            result = extmap_tree(listing->paths[i], out);
    if (out && record_close(out) < 0)
        result = -1;
    free(path);
    return result;
}

int listing_write_tasks(int dir)
{
    const struct listing tasks_only = {0};
    if (listing_write(&tasks_only, dir, "tasks.new") < 0)
        return -1;
    return renameat(dir, "tasks.new", dir, "tasks.rec") < 0 ? print_error("tasks.rec: %s", strerror(errno)) : 0;
}
