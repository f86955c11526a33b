#include <fcntl.h>
#include <linux/falloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "roles.h"

#define NAME_BYTES  64
#define CREATE      (O_RDWR | O_CREAT)
#define CREATE_NEW  (O_RDWR | O_CREAT | O_EXCL)
#define BASE_PAGES  64
#define LAZY_FILES  8
#define SPACE_BYTES (64 * PAGE_BYTES)

static void name(char path[NAME_BYTES], const char *format, int number)
{
    snprintf(path, NAME_BYTES, format, number);
}

static void directory(const char *path)
{
    must(mkdir(path, 0755) == 0, path);
}

void roles_prepare(struct role *role, int rounds)
{
    (void)role;
    directory("base");
    directory("short");
    directory("log");
    directory("space");
    directory("tree");
    directory("lazy");
    directory("shared");
    directory("db");
    directory("dropped");
    directory("churn");
    for (int i = 0; i < 4; i++) {
        char path[NAME_BYTES];
        name(path, "base/file%d", i);
        struct file file = file_open(path, CREATE_NEW);
        for (int page = 0; page < BASE_PAGES; page++)
            file_append(&file, PAGE_BYTES);
        file_close(&file);
    }
    for (int i = 0; i < rounds; i++) {
        char path[NAME_BYTES];
        name(path, "base/small%d", i);
        struct file file = file_open(path, CREATE_NEW);
        file_append(&file, 5000);
        file_close(&file);
    }
}

// Creates short-lived files, whose inodes and blocks are reused.
void role_short(struct role *role, int rounds)
{
    for (int i = 0; i < 4 * rounds; i++) {
        char path[NAME_BYTES], kept[NAME_BYTES];
        name(path, "short/pending%d.tmp", i % 5);
        struct file file = file_open(path, CREATE_NEW);
        file_append(&file, 128 + role_random(role, 12000));
        file_append(&file, 128 + role_random(role, 6000));
        if (role_random(role, 2)) {
            file_sync(&file);
            file_forget(&file);
            file_read(&file, 3 * PAGE_BYTES);
        }
        file_close(&file);
        if (role_random(role, 3) == 0) {
            name(kept, "short/kept%d.xml", (int)role_random(role, 6));
            file_rename(path, kept);
        } else {
            file_unlink(path);
        }
    }
}

// Appends to a log in odd sizes, and rotates it over its predecessor.
void role_append(struct role *role, int rounds)
{
    struct file file = file_open("log/app.log", CREATE);
    for (int i = 0; i < 12 * rounds; i++) {
        file_append(&file, 128 + role_random(role, 2800));
        if (role_random(role, 5) == 0)
            file_sync(&file);
        if (i % (5 * rounds) == 5 * rounds - 1) {
            file_close(&file);
            file_rename("log/app.log", "log/app.log.1");
            file = file_open("log/app.log", CREATE);
        }
    }
    file_close(&file);
}

// Overwrites pages of files that were on disk before the recording.
void role_overwrite(struct role *role, int rounds)
{
    struct file file = file_open("base/file0", O_RDWR);
    for (int i = 0; i < 8 * rounds; i++) {
        uint64_t offset = role_random(role, BASE_PAGES) * PAGE_BYTES;
        if (role_random(role, 2))
            file_write(&file, offset, PAGE_BYTES);
        else
            file_write(&file, offset + role_random(role, 2048), 256 + role_random(role, 1024));
        if (role_random(role, 6) == 0)
            file_sync(&file);
    }
    file_close(&file);
    for (int i = 0; i < rounds; i += 2) {
        char path[NAME_BYTES];
        name(path, "base/small%d", i);
        file_unlink(path);
    }
}

static void synced(struct file *file, void *mapping)
{
    uint64_t sequence = oplog_sequence();
    must(msync(mapping, SPACE_BYTES / 2, MS_SYNC) == 0, "msync");
    oplog_write(OPLOG_SYNC, file->id, sequence, 0, 0, "msync", strlen("msync"));
}

