#include "extmap/extmap.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <search.h>

#include "common/mounts.h"

#define SECTOR_BYTES 512
#define ATTRIBUTES   (STATX_BASIC_STATS | STATX_BTIME)

struct filesystem_row {
    int64_t nr_sectors, listed_ns;
    uint32_t dev, block_bytes;
    struct record_string fs_type, source, mount_point, root;
};

static const struct record_field filesystem_fields[] = {
    RECORD_FIELD(filesystem_row, nr_sectors, true, "512 B sectors", "Size of the device."),
    RECORD_FIELD(filesystem_row, listed_ns, false, "ns", "When the listing began."),
    RECORD_FIELD(filesystem_row, dev, false, NULL, "Device of the filesystem, major<<20|minor."),
    RECORD_FIELD(filesystem_row, block_bytes, false, "B", "Block size of the filesystem."),
    RECORD_FIELD(filesystem_row, fs_type, true, NULL, "Type in /proc/self/mountinfo."),
    RECORD_FIELD(filesystem_row, source, true, NULL, "Source of the mount."),
    RECORD_FIELD(filesystem_row, mount_point, true, NULL, "Where it is mounted."),
    RECORD_FIELD(filesystem_row, root, true, NULL,
                 "Path, from the root of the filesystem, of the directory whose tree was listed."),
};

const struct record_type filesystem_type =
    RECORD_TYPE("filesystem", NULL, "A filesystem of which a tree was listed.", filesystem_fields);

struct file_row {
    int64_t ino, generation, size_bytes, allocated_sectors, created_ns, modified_ns, changed_ns, listed_ns;
    uint32_t dev, mode, nlink, uid, attributes;
    int32_t name_encrypted;
    struct record_string path;
};

static const struct record_field file_fields[] = {
    RECORD_FIELD(file_row, ino, false, NULL, "Inode number."),
    RECORD_FIELD(file_row, generation, true, NULL, "Inode generation (FS_IOC_GETVERSION)."),
    RECORD_FIELD(file_row, size_bytes, false, "B", "Size of the file."),
    RECORD_FIELD(file_row, allocated_sectors, false, "512 B sectors", "Allocated size (st_blocks)."),
    RECORD_FIELD(file_row, created_ns, true, "ns", "Creation, of CLOCK_REALTIME."),
    RECORD_FIELD(file_row, modified_ns, false, "ns", "st_mtime, of CLOCK_REALTIME."),
    RECORD_FIELD(file_row, changed_ns, false, "ns", "st_ctime, of CLOCK_REALTIME."),
    RECORD_FIELD(file_row, listed_ns, false, "ns", "When this was read."),
    RECORD_FIELD(file_row, dev, false, NULL, "Device of the filesystem, major<<20|minor."),
    RECORD_FIELD(file_row, mode, false, NULL, "Type and rights (st_mode)."),
    RECORD_FIELD(file_row, nlink, false, NULL, "Number of names."),
    RECORD_FIELD(file_row, uid, false, NULL, "User who owns the file."),
    RECORD_FIELD(file_row, attributes, false, NULL,
                 "FS_*_FL of FS_IOC_GETFLAGS (linux/fs.h); 0 if the filesystem does not report them."),
    RECORD_FIELD(file_row, name_encrypted, true, NULL,
                 "1: the name is ciphertext because its key is absent; 0: it is not; null: unknown."),
    RECORD_FIELD(file_row, path, true, NULL, "Path from the root of the filesystem, one row per name."),
};

const struct record_type file_type = RECORD_TYPE("file", "files", "A name of an inode.", file_fields);

struct extent_row {
    int64_t sector, nr_sectors, ino, generation, file_offset_bytes;
    uint32_t dev, flags;
};

