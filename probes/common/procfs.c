#include "common/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

long procfs_read(const char *path, char *buffer, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 1;
    int error = 0;

    if (file < 0)
        return -1;
    while (got && length < size - 1 && !error) {
        got = read(file, buffer + length, size - 1 - length);
        if (got >= 0)
            length += (size_t)got;
        else if (errno != EINTR)
            error = errno;
    }
    close(file);
    buffer[length] = '\0';
    errno = error;
    return error ? -1 : (long)length;
}

long procfs_line(const char *path, char *buffer, size_t size)
{
    long length = procfs_read(path, buffer, size);

    if (length > 0 && buffer[length - 1] == '\n')
        buffer[--length] = '\0';
    return length;
}
