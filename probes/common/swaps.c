#include "common/swaps.h"

#include "common/mounts.h"

/* Parse a line of /proc/swaps (mm/swapfile.c, swap_show): the path ends at the first blank. */
static bool parse_swap(char *line, struct swap_space *swap)
{
    char *path = strsep(&line, " \t");
    struct stat status;
    mounts_unescape(path);
    if (path[0] != '/' || stat(path, &status) < 0)
        return false;
    bool is_file = S_ISREG(status.st_mode);
    dev_t dev = is_file ? status.st_dev : status.st_rdev;
    if (!is_file && !S_ISBLK(status.st_mode))
        return false;
    *swap = (struct swap_space){KERNEL_DEV(major(dev), minor(dev)), is_file ? (int64_t)status.st_ino : 0,
                                format("%s", path)};
    return true;
}

void swaps_read(struct topology *topology)
{
    struct contents file;
    if (file_read(AT_FDCWD, "/proc/swaps", &file) < 0)
        return;
    for (char *rest, *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct swap_space swap;
        if (!parse_swap(line, &swap))
            continue;
        topology->swaps = grow(topology->swaps, topology->nr_swaps + 1, sizeof swap);
        topology->swaps[topology->nr_swaps++] = swap;
    }
    free(file.data);
}

void swaps_free(struct topology *topology)
{
    for (size_t i = 0; i < topology->nr_swaps; i++)
        free(topology->swaps[i].path);
    free(topology->swaps);
}

void swaps_json(const struct topology *topology, const char *key, struct json *json)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < topology->nr_swaps; i++) {
        const struct swap_space *swap = &topology->swaps[i];
        char *dev = format("%u:%u", DEV_MAJOR(swap->dev), DEV_MINOR(swap->dev));
        json_open(json, NULL, '{');
        json_string(json, "dev", dev);
        json_string(json, "path", swap->path);
        json_maybe(json, "ino", swap->inode, swap->inode != 0);
        json_close(json, '}');
        free(dev);
    }
    json_close(json, ']');
}
