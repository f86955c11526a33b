/* Reading text files of the kernel. */
#pragma once

#include <stddef.h>

/* Read at most size-1 bytes of `path` and append a NUL. Returns the number of bytes, or -1 with errno set. */
long procfs_read(const char *path, char *buffer, size_t size);

/* Read like procfs_read, but without a newline at the end. */
long procfs_line(const char *path, char *buffer, size_t size);
