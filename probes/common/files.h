/* Small files of procfs, sysfs and tracefs, as a whole. */
#ifndef ANDROSTEP_COMMON_FILES_H
#define ANDROSTEP_COMMON_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of a file; `data` ends with a NUL that `size` does not count. NULL data: nothing was read. */
struct contents {
    char *data;
    size_t size;
};

/* Reads `path` below directory `dir` to its end. Returns 0, or -1 with errno set and nothing to free. */
int file_read(int dir, const char *path, struct contents *out);

/* The first line of a file without its newline, for the caller to free; NULL where it cannot be read. */
char *file_line(int dir, const char *path);

/* Writes all of `text` with one write(2), which is what tracefs takes as one command. `flags` go to open(2) beside
 * O_WRONLY. Returns 0, or -1 with errno set. */
int file_command(int dir, const char *path, const char *text, int flags);

/* Writes `size` bytes to `fd`, also where write(2) takes less. Returns 0, or -1 with errno set. */
int write_all(int fd, const void *data, size_t size);

/* Makes file `name` of directory `dir` anew. Returns -1 with a sentence on standard error. */
int file_save(int dir, const char *name, const void *data, size_t size);

/* A path that leads to `name` in open directory `dir` whatever that is called; for the caller to free. */
char *path_in(int dir, const char *name);

/* Takes what the descriptor still has and appends it to `to`, inside the kernel where that is possible. Returns the
 * bytes copied, or -1 with errno set. */
int64_t copy_rest(int from, int to);

/* asprintf that ends the program where there is no memory: what a probe formats is short. */
__attribute__((format(printf, 1, 2))) char *format(const char *pattern, ...);

/* realloc for `count` items of `size` bytes that ends the program where there is no memory. */
void *grow(void *items, size_t count, size_t size);

/* calloc in the same way. */
void *zeroed(size_t count, size_t size);

#endif