// Stores through a mapping. Half of the stores are left to writeback.
void role_mapped(struct role *role, int rounds)
{
    struct file file = file_open("base/mapped", CREATE_NEW);
    file_truncate(&file, SPACE_BYTES);
    unsigned char *mapping = mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    must(mapping != MAP_FAILED, "mmap");
    for (int i = 0; i < 10 * rounds; i++) {
        uint64_t offset = role_random(role, SPACE_BYTES / PAGE_BYTES / 2) * PAGE_BYTES;
        uint64_t half = role_random(role, 2) * (SPACE_BYTES / 2);
        file_store(&file, mapping, half + offset, role_random(role, 2) ? PAGE_BYTES : 320);
        if (role_random(role, 5) == 0)
            synced(&file, mapping);
    }
    munmap(mapping, SPACE_BYTES);
    file_close(&file);
}

// Writes new blocks with O_DIRECT, then the same ones again.
void role_direct(struct role *role, int rounds)
{
    struct file file = file_open("base/direct", CREATE_NEW | O_DIRECT);
    for (int i = 0; i < 2 * rounds; i++)
        file_append(&file, (1 + role_random(role, 8)) * PAGE_BYTES);
    for (int i = 0; i < 3 * rounds; i++)
        file_write(&file, role_random(role, (uint32_t)(file.size / PAGE_BYTES)) * PAGE_BYTES, PAGE_BYTES);
    file_sync(&file);
    file_read(&file, 16 * PAGE_BYTES);
    file_close(&file);
}

// Rewrites whole pages, because moved content has a stamp of its former offset.
static void rewrite(struct file *file)
{
    uint64_t pages = file->size / PAGE_BYTES;
    file_write(file, 0, pages * PAGE_BYTES);
}

static void holes(struct role *role, struct file *file)
{
    uint64_t offset = (4 + role_random(role, 16)) * PAGE_BYTES;
    file_space(file, "punch hole", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, 4 * PAGE_BYTES);
    file_space(file, "zero range", FALLOC_FL_ZERO_RANGE, offset + 8 * PAGE_BYTES, 4 * PAGE_BYTES);
    file_write(file, offset + PAGE_BYTES, PAGE_BYTES);
    file_write(file, offset + 9 * PAGE_BYTES, 2 * PAGE_BYTES);
    file_sync(file);
}

static void moves(struct file *file)
{
    file_sync(file);
    if (file_space(file, "collapse range", FALLOC_FL_COLLAPSE_RANGE, 2 * PAGE_BYTES, 3 * PAGE_BYTES) == 0)
        file->size -= 3 * PAGE_BYTES;
    if (file_space(file, "insert range", FALLOC_FL_INSERT_RANGE, 5 * PAGE_BYTES, 2 * PAGE_BYTES) == 0)
        file->size += 2 * PAGE_BYTES;
    rewrite(file);
}

// Allocates and frees space within one file.
void role_resize(struct role *role, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        char path[NAME_BYTES];
        name(path, "space/file%d", i % 3);
        struct file file = file_open(path, CREATE);
        file_truncate(&file, 0);
        file_write(&file, 0, SPACE_BYTES / 2);
        file_sync(&file);
        file_truncate(&file, 12 * PAGE_BYTES + role_random(role, 4000));
        file_truncate(&file, SPACE_BYTES / 2);
        file_write(&file, 24 * PAGE_BYTES, 3 * PAGE_BYTES);
        if (i % 3 == 1) {
            file_sync(&file);
            holes(role, &file);
        }
        if (i % 3 == 2)
            moves(&file);
        if (file_space(&file, "fallocate", FALLOC_FL_KEEP_SIZE, file.size, 8 * PAGE_BYTES) == 0)
            file_append(&file, 3 * PAGE_BYTES);
        if (file_space(&file, "fallocate", 0, file.size, 4 * PAGE_BYTES) == 0)
            file_write(&file, file.size + PAGE_BYTES, PAGE_BYTES);
        if (role_random(role, 2))
            file_sync(&file);
        file_close(&file);
    }
}

static void fill_directory(const char *format, int files)
{
    for (int i = 0; i < files; i++) {
        char path[NAME_BYTES];
        name(path, format, i);
        struct file file = file_open(path, CREATE_NEW);
        if (i % 8 == 0)
            file_append(&file, PAGE_BYTES);
        file_close(&file);
    }
}

static void unlinked_while_open(int number)
{
    char path[NAME_BYTES];
    name(path, "tree/open%d", number);
    struct file file = file_open(path, CREATE_NEW);
    file_append(&file, 2 * PAGE_BYTES);
    file_unlink(path);
    file_append(&file, 3 * PAGE_BYTES);
    file_sync(&file);
    file_close(&file);
}