static const struct record_field extent_fields[] = {
    RECORD_FIELD(extent_row, sector, true, "512 B sectors", "First sector on `dev`."),
    RECORD_FIELD(extent_row, nr_sectors, false, "512 B sectors", "Length."),
    RECORD_FIELD(extent_row, ino, false, NULL, "Inode that owns the run."),
    RECORD_FIELD(extent_row, generation, true, NULL, "Inode generation (FS_IOC_GETVERSION)."),
    RECORD_FIELD(extent_row, file_offset_bytes, false, "B", "Offset in the file."),
    RECORD_FIELD(extent_row, dev, false, NULL, "Device of the filesystem, major<<20|minor."),
    RECORD_FIELD(extent_row, flags, false, NULL,
                 "FIEMAP_EXTENT_* (linux/fiemap.h); 0x80000000: from FIBMAP, which reports no state."),
};

const struct record_type extent_type =
    RECORD_TYPE("extent", "extents", "A run of sectors of a file, once per inode.", extent_fields);

/* Attributes that statx reports without opening a file; their bits equal those of FS_*_FL. */
#define STATX_FLAGS (FS_COMPR_FL | FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_ENCRYPT_FL)

/* A directory between the root and the current position of the walk. */
struct level {
    int fd;
    int32_t names_encrypted;
    size_t path_bytes;
    char *names; /* of subdirectories still to walk, each with a NUL */
    size_t names_bytes, names_room, next;
};

struct walk {
    struct record *out;
    uint32_t dev;
    int64_t mount_id; /* -1: unknown */
    char *path;       /* of the current entry, from the root of the filesystem */
    size_t path_bytes;
    struct level *levels;
    size_t depth;
    void *linked; /* tsearch(3): inodes with several names and recorded extents */
    int error;    /* reason to stop the walk; 0: none */
};

/* -- paths -------------------------------------------------------------------------------------------------------- */

/* Set the path to entry `name` in the directory whose path has `directory_bytes`. */
static void set_path(struct walk *walk, size_t directory_bytes, const char *name)
{
    bool at_root = directory_bytes == 1 && walk->path[0] == '/';
    size_t name_bytes = strlen(name), start = at_root ? 1 : directory_bytes + 1;
    walk->path = grow(walk->path, start + name_bytes + 1, 1);
    walk->path[start - 1] = '/';
    memcpy(walk->path + start, name, name_bytes + 1);
    walk->path_bytes = start + name_bytes;
}

static void remember_directory(struct level *level, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (level->names_bytes + bytes > level->names_room) {
        level->names_room = 2 * (level->names_bytes + bytes);
        level->names = grow(level->names, level->names_room, 1);
    }
    memcpy(level->names + level->names_bytes, name, bytes);
    level->names_bytes += bytes;
}

/* -- losses ------------------------------------------------------------------------------------------------------- */

static void lose_by_errno(struct walk *walk, int error)
{
    switch (error) {
    case ENOENT:
    case ELOOP:
    case ENOTDIR:
    case ESTALE:
        record_lose(walk->out, "vanished", "files that vanished or were replaced during the listing", 1);
        break;
    case EACCES:
    case EPERM:
        record_lose(walk->out, "denied", "files without permission to open; list as root", 1);
        break;
    case ENOKEY:
        record_lose(walk->out, "locked", "encrypted files without their key; unlock the user first", 1);
        break;
    case EOPNOTSUPP:
        record_lose(walk->out, "unmapped", "files without extents reported by the filesystem", 1);
        break;
    default:
        record_lose(walk->out, "unreadable", "files or directories that could not be read", 1);
    }
}

static void lose_mount(struct walk *walk)
{
    record_lose(walk->out, "mount", "mount points that were not entered; files hidden below them are not listed", 1);
}

/* -- one file ------------------------------------------------------------------------------------------------------ */

static uint32_t kernel_dev(const struct statx *about)
{
    return about->stx_dev_major << 20 | about->stx_dev_minor;
}

