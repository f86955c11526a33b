/* Reading and writing small files of procfs, sysfs and tracefs as a whole, and memory that never fails. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Contents of a file. `data` ends with a NUL that `size` does not count; NULL: nothing was read. */
struct contents {
    char *data;
    size_t size;
};

/* Read all of `path`, relative to directory `dir`. Returns 0, or -1 with errno set and nothing to free. */
int file_read(int dir, const char *path, struct contents *out);

/* Return the first line of a file without its newline (freed by the caller), or NULL if it cannot be read. */
char *file_line(int dir, const char *path);

/* Read at most size-1 bytes of `path` and append a NUL. Returns the number of bytes, or -1 with errno set. */
long procfs_read(const char *path, char *buffer, size_t size);

/* Read like procfs_read, but without a newline at the end. */
long procfs_line(const char *path, char *buffer, size_t size);

/* Write `text` with a single write(2), because tracefs takes each write as one command. `flags` are added to O_WRONLY.
 * Returns 0, or -1 with errno set. */
int file_command(int dir, const char *path, const char *text, int flags);

/* Write `size` bytes to `fd` and continue after short writes. Returns 0, or -1 with errno set. */
int write_all(int fd, const void *data, size_t size);

/* Create or replace file `name` in directory `dir`. Returns -1 after printing an error. */
int file_save(int dir, const char *name, const void *data, size_t size);

/* Likewise, but file `name` is never seen without all of its contents. */
int file_replace(int dir, const char *name, const void *data, size_t size);

/* Return how many files called `name` and a number, from 0, are in directory `dir`. */
unsigned files_numbered(int dir, const char *name);

/* Return a path to `name` in the open directory `dir` that stays valid if the directory is renamed (freed by the
 * caller). */
char *path_in(int dir, const char *name);

/* Copy the rest of `from` to `to`, inside the kernel if possible. Returns the number of bytes, or -1 with errno set. */
int64_t copy_rest(int from, int to);

/* Close a descriptor unless it is negative. Keeps errno. */
void close_file(int fd);

/* Return the result of a system call, or a negative errno. */
static inline int64_t or_errno(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* Check that the filesystem of open file `fd`, called `shown`, has `bytes` free, and a twentieth more. Returns 0, or -1
 * after printing an error. */
int files_room(int fd, const char *shown, int64_t bytes);

/* Open a block device that nothing uses, with these flags and O_EXCL: no mount and no device-mapper can use it until it
 * is closed. Returns -1 after printing an error. */
int device_claim(const char *path, int flags);

/* Raise this process's limit of open files as far as it may. */
void files_allow_most(void);

/* Open a stream to memory, and close it; end the program if memory runs out. text->data is freed by the caller. */
FILE *memory_open(struct contents *text);
void memory_close(FILE *stream);

/* Format like asprintf, but end the program if memory runs out: probes format only short texts. */
__attribute__((format(printf, 1, 2))) char *format(const char *pattern, ...);

/* Reallocate for `count` items of `size` bytes; end the program if memory runs out. */
void *grow(void *items, size_t count, size_t size);

/* Allocate `count` zeroed items of `size` bytes; end the program if memory runs out. */
void *zeroed(size_t count, size_t size);

/* Allocate zeroed bytes, at least one, with this alignment; end the program if memory runs out. */
void *aligned(size_t alignment, size_t bytes);
