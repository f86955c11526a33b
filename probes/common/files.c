#include "common/base.h"

#include <stdarg.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>

enum { COPY_BYTES = 1 << 20 };

void *grow(void *items, size_t count, size_t size)
{
    void *grown = NULL;
    if (size == 0 || count <= SIZE_MAX / size)
        grown = realloc(items, count && size ? count * size : 1);
    if (!grown)
        exit(-print_error("no memory left for %zu items of %zu bytes", count, size));
    return grown;
}

void *zeroed(size_t count, size_t size)
{
    void *items = calloc(count ? count : 1, size);
    if (!items)
        exit(-print_error("no memory left for %zu items of %zu bytes", count, size));
    return items;
}

void *aligned(size_t alignment, size_t bytes)
{
    void *memory;
    if (bytes == 0)
        bytes = alignment;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        exit(-print_error("no memory left for %zu bytes", bytes));
    return memset(memory, 0, bytes);
}

FILE *memory_open(struct contents *text)
{
    FILE *stream = open_memstream(&text->data, &text->size);
    if (!stream)
        exit(-print_error("no memory left"));
    return stream;
}

void memory_close(FILE *stream)
{
    if (fclose(stream) != 0)
        exit(-print_error("no memory left"));
}

char *format(const char *pattern, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, pattern);
    int length = vasprintf(&text, pattern, arguments);
    va_end(arguments);
    if (length < 0)
        exit(-print_error("no memory left"));
    return text;
}

char *path_in(int dir, const char *name)
{
    return format("/proc/self/fd/%d/%s", dir, name);
}

void close_file(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
}

int files_room(int fd, const char *shown, int64_t bytes)
{
    struct statvfs filesystem;
    int64_t wanted;
    if (fstatvfs(fd, &filesystem) < 0)
        return print_error("%s: %s; its free space cannot be read", shown, strerror(errno));
    int64_t room = (int64_t)filesystem.f_bavail * (int64_t)filesystem.f_frsize;
    if (__builtin_add_overflow(bytes, bytes / 20, &wanted))
        wanted = INT64_MAX;
    return wanted <= room ? 0
                          : print_error("%s: %" PRId64 " bytes are free, but %" PRId64 " are needed; make room", shown,
                                        room, wanted);
}

int device_claim(const char *path, int flags)
{
    int fd = open(path, flags | O_EXCL | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == EBUSY)
        return print_error("%s is in use, mounted or held by another device; unmount it first", path);
    return print_error("%s: %s; it cannot be opened", path, strerror(errno));
}

void files_allow_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max, limit.rlim_max});
}

static ssize_t read_some(int fd, void *into, size_t size)
{
    ssize_t got;
    do
        got = read(fd, into, size);
    while (got < 0 && errno == EINTR);
    return got;
}

int file_read(int dir, const char *path, struct contents *out)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t capacity = 4096;
    struct contents found = {grow(NULL, capacity, 1), 0};
    ssize_t got;
    while ((got = read_some(fd, found.data + found.size, capacity - found.size - 1)) > 0) {
        found.size += (size_t)got;
        if (capacity - found.size < 2) {
            capacity *= 2;
            found.data = grow(found.data, capacity, 1);
        }
    }
    int error = errno;
    close(fd);
    if (got < 0) {
        free(found.data);
        errno = error;
        return -1;
    }
    found.data[found.size] = '\0';
    *out = found;
    return 0;
}

char *file_line(int dir, const char *path)
{
    struct contents file;
    if (file_read(dir, path, &file) < 0)
        return NULL;
    file.data[strcspn(file.data, "\n")] = '\0';
    return file.data;
}

int file_command(int dir, const char *path, const char *text, int flags)
{
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return -1;
    ssize_t length = (ssize_t)strlen(text);
    ssize_t written;
    do
        written = write(fd, text, (size_t)length);
    while (written < 0 && errno == EINTR);
    if (written >= 0)
        errno = EIO;
    close_file(fd);
    return written == length ? 0 : -1;
}

int write_all(int fd, const void *data, size_t size)
{
    const char *next = data;
    while (size > 0) {
        ssize_t written = write(fd, next, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

int file_save(int dir, const char *name, const void *data, size_t size)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int result = fd < 0 ? -1 : write_all(fd, data, size);
    if (result < 0)
        print_error("%s: %s; it cannot be written", name, strerror(errno));
    close_file(fd);
    return result;
}

int file_replace(int dir, const char *name, const void *data, size_t size)
{
    char *new = format("%s.new", name);
    int result = file_save(dir, new, data, size);
    if (result == 0 && renameat(dir, new, dir, name) < 0)
        result = print_error("%s: %s", name, strerror(errno));
    free(new);
    return result;
}

unsigned files_numbered(int dir, const char *name)
{
    for (unsigned nr = 0;; nr++) {
        char *path = format("%s%u", name, nr);
        bool missing = faccessat(dir, path, F_OK, 0) < 0;
        free(path);
        if (missing)
            return nr;
    }
}

static int64_t copy_by_buffer(int from, int to)
{
    char *buffer = grow(NULL, COPY_BYTES, 1);
    int64_t copied = 0;
    ssize_t got;
    while ((got = read_some(from, buffer, COPY_BYTES)) > 0 && write_all(to, buffer, (size_t)got) == 0)
        copied += got;
    int error = errno;
    free(buffer);
    errno = error;
    return got == 0 ? copied : -1;
}

int64_t copy_rest(int from, int to)
{
    int64_t copied = 0;
    for (;;) {
        ssize_t moved = sendfile(to, from, NULL, COPY_BYTES);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved == 0)
            return copied;
        if (moved < 0)
            break;
        copied += moved;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    int64_t rest = copy_by_buffer(from, to);
    return rest < 0 ? -1 : copied + rest;
}

long procfs_read(const char *path, char *buffer, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got;
    if (file < 0)
        return -1;
    while ((got = read_some(file, buffer + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close_file(file);
    buffer[length] = '\0';
    return got < 0 ? -1 : (long)length;
}

long procfs_line(const char *path, char *buffer, size_t size)
{
    long length = procfs_read(path, buffer, size);
    if (length > 0 && buffer[length - 1] == '\n')
        buffer[--length] = '\0';
    return length;
}