static int64_t nanoseconds(const struct statx_timestamp *time)
{
    return time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Open a file for statx, reading and ioctl: never a symbolic link, and without updating the access time if
 * permitted. */
static int open_entry(int directory, const char *name, int flags)
{
    int fd;
    flags |= O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    do
        fd = openat(directory, name, flags | O_NOATIME);
    while (fd < 0 && errno == EINTR);
    return fd < 0 && errno == EPERM ? openat(directory, name, flags) : fd;
}

/* Return whether `name` in `directory` (or the open file itself if `name` is "") is in the mount that is walked. */
static bool same_mount(const struct walk *walk, int directory, const char *name, const struct statx *about)
{
    if (kernel_dev(about) != walk->dev)
        return false;
    int64_t mount_id = mounts_id(directory, name);
    return mount_id < 0 || walk->mount_id < 0 || mount_id == walk->mount_id;
}

static struct file_row file_row(const struct statx *about)
{
    return (struct file_row){
        .ino = (int64_t)about->stx_ino,
        .generation = RECORD_NULL_INT64,
        .size_bytes = (int64_t)about->stx_size,
        .allocated_sectors = (int64_t)about->stx_blocks,
        .created_ns = about->stx_mask & STATX_BTIME ? nanoseconds(&about->stx_btime) : RECORD_NULL_INT64,
        .modified_ns = nanoseconds(&about->stx_mtime),
        .changed_ns = nanoseconds(&about->stx_ctime),
        .listed_ns = clock_now(CLOCK_RECORD),
        .dev = kernel_dev(about),
        .mode = about->stx_mode,
        .nlink = about->stx_nlink,
        .uid = about->stx_uid,
        .attributes = (uint32_t)(about->stx_attributes & STATX_FLAGS),
    };
}

/* Add the generation and flags, which need an open file. The kernel writes an int, although the ioctl numbers say
 * long. */
static void ask_inode(int fd, struct file_row *row)
{
    unsigned int value[2] = {0, 0};
    if (!ioctl(fd, FS_IOC_GETVERSION, value))
        row->generation = value[0];
    value[0] = 0;
    if (!ioctl(fd, FS_IOC_GETFLAGS, value))
        row->attributes = value[0];
}

static void record_file(struct walk *walk, struct file_row *row)
{
    struct record_text path = {walk->path, walk->path_bytes};
    /* The names in the parent of the root were not checked. */
    row->name_encrypted = walk->depth ? walk->levels[walk->depth - 1].names_encrypted : RECORD_NULL_INT32;
    if (record_add(walk->out, &file_type, row, &path))
        walk->error = EIO;
}

struct owner {
    struct record *out;
    const struct file_row *file;
};

static int record_extent(void *context, const struct filemap_extent *extent)
{
    const struct owner *owner = context;
    int64_t first = extent->physical_bytes / SECTOR_BYTES;
    int64_t end = (extent->physical_bytes + extent->nr_bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
    bool nowhere = extent->flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC);
    struct extent_row row = {
        .sector = nowhere ? RECORD_NULL_INT64 : first,
        .nr_sectors = end - first,
        .ino = owner->file->ino,
        .generation = owner->file->generation,
        .file_offset_bytes = extent->file_offset_bytes,
        .dev = owner->file->dev,
        .flags = extent->flags,
    };
    return record_add(owner->out, &extent_type, &row, NULL) ? 1 : 0;
}

static int by_number(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;
    return (left > right) - (left < right);
}

/* Return whether the inode was not seen before. */
static bool is_first_name(struct walk *walk, uint64_t ino)
{
    uint64_t *number = grow(NULL, 1, sizeof *number);
    *number = ino;
    void *const *node = tsearch(number, &walk->linked, by_number);
    if (node && *node == number)
        return true;
    free(number);
    return false;
}

static void record_extents(struct walk *walk, int fd, const struct statx *about, const struct file_row *row)
{
    struct owner owner = {walk->out, row};
    struct statx after;
    if (!S_ISDIR(about->stx_mode) && about->stx_nlink > 1 && !is_first_name(walk, about->stx_ino))
        return;
    if (filemap(fd, row->size_bytes, record_extent, &owner) < 0) {
        lose_by_errno(walk, errno);
        return;
    }
    if (!statx(fd, "", AT_EMPTY_PATH, ATTRIBUTES, &after) && nanoseconds(&after.stx_ctime) != row->changed_ns)
        record_lose(walk->out, "changed", "files that changed while they were listed", 1);
}

/* Record an open regular file or directory. Returns 0 if it is in this mount. */
static int record_open_entry(struct walk *walk, int fd, struct statx *about)
{
    if (statx(fd, "", AT_EMPTY_PATH, ATTRIBUTES, about)) {
        lose_by_errno(walk, errno);
        return -1;
    }
    if (!same_mount(walk, fd, "", about)) {
        lose_mount(walk);
        return -1;
    }
    struct file_row row = file_row(about);
    if (S_ISREG(about->stx_mode) || S_ISDIR(about->stx_mode))
        ask_inode(fd, &row);
    record_file(walk, &row);
    if (S_ISREG(about->stx_mode) || S_ISDIR(about->stx_mode))
        record_extents(walk, fd, about, &row);
    return 0;
}

/* Record an entry without opening it: a link, pipe, socket or device, or a file that must not be opened. */
static void record_closed_entry(struct walk *walk, int directory, const char *name)
{
    struct statx about;
    if (statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, ATTRIBUTES, &about)) {
        lose_by_errno(walk, errno);
        return;
    }
    if (!same_mount(walk, directory, name, &about)) {
        lose_mount(walk);
        return;
    }
    struct file_row row = file_row(&about);
    record_file(walk, &row);
}