static void linked_twice(int number)
{
    char path[NAME_BYTES], other[NAME_BYTES];
    name(path, "tree/one%d", number);
    name(other, "tree/other%d", number);
    struct file file = file_open(path, CREATE_NEW);
    file_append(&file, PAGE_BYTES);
    file_sync(&file);
    if (file_link(path, other) == 0)
        file_unlink(path);
    file_append(&file, PAGE_BYTES);
    file_sync(&file);
    file_close(&file);
}

// Grows and renames directories, and moves names between files.
void role_names(struct role *role, int rounds)
{
    directory("tree/grows");
    fill_directory("tree/grows/a_rather_long_name_of_an_empty_file_%04d", 16 * rounds);
    file_rename("tree/grows", "tree/renamed");
    fill_directory("tree/renamed/late_%04d", 2 * rounds);
    for (int i = 0; i < rounds; i++) {
        char path[NAME_BYTES];
        name(path, "tree/renamed/a_rather_long_name_of_an_empty_file_%04d", (int)role_random(role, 8) + 8 * i);
        file_unlink(path);
        unlinked_while_open(i);
        linked_twice(i);
    }
    directory("tree/gone");
    must(rmdir("tree/gone") == 0, "tree/gone");
}

// Writes without sync. This process is the dirtier, whichever thread writes the pages back.
void role_lazy(struct role *role, int rounds)
{
    for (int i = 0; i < LAZY_FILES; i++) {
        char path[NAME_BYTES];
        name(path, "lazy/file%d", i);
        struct file file = file_open(path, CREATE_NEW);
        for (int k = 0; k < rounds; k++)
            file_append(&file, 2048 + role_random(role, 3 * PAGE_BYTES));
        file_close(&file);
        shared->ready++;
        usleep(20000);
    }
}

void role_wait_ready(uint32_t files)
{
    for (int waited_ms = 0; shared->ready < files; waited_ms += 2) {
        must(waited_ms < 60000, "wait for files of files.lazy");
        usleep(2000);
    }
}

// Syncs files that another process wrote.
void role_peer(struct role *role, int rounds)
{
    (void)role;
    (void)rounds;
    for (uint32_t i = 0; i < LAZY_FILES; i += 2) {
        role_wait_ready(i + 1);
        char path[NAME_BYTES];
        name(path, "lazy/file%d", (int)i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        must(fd >= 0 && fsync(fd) == 0, path);
        close(fd);
    }
}

static void lock(void)
{
    while (atomic_exchange(&shared->turn, 1) != 0)
        usleep(500);
}

static void unlock(void)
{
    shared->turn = 0;
}

// Writes halves of pages of which another process writes the other halves.
void role_both(struct role *role, int rounds)
{
    struct file file = file_open("shared/both", CREATE);
    for (int i = 0; i < 6 * rounds; i++) {
        uint64_t offset = role_random(role, 8) * PAGE_BYTES + role_random(role, 2) * PAGE_BYTES / 2;
        lock();
        file_write(&file, offset, PAGE_BYTES / 2);
        unlock();
        if (role_random(role, 6) == 0)
            file_sync(&file);
    }
    file_close(&file);
}

// Reads in every way.
void role_reader(struct role *role, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        char path[NAME_BYTES];
        name(path, "base/file%d", 1 + (int)role_random(role, 3));
        struct file file = file_open(path, O_RDONLY);
        file_forget(&file);
        unsigned char *mapping = mmap(NULL, BASE_PAGES * PAGE_BYTES, PROT_READ, MAP_SHARED, file.fd, 0);
        must(mapping != MAP_FAILED, path);
        uint64_t offset = role_random(role, BASE_PAGES) * PAGE_BYTES;
        uint64_t sequence = oplog_sequence();
        volatile unsigned char byte = mapping[offset];
        (void)byte;
        oplog_write(OPLOG_READ, file.id, sequence, offset, 1, NULL, 0);
        munmap(mapping, BASE_PAGES * PAGE_BYTES);
        file_close(&file);
        file = file_open(path, O_RDONLY | (i % 3 == 0 ? O_DIRECT : 0));
        file_read(&file, 8 * PAGE_BYTES);
        file_close(&file);
    }
}
