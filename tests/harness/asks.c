// Reads known pages of files that are not in the cache: asks DIRECTORY (tests/measures/test_readahead_guest.py).
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define PAGE 4096

static char buffer[1 << 20];

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static int opened(const char *name, int flags)
{
    int file = open(name, flags);
    must(file >= 0, name);
    return file;
}

static void look(int file, long page, size_t bytes)
{
    must(pread(file, buffer, bytes, page * PAGE) > 0, "pread");
}

static void touch(int file, const long *pages, size_t count)
{
    volatile const char *map = mmap(NULL, 4 << 20, PROT_READ, MAP_SHARED, file, 0);
    must(map != MAP_FAILED, "mmap");
    for (size_t i = 0; i < count; i++)
        (void)map[pages[i] * PAGE];
}

int main(int argc, char **argv)
{
    must(argc == 2 && chdir(argv[1]) == 0, "usage: asks DIRECTORY");
    look(opened("head", O_RDONLY), 0, PAGE + 1);

    int file = opened("strided", O_RDONLY);
    for (long page = 3; page < 1000; page += 100)
        look(file, page, 100);

    file = opened("whole", O_RDONLY);
    while (read(file, buffer, 65536) > 0)
        ;

    file = opened("beyond", O_RDONLY);
    look(file, 1022, sizeof(buffer)); // the last two pages
    must(pread(file, buffer, 1, 4 << 20) == 0, "end");

    off_t from = 8 * PAGE;
    must(sendfile(opened("/dev/null", O_WRONLY), opened("sent", O_RDONLY), &from, 4 * PAGE) == 4 * PAGE, "sendfile");

    touch(opened("mapped", O_RDONLY), (const long[]){3, 300, 700}, 3);
    must(pwrite(opened("written", O_RDWR), "x", 1, 5 * PAGE) == 1, "pwrite");
    must(readahead(opened("ahead", O_RDONLY), 0, 1 << 20) == 0, "readahead");

    void *aligned = NULL;
    must(!posix_memalign(&aligned, PAGE, PAGE), "posix_memalign");
    must(pread(opened("direct", O_RDONLY | O_DIRECT), aligned, PAGE, 0) == PAGE, "direct");
    return 0;
}