/* -- directories --------------------------------------------------------------------------------------------------- */

static unsigned char entry_type(int directory, const struct dirent *entry)
{
    struct stat about;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    /* If it has vanished, the later open reports it. */
    if (fstatat(directory, entry->d_name, &about, AT_SYMLINK_NOFOLLOW))
        return DT_REG;
    return IFTODT(about.st_mode);
}

static void visit(struct walk *walk, int above, const char *name, bool directory);

static void visit_entry(struct walk *walk, struct level *level, const struct dirent *entry)
{
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
        return;
    switch (entry_type(level->fd, entry)) {
    case DT_DIR:
        remember_directory(level, entry->d_name);
        return;
    case DT_REG:
        set_path(walk, level->path_bytes, entry->d_name);
        visit(walk, level->fd, entry->d_name, false);
        return;
    default:
        set_path(walk, level->path_bytes, entry->d_name);
        record_closed_entry(walk, level->fd, entry->d_name);
    }
}

/* Record the files of a directory and remember its subdirectories. */
static void read_entries(struct walk *walk, struct level *level)
{
    int fd = fcntl(level->fd, F_DUPFD_CLOEXEC, 0);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (!directory) {
        lose_by_errno(walk, errno);
        close_file(fd);
        return;
    }
    while (errno = 0, (entry = readdir(directory)) && !walk->error)
        visit_entry(walk, level, entry);
    if (errno)
        lose_by_errno(walk, errno);
    closedir(directory);
}

static void leave(struct walk *walk)
{
    struct level *level = &walk->levels[--walk->depth];
    close(level->fd);
    free(level->names);
}

static int key_is_absent(int fd, const struct fscrypt_policy_v2 *policy)
{
    struct fscrypt_get_key_status_arg key = {.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER};
    memcpy(key.key_spec.u.identifier, policy->master_key_identifier, sizeof policy->master_key_identifier);
    if (ioctl(fd, FS_IOC_GET_ENCRYPTION_KEY_STATUS, &key))
        return -1;
    /* A key that is being removed still serves open files. */
    return key.status == FSCRYPT_KEY_STATUS_ABSENT ? 1 : key.status == FSCRYPT_KEY_STATUS_PRESENT ? 0 : -1;
}

/* Return 1 if the names in the open directory `fd` are ciphertext because their key is absent (fscrypt), 0 if they are
 * not, -1 if the kernel does not report it. */
static int encryption_hides_names(int fd)
{
    struct fscrypt_get_policy_ex_arg policy = {.policy_size = sizeof policy.policy};
    unsigned int attributes[2] = {0, 0};
    if (!ioctl(fd, FS_IOC_GET_ENCRYPTION_POLICY_EX, &policy))
        /* Version 1 keys may also be in a process' keyring, where the kernel does not report them. */
        return policy.policy.version == FSCRYPT_POLICY_V2 ? key_is_absent(fd, &policy.policy.v2) : -1;
    if (errno == ENODATA)
        return 0;
    return !ioctl(fd, FS_IOC_GETFLAGS, attributes) && attributes[0] & FS_ENCRYPT_FL ? -1 : 0;
}

