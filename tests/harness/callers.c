// Makes every kind of call that a replay must support, and runs a small SQLite workload.
//
//    callers DIRECTORY   works in a directory without any of the files that it creates
//    callers child FD    the program that it executes: appends to this descriptor
//
// The success of each call is checked, except for calls that must fail.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sqlite3.h"

enum { THREADS = 4, ROUNDS = 30, PAGE_BYTES = 4096 };

static void must(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "callers: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void data_of_a_file(void)
{
    char buffer[PAGE_BYTES] = "data";
    struct iovec pieces[2] = {{buffer, 100}, {buffer, 23}};
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    must(fd >= 0 && write(fd, buffer, 1000) == 1000 && pwrite(fd, buffer, 500, 9000) == 500, "write");
    must(writev(fd, pieces, 2) == 123 && pwritev(fd, pieces, 2, 50) == 123, "writev");
    must(pwritev2(fd, pieces, 1, -1, 0) == 100, "pwritev2");
    must(lseek(fd, 10, SEEK_SET) == 10 && read(fd, buffer, 90) == 90 && pread(fd, buffer, 40, 9000) == 40, "read");
    must(readv(fd, pieces, 2) == 123 && preadv(fd, pieces, 2, 7) == 123 && preadv2(fd, pieces, 1, 3, 0) == 100,
         "readv");
    must(lseek(fd, 0, SEEK_END) == 9500 && read(fd, buffer, 10) == 0, "end of file");
    must(ftruncate(fd, 8000) == 0 && truncate("data", 7000) == 0, "truncate");
    must(fallocate(fd, 0, 0, 16384) == 0, "fallocate");
    must(posix_fadvise(fd, 0, 4096, POSIX_FADV_WILLNEED) == 0 && readahead(fd, 0, 4096) == 0, "fadvise");
    must(fdatasync(fd) == 0 && fsync(fd) == 0 && sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE) == 0, "fsync");
    char *mapped = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE_BYTES);
    must(mapped != MAP_FAILED, "mmap");
    mapped[10] = 'm';
    must(msync(mapped, PAGE_BYTES, MS_SYNC) == 0 && munmap(mapped, PAGE_BYTES) == 0, "msync");
    int copy = open("copy", O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
    off_t from = 100;
    loff_t in = 0;
    must(copy >= 0 && sendfile(copy, fd, &from, 2000) < 0 && errno == EINVAL, "sendfile to a file that appends");
    must(fcntl(copy, F_SETFL, 0) == 0 && sendfile(copy, fd, &from, 2000) == 2000, "sendfile");
    must(copy_file_range(fd, &in, copy, NULL, 300, 0) == 300 && syncfs(copy) == 0, "copy_file_range");
    must(close(copy) == 0 && close(fd) == 0 && close(fd) < 0, "close");
    sync();
}

static void descriptors(void)
{
    int fd = open("data", O_RDWR), second = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    must(fd >= 0 && second >= 0 && high >= 50 && dup2(fd, 40) == 40 && dup3(second, 41, O_CLOEXEC) == 41, "dup");
    must(lseek(fd, 33, SEEK_SET) == 33 && write(41, "by dup3", 7) == 7 && write(high, "by fcntl", 8) == 8, "dups");
    must(close(second) == 0 && close(high) == 0 && close(fd) == 0, "close");
    must(syscall(SYS_close_range, 40, 41, 0) == 0, "close_range");
    int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    must(unnamed >= 0 && write(unnamed, "unnamed", 7) == 7 && close(unnamed) == 0, "O_TMPFILE");
}

static void names(void)
{
    struct stat status;
    struct statx extended;
    struct statfs filesystem;
    char text[PAGE_BYTES], entries[PAGE_BYTES];
    must(mkdir("dir", 0755) == 0 && rename("copy", "dir/moved") == 0 && link("dir/moved", "linked") == 0, "rename");
    must(symlink("dir/moved", "soft") == 0 && readlink("soft", text, sizeof text) == 9, "symlink");
    must(stat("soft", &status) == 0 && lstat("soft", &status) == 0 && access("soft", R_OK) == 0, "stat");
    must(stat("missing", &status) < 0 && open("missing/below", O_RDONLY) < 0 && unlink("missing") < 0, "ENOENT");
    snprintf(text, sizeof text, "%0300d", 0);
    must(open(text, O_RDONLY) < 0 && errno == ENAMETOOLONG && stat("", &status) < 0, "ENAMETOOLONG");
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    must(dir >= 0 && mkdirat(dir, "below", 0700) == 0 && renameat2(dir, "moved", dir, "below/at", 1) == 0, "renameat2");
    must(fstatat(dir, "below/at", &status, 0) == 0 && statx(dir, "", AT_EMPTY_PATH, STATX_ALL, &extended) == 0,
         "statx");
    must(linkat(dir, "below/at", dir, "hard", 0) == 0 && symlinkat("hard", dir, "soft") == 0, "linkat");
    must(readlinkat(dir, "soft", text, sizeof text) == 4 && faccessat(dir, "hard", W_OK, 0) == 0, "readlinkat");
    must(fchmodat(dir, "hard", 0600, 0) == 0 && chmod("linked", 0644) == 0 && fchmod(dir, 0750) == 0, "chmod");
    must(utimensat(dir, "hard", NULL, 0) == 0 && futimens(dir, NULL) == 0, "utimensat");
    must(syscall(SYS_getdents64, dir, entries, sizeof entries) > 0 && statfs("dir", &filesystem) == 0, "getdents64");
    must(fstat(dir, &status) == 0 && fstatfs(dir, &filesystem) == 0, "fstat");
    must(fchdir(dir) == 0 && unlink("hard") == 0 && chdir("..") == 0 && unlinkat(dir, "soft", 0) == 0, "chdir");
    must(unlinkat(dir, "below/at", 0) == 0 && unlinkat(dir, "below", AT_REMOVEDIR) == 0 && close(dir) == 0, "unlinkat");
    must(unlink("soft") == 0 && unlink("linked") == 0 && rmdir("dir") == 0, "unlink");
}

