// Make every kind of system call on files at least once, for the tests that compare recordings of it:
//
//     syscall_workload DIR
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char buffer[4 * PAGE] __attribute__((aligned(PAGE)));

static int opened(const char *path, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void open_in_all_ways(void)
{
    static const int flags[] = {
        O_RDONLY,
        O_WRONLY | O_APPEND,
        O_RDWR | O_TRUNC,
        O_RDWR | O_SYNC,
        O_RDWR | O_DSYNC,
        O_RDWR | O_DIRECT,
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
        O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOATIME,
        O_PATH,
        O_RDONLY | O_ASYNC,
        O_RDWR | 0100000, // O_LARGEFILE, which is 0 in this libc
    };
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640};
    int fd;

    close(opened("file", O_RDWR | O_CREAT | O_EXCL, 0644));
    for (size_t n = 0; n < sizeof(flags) / sizeof(*flags); n++)
        close(opened("file", flags[n], 0777));
    opened("file", O_RDWR | O_CREAT | O_EXCL, 0600);
    opened("nowhere/file", O_RDONLY, 0);
    close(opened(".", O_RDONLY | O_DIRECTORY, 0));
    close(opened(".", O_RDWR | O_TMPFILE, 0600));
    close((int)syscall(SYS_openat2, AT_FDCWD, "file2", &how, sizeof(how)));
#ifdef SYS_open
    close((int)syscall(SYS_open, "file3", O_WRONLY | O_CREAT | O_TRUNC, 0604));
    close((int)syscall(SYS_creat, "file4", 0606));
#endif
    fd = opened("/dev/null", O_RDWR, 0);
    close(fd);
    close(fd);
}

static void move_data(void)
{
    struct iovec parts[2] = {{buffer, 100}, {buffer + PAGE, 200}};
    int fd = opened("file", O_RDWR, 0), copy = opened("copy", O_RDWR | O_CREAT, 0600), ends[2];
    loff_t place = 10;

    write(fd, buffer, sizeof(buffer));
    lseek(fd, -100, SEEK_END);
    read(fd, buffer, 1000);
    read(fd, buffer, 1000);
    lseek(fd, 0, SEEK_DATA);
    lseek(fd, 0, SEEK_HOLE);
    lseek(fd, 7, SEEK_SET);
    lseek(fd, 7, SEEK_CUR);
    lseek(fd, -1, SEEK_SET);
    pwrite(fd, buffer, 33, (off_t)5 << 32);
    pread(fd, buffer, 33, 5000);
    pread(fd, buffer, 33, -5);
    writev(fd, parts, 2);
    readv(fd, parts, 2);
    pwritev(fd, parts, 2, (off_t)3 << 32);
    preadv(fd, parts, 2, 77);
    syscall(SYS_preadv2, fd, parts, 2UL, 88UL, 0UL, RWF_HIPRI);
    syscall(SYS_pwritev2, fd, parts, 1UL, 99UL, 0UL, RWF_SYNC | RWF_DSYNC);
    syscall(SYS_pwritev2, fd, parts, 1UL, -1UL, -1UL, RWF_APPEND);
    read(-1, buffer, 1);
    sendfile(copy, fd, &place, 500);
    syscall(SYS_copy_file_range, fd, NULL, copy, NULL, (size_t)300, 0U);
    syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK);
    syscall(SYS_splice, fd, NULL, ends[1], NULL, (size_t)100, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    syscall(SYS_tee, ends[0], ends[1], (size_t)10, 0U);
    read(ends[0], buffer, 200);
    read(ends[0], buffer, 200); // EAGAIN
    close(ends[0]);
    close(ends[1]);
    syscall(SYS_readahead, fd, (off_t)PAGE, (size_t)PAGE);
    posix_fadvise(fd, 0, 100, POSIX_FADV_WILLNEED);
    posix_fadvise(fd, PAGE, 0, POSIX_FADV_SEQUENTIAL);
    fsync(fd);
    fdatasync(fd);
    syncfs(fd);
    sync_file_range(fd, 0, PAGE, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PAGE);
    fallocate(fd, 0, (off_t)1 << 20, PAGE);
    fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, PAGE);
    ftruncate(fd, 12345);
    ftruncate(fd, (off_t)1 << 33);
    truncate("copy", 77);
    close(fd);
    close(copy);
}