/* Enter directory `fd` at the current path and record its entries. */
static void enter(struct walk *walk, int fd)
{
    int hidden = encryption_hides_names(fd);
    walk->levels = grow(walk->levels, walk->depth + 1, sizeof *walk->levels);
    struct level *level = &walk->levels[walk->depth++];
    *level = (struct level){.fd = fd, .path_bytes = walk->path_bytes};
    level->names_encrypted = hidden < 0 ? RECORD_NULL_INT32 : hidden;
    read_entries(walk, level);
}

/* Record an entry, and enter it if it is a directory. */
static void visit(struct walk *walk, int above, const char *name, bool directory)
{
    struct statx about;
    int fd = open_entry(above, name, directory ? O_DIRECTORY : 0);
    if (fd < 0) {
        lose_by_errno(walk, errno);
        if (errno != ENOENT)
            record_closed_entry(walk, above, name);
        return;
    }
    if (record_open_entry(walk, fd, &about) == 0 && directory)
        enter(walk, fd);
    else
        close(fd);
}

/* Walk the directories entered so far, and everything below them. */
static void walk_down(struct walk *walk)
{
    while (walk->depth && !walk->error) {
        struct level *level = &walk->levels[walk->depth - 1];
        if (level->next == level->names_bytes) {
            leave(walk);
            continue;
        }
        const char *name = level->names + level->next;
        level->next += strlen(name) + 1;
        set_path(walk, level->path_bytes, name);
        visit(walk, level->fd, name, true);
    }
    while (walk->depth)
        leave(walk);
}

/* -- the filesystem ------------------------------------------------------------------------------------------------ */

static int record_filesystem(struct walk *walk, const struct mount *mount, const struct statx *about)
{
    struct filesystem_row row = {
        .nr_sectors = mounts_device_sectors(about->stx_dev_major, about->stx_dev_minor),
        .listed_ns = clock_now(CLOCK_RECORD),
        .dev = walk->dev,
        .block_bytes = about->stx_blksize,
    };
    struct record_text texts[] = {record_text(mount->fs_type), record_text(mount->source), record_text(mount->point),
                                  record_text(walk->path)};
    if (row.nr_sectors < 0)
        row.nr_sectors = RECORD_NULL_INT64;
    return record_add(walk->out, &filesystem_type, &row, texts);
}

static int begin(struct walk *walk, const char *root, int fd, struct statx *about)
{
    struct mount mount = {0};
    if (statx(fd, "", AT_EMPTY_PATH, ATTRIBUTES, about))
        return print_error("%s: %s", root, strerror(errno));
    walk->dev = kernel_dev(about);
    walk->mount_id = mounts_id(fd, "");
    if (!about->stx_dev_major)
        return print_error("%s: no block device lies below it; name a directory of a disk filesystem", root);
    if (mounts_find(fd, walk->mount_id, &mount))
        return print_error("%s: its mount is not in /proc/self/mountinfo; is /proc mounted?", root);
    walk->path = format("%s", mount.path);
    walk->path_bytes = strlen(mount.path);
    int failed = record_filesystem(walk, &mount, about);
    mounts_release(&mount);
    return failed;
}

static int walk_tree(struct walk *walk, const char *root, int fd)
{
    struct statx about;
    if (begin(walk, root, fd, &about) || record_open_entry(walk, fd, &about)) {
        close(fd);
        return -1;
    }
    enter(walk, fd);
    walk_down(walk);
    return walk->error ? print_error("%s: the listing was not finished (%s)", root, strerror(walk->error)) : 0;
}

/* One directory of each level stays open: the limit of open files is raised for deep trees. */
int extmap_tree(const char *root, struct record *out)
{
    struct walk walk = {.out = out};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
    if (fd < 0 && errno == EPERM)
        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return print_error("%s: cannot be listed (%s)", root, strerror(errno));
    files_allow_most();
    int failed = walk_tree(&walk, root, fd);
    tdestroy(walk.linked, free);
    free(walk.levels);
    free(walk.path);
    return failed ? -1 : record_flush(out);
}
