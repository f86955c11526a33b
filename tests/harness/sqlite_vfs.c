#include "sqlite_vfs.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "oplog.h"
#include "sqlite3.h"

#define SHM_REGIONS 8

struct logged_file {
    sqlite3_file base;
    struct identity id;
    struct identity shm_id;
    char *path; // absolute; NULL for a file without a name
    void *region[SHM_REGIONS];
    int region_bytes;
    sqlite3_file real[]; // of the wrapped VFS
};

static sqlite3_vfs *unix_vfs;
static char root_prefix[PATH_MAX];

static const char *relative(const char *path)
{
    size_t length = strlen(root_prefix);
    return strncmp(path, root_prefix, length) == 0 ? path + length : path;
}

// Returns an open descriptor of `path`. Opening and closing the file again would drop SQLite's locks on it.
static int descriptor_of(const char *path)
{
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL, "/proc/self/fd");
    int found = -1;
    for (struct dirent *entry = readdir(directory); entry && found < 0; entry = readdir(directory)) {
        char target[PATH_MAX];
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (strcmp(target, path) == 0)
            found = atoi(entry->d_name);
    }
    closedir(directory);
    return found;
}

static struct identity identity_of(const char *path)
{
    int fd = descriptor_of(path);
    return fd < 0 ? (struct identity){0} : identify(fd);
}

static void snapshot_shm(struct logged_file *file)
{
    for (int i = 0; i < SHM_REGIONS; i++) {
        if (file->region[i])
            oplog_write(OPLOG_SNAPSHOT, file->shm_id, oplog_sequence(), (uint64_t)i * (uint64_t)file->region_bytes,
                        (uint64_t)file->region_bytes, file->region[i], (size_t)file->region_bytes);
    }
}

static int logged_close(sqlite3_file *base)
{
    struct logged_file *file = (struct logged_file *)base;
    int rc = file->real->pMethods->xClose(file->real);
    free(file->path);
    file->path = NULL;
    return rc;
}

static int logged_read(sqlite3_file *base, void *buffer, int length, sqlite3_int64 offset)
{
    struct logged_file *file = (struct logged_file *)base;
    uint64_t sequence = oplog_sequence();
    int rc = file->real->pMethods->xRead(file->real, buffer, length, offset);
    oplog_write(OPLOG_READ, file->id, sequence, (uint64_t)offset, (uint64_t)length, NULL, 0);
    return rc;
}

static int logged_write(sqlite3_file *base, const void *buffer, int length, sqlite3_int64 offset)
{
    struct logged_file *file = (struct logged_file *)base;
    uint64_t sequence = oplog_sequence();
    int rc = file->real->pMethods->xWrite(file->real, buffer, length, offset);
    oplog_write(OPLOG_DATA, file->id, sequence, (uint64_t)offset, (uint64_t)length, buffer, (size_t)length);
    return rc;
}

static int logged_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct logged_file *file = (struct logged_file *)base;
    oplog_write(OPLOG_TRUNCATE, file->id, oplog_sequence(), (uint64_t)size, 0, NULL, 0);
    return file->real->pMethods->xTruncate(file->real, size);
}

static int logged_sync(sqlite3_file *base, int flags)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xSync(real, flags);
}

static int logged_size(sqlite3_file *base, sqlite3_int64 *size)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xFileSize(real, size);
}

static int logged_lock(sqlite3_file *base, int level)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xLock(real, level);
}

static int logged_unlock(sqlite3_file *base, int level)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xUnlock(real, level);
}

static int logged_check_lock(sqlite3_file *base, int *reserved)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xCheckReservedLock(real, reserved);
}

static int logged_control(sqlite3_file *base, int op, void *argument)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xFileControl(real, op, argument);
}

static int logged_sector_size(sqlite3_file *base)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xSectorSize(real);
}

static int logged_characteristics(sqlite3_file *base)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    return real->pMethods->xDeviceCharacteristics(real);
}

static void identify_shm(struct logged_file *file)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s-shm", file->path);
    must(length > 0 && length < (int)sizeof(path), "path too long");
    file->shm_id = identity_of(path);
    oplog_path(OPLOG_OPEN, file->shm_id, relative(path));
}