static void no_files(void)
{
    int fds[2];
    char text[8];
    sigset_t signals;
    sigemptyset(&signals);
    must(pipe(fds) == 0 && write(fds[1], "pipe", 4) == 4 && read(fds[0], text, 4) == 4, "pipe");
    must(close(fds[0]) == 0 && close(fds[1]) == 0 && pipe2(fds, O_CLOEXEC) == 0, "pipe2");
    must(close(fds[0]) == 0 && close(fds[1]) == 0, "close");
    int event = eventfd(0, 0), memory = memfd_create("memory", 0), epoll = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), signal = signalfd(-1, &signals, 0);
    int inet = socket(AF_UNIX, SOCK_STREAM, 0), zero = open("/dev/zero", O_RDONLY), of_proc = open("/proc/stat", 0);
    must(event >= 0 && epoll >= 0 && timer >= 0 && signal >= 0 && inet >= 0, "descriptors of no files");
    must(memory >= 0 && write(memory, "memory", 6) == 6, "memfd_create");
    must(zero >= 0 && read(zero, text, 8) == 8 && of_proc >= 0 && read(of_proc, text, 8) == 8, "devices");
    for (int fd = event; fd <= of_proc; fd++)
        close(fd);
}

// Passes a descriptor to a child by a socket. The child writes to it and to an inherited one.
static void processes(void)
{
    int pair[2], inherited = open("inherited", O_RDWR | O_CREAT, 0600), passed = open("passed", O_RDWR | O_CREAT, 0600);
    char byte = 'x', number[12], control[CMSG_SPACE(sizeof(int))] = "";
    struct iovec piece = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    must(inherited >= 0 && passed >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    pid_t child = fork();
    if (child == 0) {
        must(close(passed) == 0 && recvmsg(pair[1], &message, 0) == 1, "recvmsg");
        memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
        must(write(passed, "passed", 6) == 6 && write(inherited, "inherited", 9) == 9, "write of the child");
        snprintf(number, sizeof number, "%d", inherited);
        execl("/proc/self/exe", "callers", "child", number, NULL);
        _exit(1);
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
    int status;
    must(child > 0 && sendmsg(pair[0], &message, 0) == 1 && waitpid(child, &status, 0) == child, "sendmsg");
    must(status == 0 && close(pair[0]) == 0 && close(pair[1]) == 0, "the child");
    must(close(inherited) == 0 && close(passed) == 0, "close");
}

static void *thread(void *argument)
{
    char path[16], page[PAGE_BYTES] = "page";
    snprintf(path, sizeof path, "thread%d", *(int *)argument);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    for (int round = 0; round < ROUNDS; round++)
        must(pwrite(fd, page, sizeof page, (off_t)round * PAGE_BYTES) == PAGE_BYTES, "pwrite of a thread");
    must(fsync(fd) == 0 && close(fd) == 0 && unlink(path) == 0, "a thread");
    return NULL;
}

static void threads(void)
{
    pthread_t running[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        must(pthread_create(&running[i], NULL, thread, &numbers[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(running[i], NULL);
}

static void database(const char *path, const char *mode)
{
    sqlite3 *db;
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", mode);
    must(sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, path);
    must(sqlite3_exec(db, "CREATE TABLE rows (id INTEGER PRIMARY KEY, body)", NULL, NULL, NULL) == SQLITE_OK, "CREATE");
    for (int round = 0; round < ROUNDS; round++)
        must(sqlite3_exec(db, "INSERT INTO rows (body) VALUES (zeroblob(700))", NULL, NULL, NULL) == SQLITE_OK,
             "INSERT");
    must(sqlite3_exec(db, "SELECT sum(length(body)) FROM rows", NULL, NULL, NULL) == SQLITE_OK, "SELECT");
    must(sqlite3_close(db) == SQLITE_OK, "sqlite3_close");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "child") == 0)
        return write(atoi(argv[2]), "executed", 8) == 8 ? 0 : 1;
    must(argc == 2 && chdir(argv[1]) == 0, "usage: callers DIRECTORY");
    data_of_a_file();
    descriptors();
    names();
    no_files();
    processes();
    threads();
    database("delete.db", "DELETE");
    database("wal.db", "WAL");
    return 0;
}
