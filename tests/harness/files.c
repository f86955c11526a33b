#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stamp.h"

struct file file_open(const char *path, int flags)
{
    uint64_t sequence = flags & O_TRUNC ? oplog_sequence() : 0;
    struct file file = {.fd = open(path, flags | O_CLOEXEC, 0644)};
    must(file.fd >= 0, path);
    file.id = identify(file.fd);
    if (flags & O_TRUNC)
        oplog_write(OPLOG_TRUNCATE, file.id, sequence, 0, 0, NULL, 0);
    struct stat status;
    must(fstat(file.fd, &status) == 0, path);
    file.size = (uint64_t)status.st_size;
    if (!S_ISDIR(status.st_mode))
        oplog_path(OPLOG_OPEN, file.id, path);
    return file;
}

void file_close(struct file *file)
{
    must(close(file->fd) == 0, "close");
    file->fd = -1;
}

static void skip(const char *what)
{
    oplog_path(OPLOG_SKIP, (struct identity){0}, what);
}

int file_space(struct file *file, const char *what, int mode, uint64_t offset, uint64_t length)
{
    int moves = mode == FALLOC_FL_COLLAPSE_RANGE || mode == FALLOC_FL_INSERT_RANGE;
    if (moves)
        oplog_write(mode == FALLOC_FL_COLLAPSE_RANGE ? OPLOG_COLLAPSE : OPLOG_INSERT, file->id, oplog_sequence(),
                    offset, length, NULL, 0);
    uint64_t sequence = oplog_sequence();
    int rc = fallocate(file->fd, mode, (off_t)offset, (off_t)length);
    // EINVAL: the filesystem allocates clusters, and the range is not aligned to them.
    must(rc == 0 || errno == EOPNOTSUPP || (moves && errno == EINVAL), what);
    if (rc == 0 && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        oplog_write(OPLOG_DROP, file->id, sequence, offset, length, NULL, 0);
    if (moves)
        oplog_write(OPLOG_DONE, file->id, oplog_sequence(), 0, rc == 0, NULL, 0);
    if (rc != 0)
        skip(what);
    return rc;
}

int file_link(const char *from, const char *to)
{
    struct stat status;
    must(stat(from, &status) == 0, from);
    int rc = link(from, to);
    must(rc == 0 || errno == EPERM || errno == EOPNOTSUPP, to);
    if (rc == 0)
        oplog_paths(OPLOG_LINK, (struct identity){.ino = status.st_ino}, from, to);
    else
        skip("hard links");
    return rc;
}

void *page_buffer(uint64_t length)
{
    void *buffer = aligned_alloc(PAGE_BYTES, (length + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
    must(buffer != NULL, "memory");
    return buffer;
}

static unsigned char *stamped(struct file *file, uint64_t offset, uint64_t length, uint64_t sequence)
{
    unsigned char *buffer = page_buffer(length);
    stamp_fill(buffer, length, offset, file->id, sequence);
    return buffer;
}

void file_write(struct file *file, uint64_t offset, uint64_t length)
{
    uint64_t sequence = oplog_sequence();
    unsigned char *buffer = stamped(file, offset, length, sequence);
    must(pwrite(file->fd, buffer, length, (off_t)offset) == (ssize_t)length, "pwrite");
    oplog_write(OPLOG_STAMP, file->id, sequence, offset, length, NULL, 0);
    free(buffer);
    if (offset + length > file->size)
        file->size = offset + length;
}

void file_append(struct file *file, uint64_t length)
{
    file_write(file, file->size, length);
}

void file_truncate(struct file *file, uint64_t size)
{
    oplog_write(OPLOG_TRUNCATE, file->id, oplog_sequence(), size, 0, NULL, 0);
    must(ftruncate(file->fd, (off_t)size) == 0, "ftruncate");
    file->size = size;
}

void file_store(struct file *file, unsigned char *mapping, uint64_t offset, uint64_t length)
{
    uint64_t sequence = oplog_sequence();
    stamp_fill(mapping + offset, length, offset, file->id, sequence);
    oplog_write(OPLOG_STORE, file->id, sequence, offset, length, NULL, 0);
}

void file_sync(struct file *file)
{
    must(fsync(file->fd) == 0, "fsync");
}

void file_read(struct file *file, uint64_t length)
{
    unsigned char *buffer = page_buffer(length);
    uint64_t offset = 0;
    ssize_t got;
    do {
        uint64_t sequence = oplog_sequence();
        got = pread(file->fd, buffer, length, (off_t)offset);
        must(got >= 0, "pread");
        oplog_write(OPLOG_READ, file->id, sequence, offset, length, NULL, 0);
        offset += length;
    } while (got > 0);
    free(buffer);
}

void file_forget(struct file *file)
{
    must(posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
}

void file_unlink(const char *path)
{
    struct stat status;
    must(stat(path, &status) == 0, path);
    oplog_path(OPLOG_UNLINK, (struct identity){.ino = status.st_ino}, path);
    must(unlink(path) == 0, path);
}

void file_rename(const char *from, const char *to)
{
    struct stat status;
    must(stat(from, &status) == 0, from);
    oplog_paths(OPLOG_RENAME, (struct identity){.ino = status.st_ino}, from, to);
    must(rename(from, to) == 0, to);
}
