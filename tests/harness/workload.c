// The workload of the truth harness.
//
//    workload prep ROOT LOG SEED SIZE   create the files that exist before the recording; SIZE scales their number
//    workload run ROOT LOG SEED SIZE    run several processes of SIZE rounds each
//    workload mark DEVICE BYTE TEXT     write a block at this offset of the device, bypassing the page cache
//
// ROOT is the filesystem under test, LOG a directory on another one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "oplog.h"
#include "roles.h"
#include "sqlite_vfs.h"

static struct role roles[] = {
    {.comm = "sq.delete", .run = role_sqlite, .argument = "delete"},
    {.comm = "sq.truncate", .run = role_sqlite, .argument = "truncate"},
    {.comm = "sq.persist", .run = role_sqlite, .argument = "persist"},
    {.comm = "sq.memory", .run = role_sqlite, .argument = "memory"},
    {.comm = "sq.off", .run = role_sqlite, .argument = "off"},
    {.comm = "sq.wal", .run = role_sqlite, .argument = "wal"},
    {.comm = "sq.wal.second", .run = role_sqlite, .argument = "wal"},
    {.comm = "files.short", .run = role_short},
    {.comm = "files.append", .run = role_append},
    {.comm = "files.over", .run = role_overwrite},
    {.comm = "files.mapped", .run = role_mapped},
    {.comm = "files.direct", .run = role_direct},
    {.comm = "files.resize", .run = role_resize},
    {.comm = "files.names", .run = role_names},
    {.comm = "files.lazy", .run = role_lazy},
    {.comm = "files.peer", .run = role_peer},
    {.comm = "files.both.a", .run = role_both},
    {.comm = "files.both.b", .run = role_both},
    {.comm = "files.reader", .run = role_reader},
    {.comm = "drops.first", .run = role_first},
    {.comm = "drops.second", .run = role_second},
    {.comm = "drops.third", .run = role_third},
    {.comm = "churn", .run = role_churn},
};

#define NR_ROLES (sizeof(roles) / sizeof(roles[0]))

uint32_t role_random(struct role *role, uint32_t below)
{
    role->random ^= role->random << 13;
    role->random ^= role->random >> 7;
    role->random ^= role->random << 17;
    return (uint32_t)(role->random >> 16) % below;
}

static void seed(struct role *role, uint64_t value)
{
    role->random = (value + 1) * 0x9e3779b97f4a7c15u;
    for (const char *letter = role->comm; *letter; letter++)
        role->random = role->random * 31 + (unsigned char)*letter;
    role->random |= 1;
}

static pid_t begin(struct role *role, const char *root, int rounds)
{
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child > 0)
        return child;
    oplog_begin_child(role->comm);
    sqlite_vfs_register(root);
    role->run(role, rounds);
    oplog_end();
    _exit(0);
}

static void finish(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        must(errno == EINTR, "waitpid");
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process of the workload");
}

// Starts writeback of all data in the middle of the run, by the kernel's threads.
static void write_back(int root_fd)
{
    role_wait_ready(4);
    must(syncfs(root_fd) == 0, "syncfs");
}

// Logs the files that exist at the end.
static void list(const char *path)
{
    DIR *directory = opendir(path);
    must(directory != NULL, path);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char below[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const char *prefix = strcmp(path, ".") == 0 ? "" : path;
        int length = snprintf(below, sizeof(below), "%s%s%s", prefix, *prefix ? "/" : "", entry->d_name);
        must(length > 0 && length < (int)sizeof(below), "path too long");
        struct stat status;
        must(lstat(below, &status) == 0, below);
        if (S_ISDIR(status.st_mode)) {
            list(below);
        } else if (S_ISREG(status.st_mode)) {
            int fd = open(below, O_RDONLY | O_CLOEXEC);
            must(fd >= 0, below);
            oplog_path(OPLOG_LIVE, identify(fd), below);
            close(fd);
        }
    }
    closedir(directory);
}

static void prepare(int root_fd, int rounds)
{
    struct role role = {.comm = "prep"};
    roles_prepare(&role, rounds);
    for (size_t i = 0; i < NR_ROLES; i++) {
        if (roles[i].run == role_sqlite && strcmp(roles[i].comm, "sq.wal.second") != 0)
            sqlite_prepare(roles[i].argument);
    }
    must(syncfs(root_fd) == 0, "syncfs");
}

static void run(int root_fd, const char *root, uint64_t value, int rounds)
{
    pid_t children[NR_ROLES];
    oplog_write(OPLOG_RUN, (struct identity){0}, oplog_sequence(), 0, 0, NULL, 0);
    for (size_t i = 0; i < NR_ROLES; i++) {
        seed(&roles[i], value);
        children[i] = begin(&roles[i], root, rounds);
    }
    write_back(root_fd);
    for (size_t i = 0; i < NR_ROLES; i++)
        finish(children[i]);
    struct role again = {.comm = "files.again"};
    seed(&again, value);
    again.run = role_short;
    finish(begin(&again, root, rounds));
    must(syncfs(root_fd) == 0, "syncfs");
    list(".");
}

static int number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    must(*text && !*end && value >= 0 && value <= INT_MAX, text);
    return (int)value;
}

static int mark(const char *device, const char *byte, const char *text)
{
    char *block = page_buffer(PAGE_BYTES);
    memset(block, 0, PAGE_BYTES);
    snprintf(block, PAGE_BYTES, "%s", text);
    int fd = open(device, O_WRONLY | O_DIRECT | O_CLOEXEC);
    must(fd >= 0, device);
    must(pwrite(fd, block, PAGE_BYTES, atoll(byte)) == PAGE_BYTES && fsync(fd) == 0, device);
    close(fd);
    free(block);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "mark") == 0)
        return mark(argv[2], argv[3], argv[4]);
    int prepares = argc == 6 && strcmp(argv[1], "prep") == 0;
    if (!prepares && !(argc == 6 && strcmp(argv[1], "run") == 0)) {
        fprintf(stderr, "usage: workload prep|run ROOT LOG SEED SIZE, or workload mark DEVICE BYTE TEXT\n");
        return 2;
    }
    int rounds = number(argv[5]);
    char root[PATH_MAX], log[PATH_MAX];
    must(realpath(argv[2], root) != NULL, argv[2]);
    must(realpath(argv[3], log) != NULL, argv[3]);
    oplog_share(log);
    oplog_begin(log);
    sqlite_vfs_register(root);
    int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(root_fd >= 0 && fchdir(root_fd) == 0, root);
    if (prepares)
        prepare(root_fd, rounds);
    else
        run(root_fd, root, (uint64_t)number(argv[4]), rounds);
    close(root_fd);
    oplog_end();
    return 0;
}
