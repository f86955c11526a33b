// File operations that log every change. Paths are relative to the working directory, the root of the filesystem.
#ifndef FILES_H
#define FILES_H

#include <stdint.h>

#include "oplog.h"

#define PAGE_BYTES 4096u

struct file {
    int fd;
    struct identity id;
    uint64_t size; // offset of file_append
};

// Returns memory aligned for O_DIRECT; release it with free().
void *page_buffer(uint64_t length);

struct file file_open(const char *path, int flags);
void file_close(struct file *file);

// Returns 0, or -1 if the filesystem does not support the operation, which is logged.
int file_space(struct file *file, const char *what, int mode, uint64_t offset, uint64_t length);
int file_link(const char *from, const char *to);

void file_write(struct file *file, uint64_t offset, uint64_t length);
void file_append(struct file *file, uint64_t length);
void file_truncate(struct file *file, uint64_t size);

// Stamps a part of the file's mapping, which begins at offset 0.
void file_store(struct file *file, unsigned char *mapping, uint64_t offset, uint64_t length);

void file_sync(struct file *file);

// Reads the whole file, `length` bytes at a time.
void file_read(struct file *file, uint64_t length);

// Drops the clean pages of the file from the page cache.
void file_forget(struct file *file);

void file_unlink(const char *path);
void file_rename(const char *from, const char *to);

#endif
