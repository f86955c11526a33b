#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "roles.h"

#define NAME_BYTES 64
#define FILE_BYTES (8 * PAGE_BYTES)
#define MID_BYTES  (4 * PAGE_BYTES)
#define CREATE     (O_RDWR | O_CREAT)

static const char *const drops[] = {"nothing", "open",     "truncate", "cut",     "punch",
                                    "zero",    "collapse", "advise",   "recreate"};
static const char *const stores[] = {"map", "direct", "write"};

#define NR_DROPS  (sizeof(drops) / sizeof(drops[0]))
#define NR_STORES (sizeof(stores) / sizeof(stores[0]))
#define NR_FILES  (NR_DROPS * NR_STORES)

static void name(char path[NAME_BYTES], size_t number)
{
    snprintf(path, NAME_BYTES, "dropped/%s.%s", drops[number / NR_STORES], stores[number % NR_STORES]);
}

// Waits for this one of the three steps of each file.
static void await(size_t step)
{
    for (int waited_ms = 0; shared->step != step; waited_ms += 1) {
        must(waited_ms < 60000, "wait for the other roles of dropped/");
        usleep(1000);
    }
}

static struct file drop(const char *path, size_t number)
{
    const char *how = drops[number / NR_STORES];
    if (how[0] == 'r')
        file_unlink(path);
    struct file file = file_open(path, how[0] == 'o' ? CREATE | O_TRUNC : CREATE);
    switch (how[0]) {
    case 't':
        file_truncate(&file, 0);
        break;
    case 'a':
        posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
        break;
    case 'p':
        file_space(&file, how, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MID_BYTES);
        break;
    case 'z':
        file_space(&file, how, FALLOC_FL_ZERO_RANGE, 0, MID_BYTES);
        break;
    case 'c':
        if (how[1] == 'u') {
            file_truncate(&file, MID_BYTES / 2 + PAGE_BYTES / 2);
            break;
        }
        file_sync(&file); // the call writes back the moved range, and whether it has moved by then is unknown
        file_space(&file, how, FALLOC_FL_COLLAPSE_RANGE, 0, MID_BYTES);
        break;
    }
    file_truncate(&file, FILE_BYTES);
    return file;
}

static void store(struct file *file, const char *path, const char *how)
{
    if (how[0] == 'm') {
        unsigned char *mapping = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
        must(mapping != MAP_FAILED, "mmap");
        for (uint64_t offset = 0; offset < MID_BYTES; offset += PAGE_BYTES)
            file_store(file, mapping, offset, PAGE_BYTES);
        munmap(mapping, FILE_BYTES);
    } else if (how[0] == 'd') {
        struct file direct = file_open(path, O_RDWR | O_DIRECT);
        file_write(&direct, 0, MID_BYTES);
        file_close(&direct);
    } else {
        file_write(file, 0, MID_BYTES);
    }
}

void role_first(struct role *role, int rounds)
{
    (void)role;
    (void)rounds;
    for (size_t i = 0; i < NR_FILES; i++) {
        char path[NAME_BYTES];
        name(path, i);
        await(3 * i);
        struct file file = file_open(path, CREATE);
        file_write(&file, 0, FILE_BYTES);
        file_close(&file);
        shared->step++;
    }
}

void role_second(struct role *role, int rounds)
{
    (void)role;
    (void)rounds;
    for (size_t i = 0; i < NR_FILES; i++) {
        char path[NAME_BYTES];
        name(path, i);
        await(3 * i + 1);
        struct file file = drop(path, i);
        store(&file, path, stores[i % NR_STORES]);
        file_close(&file);
        shared->step++;
    }
}

void role_third(struct role *role, int rounds)
{
    (void)role;
    (void)rounds;
    for (size_t i = 0; i < NR_FILES; i++) {
        char path[NAME_BYTES];
        name(path, i);
        await(3 * i + 2);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        must(fd >= 0 && fsync(fd) == 0, path);
        close(fd);
        shared->step++;
    }
}