static int logged_shm_map(sqlite3_file *base, int region, int bytes, int extend, void volatile **mapped)
{
    struct logged_file *file = (struct logged_file *)base;
    int rc = file->real->pMethods->xShmMap(file->real, region, bytes, extend, mapped);
    if (rc == SQLITE_OK && *mapped) {
        must(region < SHM_REGIONS, "more of -shm than expected");
        if (!file->shm_id.ino)
            identify_shm(file);
        file->region[region] = (void *)*mapped;
        file->region_bytes = bytes;
    }
    return rc;
}

static int logged_shm_lock(sqlite3_file *base, int offset, int n, int flags)
{
    struct logged_file *file = (struct logged_file *)base;
    if ((flags & SQLITE_SHM_UNLOCK) && (flags & SQLITE_SHM_EXCLUSIVE))
        snapshot_shm(file);
    return file->real->pMethods->xShmLock(file->real, offset, n, flags);
}

static void logged_shm_barrier(sqlite3_file *base)
{
    sqlite3_file *real = ((struct logged_file *)base)->real;
    real->pMethods->xShmBarrier(real);
}

static int logged_shm_unmap(sqlite3_file *base, int delete)
{
    struct logged_file *file = (struct logged_file *)base;
    snapshot_shm(file);
    memset(file->region, 0, sizeof(file->region));
    file->shm_id = (struct identity){0};
    return file->real->pMethods->xShmUnmap(file->real, delete);
}

static const sqlite3_io_methods logged_methods = {
    .iVersion = 2,
    .xClose = logged_close,
    .xRead = logged_read,
    .xWrite = logged_write,
    .xTruncate = logged_truncate,
    .xSync = logged_sync,
    .xFileSize = logged_size,
    .xLock = logged_lock,
    .xUnlock = logged_unlock,
    .xCheckReservedLock = logged_check_lock,
    .xFileControl = logged_control,
    .xSectorSize = logged_sector_size,
    .xDeviceCharacteristics = logged_characteristics,
    .xShmMap = logged_shm_map,
    .xShmLock = logged_shm_lock,
    .xShmBarrier = logged_shm_barrier,
    .xShmUnmap = logged_shm_unmap,
};

static int logged_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags, int *out_flags)
{
    (void)vfs;
    struct logged_file *file = (struct logged_file *)base;
    memset(file, 0, sizeof(*file));
    int rc = unix_vfs->xOpen(unix_vfs, path, file->real, flags, out_flags);
    if (rc != SQLITE_OK)
        return rc;
    file->base.pMethods = &logged_methods;
    if (path) {
        file->path = strdup(path);
        file->id = identity_of(path);
        oplog_path(OPLOG_OPEN, file->id, relative(path));
    }
    return rc;
}

static int logged_delete(sqlite3_vfs *vfs, const char *path, int sync_directory)
{
    (void)vfs;
    struct stat status;
    if (stat(path, &status) == 0)
        oplog_path(OPLOG_UNLINK, (struct identity){.ino = status.st_ino}, relative(path));
    return unix_vfs->xDelete(unix_vfs, path, sync_directory);
}

void sqlite_vfs_register(const char *root)
{
    static sqlite3_vfs logged;
    must(realpath(root, root_prefix) != NULL && strlen(root_prefix) + 1 < sizeof(root_prefix), root);
    strncat(root_prefix, "/", sizeof(root_prefix) - strlen(root_prefix) - 1);
    unix_vfs = sqlite3_vfs_find("unix");
    must(unix_vfs != NULL, "SQLite's VFS for Unix");
    logged = *unix_vfs;
    logged.zName = SQLITE_VFS_NAME;
    logged.szOsFile = unix_vfs->szOsFile + (int)sizeof(struct logged_file);
    logged.xOpen = logged_open;
    logged.xDelete = logged_delete;
    must(sqlite3_vfs_register(&logged, 0) == SQLITE_OK, "registration of the VFS");
}
