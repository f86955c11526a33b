/* Reading the kernel's text files. */
#ifndef ANDROSTEP_COMMON_PROCFS_H
#define ANDROSTEP_COMMON_PROCFS_H

#include <stddef.h>

/*
 * Reads at most size-1 bytes of `path` and ends them with a zero byte. Returns how many, or -1 with errno set.
 */
long procfs_read(const char *path, char *buffer, size_t size);

/* The same without the line end at the end of what was read. */
long procfs_line(const char *path, char *buffer, size_t size);

#endif