static void use_descriptors(void)
{
    int fd = opened("file", O_RDWR, 0), pair[2];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};

    close(dup(fd));
    dup2(fd, 77);
    syscall(SYS_dup3, fd, 78, O_CLOEXEC);
    syscall(SYS_dup3, fd, 79, 0);
    fcntl(fd, F_DUPFD, 80);
    fcntl(fd, F_DUPFD_CLOEXEC, 81);
    fcntl(fd, F_GETFD);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFD, 0);
    fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK);
    fcntl(fd, F_SETLKW, &lock);
    flock(fd, LOCK_EX | LOCK_NB);
    flock(fd, LOCK_SH);
    flock(fd, LOCK_UN);
    syscall(SYS_close_range, 77U, 81U, 0U);
    syscall(SYS_close_range, 200U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    send(pair[0], "a", 1, MSG_DONTWAIT);
    recv(pair[1], buffer, 10, 0);
    shutdown(pair[0], SHUT_RDWR);
    close(pair[0]);
    close(pair[1]);
    close(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    pair[0] = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(pair[0], EPOLL_CTL_DEL, fd, NULL);
    close(pair[0]);
    close(fd);
}

static void change_names(void)
{
    struct timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};

    mkdirat(AT_FDCWD, "directory", 0750);
#ifdef SYS_open
    mkdir("directory2", 0700);
    rmdir("directory2");
    rename("copy", "renamed");
    link("renamed", "linked");
    symlink("renamed", "symbolic");
    readlink("symbolic", buffer, 100);
    unlink("linked");
    chmod("renamed", 04755);
    access("renamed", R_OK | X_OK);
    access("none", F_OK);
#endif
    renameat(AT_FDCWD, "file2", AT_FDCWD, "directory/file2");
    syscall(SYS_renameat2, AT_FDCWD, "directory/file2", AT_FDCWD, "file", RENAME_NOREPLACE);
    syscall(SYS_renameat2, AT_FDCWD, "directory/file2", AT_FDCWD, "file", RENAME_EXCHANGE);
    linkat(AT_FDCWD, "file", AT_FDCWD, "linked2", 0);
    linkat(AT_FDCWD, "file", AT_FDCWD, "linked3", AT_SYMLINK_FOLLOW);
    symlinkat("target", AT_FDCWD, "symbolic2");
    readlinkat(AT_FDCWD, "symbolic2", buffer, 77);
    unlinkat(AT_FDCWD, "linked2", 0);
    mknodat(AT_FDCWD, "fifo", S_IFIFO | 0622, 0);
    unlinkat(AT_FDCWD, "directory/nothing", 0);
    syscall(SYS_fchmodat, AT_FDCWD, "file", 0640);
    syscall(SYS_faccessat, AT_FDCWD, "file", W_OK);
    fchownat(AT_FDCWD, "symbolic2", 0, 0, AT_SYMLINK_NOFOLLOW);
    utimensat(AT_FDCWD, "symbolic2", times, AT_SYMLINK_NOFOLLOW);
    setxattr("file", "user.a", "b", 1, 0);
    getxattr("file", "user.a", buffer, 10);
    listxattr("file", buffer, 1000);
    removexattr("file", "user.a");
    unlinkat(AT_FDCWD, "directory/file2", 0);
    unlinkat(AT_FDCWD, "directory", AT_REMOVEDIR);
    umask(027);
}

static void look(void)
{
    struct statx about;
    struct statfs of;
    struct stat file;
    int fd = opened("file", O_RDONLY, 0), directory = opened(".", O_RDONLY | O_DIRECTORY, 0);

    syscall(SYS_newfstatat, AT_FDCWD, "file", &file, 0);
    syscall(SYS_newfstatat, fd, "", &file, AT_EMPTY_PATH);
    syscall(SYS_newfstatat, AT_FDCWD, "none", &file, AT_SYMLINK_NOFOLLOW);
    syscall(SYS_fstat, fd, &file);
#ifdef SYS_open
    syscall(SYS_stat, "file", &file);
    syscall(SYS_lstat, "none", &file);
    syscall(SYS_getdents, directory, buffer, 1000U);
#endif
    syscall(SYS_statx, AT_FDCWD, "file", AT_STATX_SYNC_AS_STAT, STATX_BASIC_STATS, &about);
    syscall(SYS_statx, AT_FDCWD, "file", AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC, STATX_SIZE | STATX_INO, &about);
    statfs("file", &of);
    fstatfs(fd, &of);
    syscall(SYS_getdents64, directory, buffer, 4000U);
    syscall(SYS_getcwd, buffer, 4096UL);
    fchdir(directory);
    chdir("none");
    fchmod(fd, 0600);
    fchown(fd, 0, 0);
    close(fd);
    close(directory);
}

static void map(void)
{
    int fd = opened("file", O_RDWR, 0);
    char *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE), *memory;

    msync(shared, PAGE, MS_SYNC);
    msync(shared, PAGE, MS_ASYNC | MS_INVALIDATE);
    madvise(shared, PAGE, MADV_DONTNEED);
    munmap(shared, 2 * PAGE);
    memory = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(memory, PAGE, PROT_READ | PROT_EXEC);
    memory = mremap(memory, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    munmap(memory, 2 * PAGE);
    mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0);
    close((int)syscall(SYS_memfd_create, "memory", 1U /* MFD_CLOEXEC */));
    close(fd);
}

static void *write_in_thread(void *number)
{
    int fd = opened("file", O_WRONLY, 0);

    for (int n = 0; n < 20; n++)
        pwrite(fd, buffer, 10, (intptr_t)number * 1000 + n);
    close(fd);
    return NULL;
}

static void make_tasks(void)
{
    pthread_t threads[2];
    int status;
    pid_t child;

    for (intptr_t n = 0; n < 2; n++)
        pthread_create(&threads[n], NULL, write_in_thread, (void *)n);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (!child) {
        close(opened("file", O_RDONLY, 0));
        syscall(SYS_exit_group, 3);
    }
    waitpid(child, &status, 0);
    child = fork();
    if (!child) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    child = fork();
    if (!child) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    }
    waitpid(child, &status, 0);
}

int main(int argc, char **argv)
{
    if (argc != 2 || chdir(argv[1]))
        return 2;
    open_in_all_ways();
    move_data();
    use_descriptors();
    change_names();
    look();
    map();
    make_tasks();
    sync();
    return 0;
}
