#include "common/mounts.h"

/* The mount in the kernel's struct statx (linux/stat.h), in words of 64 bits; musl's own struct lacks it. */
enum { ASK_MOUNT = 0x1000, STATX_WORDS = 32, MOUNT_WORD = 18 };

static bool is_octal(const char *text)
{
    return text[0] >= '0' && text[0] <= '3' && text[1] >= '0' && text[1] <= '7' && text[2] >= '0' && text[2] <= '7';
}

void mounts_unescape(char *text)
{
    char *to = text;
    while (*text) {
        if (*text == '\\' && is_octal(text + 1)) {
            *to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

/* Return the rest of `path` after directory `base` ("" or "/…"), or NULL if `path` is not below `base`. */
static const char *within(const char *path, const char *base)
{
    size_t length = strlen(base);
    if (!strcmp(base, "/"))
        return strcmp(path, "/") ? path : "";
    if (strncmp(path, base, length) || (path[length] && path[length] != '/'))
        return NULL;
    return path + length;
}

static void take(const struct mount_line *line, const char *rest, struct mount *mount)
{
    const char *root = strcmp(line->root, "/") ? line->root : "";
    const char *whole = *root || *rest ? rest : "/";
    mounts_release(mount);
    *mount = (struct mount){.fs_type = format("%s", line->fs_type),
                            .source = format("%s", line->source),
                            .point = format("%s", line->point),
                            .options = format("%s,%s", line->options, line->fs_options),
                            .path = format("%s%s", root, whole)};
}

/* Split `text` at every blank, because a source may be empty. Returns false if there are fewer than `count` words. */
static bool split(char *text, char **words, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        words[index] = strsep(&text, " ");
        if (!words[index])
            return false;
    }
    return true;
}

bool mount_line_parse(char *text, struct mount_line *line)
{
    char *dash = strstr(text, " - "), *fields[6], *tail[3];
    if (!dash)
        return false;
    *dash = '\0';
    if (!split(text, fields, 6) || !split(dash + 3, tail, 3))
        return false;
    *line = (struct mount_line){
        strtoll(fields[0], NULL, 10), fields[2], fields[3], fields[4], fields[5], tail[0], tail[1], tail[2]};
    for (int field = 3; field < 6; field++)
        mounts_unescape(fields[field]);
    mounts_unescape(tail[2]);
    return true;
}

/* Take the mount of this line if `path` is below it. Of several equal mount points the last line is the topmost
 * mount. */
static void match_line(char *text, const char *path, int64_t mount_id, struct mount *mount)
{
    struct mount_line line;
    if (!mount_line_parse(text, &line) || (mount_id >= 0 && line.id != mount_id))
        return;
    const char *rest = within(path, line.point);
    if (rest && !(mount->point && strlen(mount->point) > strlen(line.point)))
        take(&line, rest, mount);
}

static int search(const char *path, int64_t mount_id, struct mount *mount)
{
    struct contents file;
    if (file_read(AT_FDCWD, "/proc/self/mountinfo", &file) < 0)
        return -1;
    for (char *rest, *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        match_line(line, path, mount_id, mount);
    free(file.data);
    return mount->path ? 0 : -1;
}

int mounts_find(int fd, int64_t mount_id, struct mount *mount)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return -1;
    path[length] = '\0';
    return search(path, mount_id, mount);
}

void mounts_release(struct mount *mount)
{
    free(mount->fs_type);
    free(mount->source);
    free(mount->point);
    free(mount->options);
    free(mount->path);
    *mount = (struct mount){0};
}

static int64_t id_of_open(int fd)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    if (procfs_read(path, text, sizeof text) < 0)
        return -1;
    const char *found = strstr(text, "mnt_id:");
    return found ? strtoll(found + strlen("mnt_id:"), NULL, 10) : -1;
}

int64_t mounts_id(int directory, const char *name)
{
    uint64_t about[STATX_WORDS] = {0};
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);
    /* No reachable mount has ID 0. qemu 7 claims to fill in the ID but leaves it at 0. */
    if (!syscall(SYS_statx, directory, name, flags, ASK_MOUNT, about) && about[MOUNT_WORD])
        return (int64_t)about[MOUNT_WORD];
    return *name ? -1 : id_of_open(directory);
}

int64_t mounts_device_sectors(unsigned int major, unsigned int minor)
{
    char path[64], text[32];
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/size", major, minor);
    return procfs_line(path, text, sizeof text) > 0 ? strtoll(text, NULL, 10) : -1;
}
