// Files whose every change is logged. Paths are relative to the working directory, the root of the filesystem.
#ifndef FILES_H
#define FILES_H

#include <stdint.h>

#include "oplog.h"

#define PAGE_BYTES 4096u

struct file {
    int fd;
    struct identity id;
    uint64_t size; // where file_append writes
};

// Memory that O_DIRECT takes; free() gives it back.
void *page_buffer(uint64_t length);

struct file file_open(const char *path, int flags);
void file_close(struct file *file);

// Each returns 0, or -1 where the filesystem does not support it, which is logged.
int file_space(struct file *file, const char *what, int mode, uint64_t offset, uint64_t length);
int file_link(const char *from, const char *to);

void file_write(struct file *file, uint64_t offset, uint64_t length);
void file_append(struct file *file, uint64_t length);
void file_truncate(struct file *file, uint64_t size);

// Stamps part of the file's mapping of `mapping`, which begins at offset 0.
void file_store(struct file *file, unsigned char *mapping, uint64_t offset, uint64_t length);

void file_sync(struct file *file);

// Reads all of it, as many bytes at a time.
void file_read(struct file *file, uint64_t length);

// What is on the disk leaves the page cache.
void file_forget(struct file *file);

void file_unlink(const char *path);
void file_rename(const char *from, const char *to);

#endif
