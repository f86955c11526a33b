// Make known system calls for the tests of the reader of strace logs. DIR/account.TID gets a line of JSON for each
// call. Strings are in hex, because they contain every byte that a path may contain.
//
//     strace_workload DIR
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NR_THREADS = 3, NR_ROUNDS = 100, ACCOUNT_BYTES = 1 << 20 };

static const char *directory;
static _Thread_local char *account;
static _Thread_local size_t used;

static void begin_account(void)
{
    account = calloc(1, ACCOUNT_BYTES);
    used = 0;
}

static void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    used += (size_t)vsnprintf(account + used, ACCOUNT_BYTES - used, format, arguments);
    va_end(arguments);
}

static void end_account(void)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/account.%ld", directory, (long)syscall(SYS_gettid));
    file = fopen(path, "w");
    fwrite(account, 1, used, file);
    fclose(file);
    free(account);
}

static void say_text(const char *name, const char *text)
{
    say(", \"%s\": \"", name);
    for (; *text; text++)
        say("%02x", (unsigned char)*text);
    say("\"");
}

// Note a call and its result. Fields follow as pairs of a format and a value, terminated by NULL.
static long did(const char *call, long result)
{
    int error = result == -1 ? errno : 0;

    say("%s{\"call\": \"%s\", \"result\": %ld", used ? "}\n" : "", call, error ? -(long)error : result);
    return result;
}

static long opened(const char *path, int flags, mode_t mode, const char *words)
{
    long fd = did("openat", syscall(SYS_openat, AT_FDCWD, path, flags, mode));

    say(", \"fd\": -100, \"flags\": \"%s\"", words);
    if (flags & O_CREAT)
        say(", \"mode\": %d", (int)mode);
    say_text("path", path);
    return fd;
}

static void at_place(const char *call, long result, long fd, size_t bytes, off_t offset)
{
    did(call, result);
    say(", \"fd\": %ld, \"bytes\": %zu, \"offset_bytes\": %lld", fd, bytes, (long long)offset);
}

static void of_fd(const char *call, long result, long fd)
{
    did(call, result);
    say(", \"fd\": %ld", fd);
}

static void of_bytes(const char *call, long result, long fd, size_t bytes)
{
    of_fd(call, result, fd);
    say(", \"bytes\": %zu", bytes);
}

static void of_paths(const char *call, long result, const char *first, const char *second)
{
    did(call, result);
    say_text("path", first);
    if (second)
        say_text("path2", second);
}

static void marker(const char *name)
{
    of_paths("chdir", syscall(SYS_chdir, name), name, NULL);
}

static void data_calls(void)
{
    char buffer[5000], tricky[64] = "he said \"x, 5) = 7\" <unfinished ...>\n\t\\ \1\377 [pid 5] ";
    struct iovec parts[3] = {{buffer, 10}, {tricky, 20}, {buffer, 3000}};
    long fd = opened("data file", O_RDWR | O_CREAT | O_TRUNC, 0640, "O_RDWR|O_CREAT|O_TRUNC");
    long copy = opened("copy", O_RDWR | O_CREAT | O_EXCL, 0600, "O_RDWR|O_CREAT|O_EXCL");
    off_t from = 100, to = 7;
    void *mapping;

    memset(buffer, 'a', sizeof(buffer));
    of_bytes("write", syscall(SYS_write, fd, tricky, sizeof(tricky)), fd, sizeof(tricky));
    of_bytes("write", syscall(SYS_write, fd, buffer, sizeof(buffer)), fd, sizeof(buffer));
    at_place("pwrite64", syscall(SYS_pwrite64, fd, tricky, 40, (off_t)1 << 33), fd, 40, (off_t)1 << 33);
    at_place("pread64", syscall(SYS_pread64, fd, buffer, 4096, 64), fd, 4096, 64);
    of_bytes("writev", syscall(SYS_writev, fd, parts, 3), fd, 3030);
    at_place("pwritev", syscall(SYS_pwritev, fd, parts, 2, 500, 0), fd, 30, 500);
    at_place("preadv", syscall(SYS_preadv, fd, parts, 3, 0, 0), fd, 3030, 0);
    did("lseek", syscall(SYS_lseek, fd, -40L, SEEK_END));
    say(", \"fd\": %ld, \"offset_bytes\": -40, \"request\": \"SEEK_END\"", fd);
    of_bytes("read", syscall(SYS_read, fd, buffer, 4000), fd, 4000);
    of_bytes("read", syscall(SYS_read, fd, buffer, 4000), fd, 4000);
    of_fd("fsync", syscall(SYS_fsync, fd), fd);
    of_fd("fdatasync", syscall(SYS_fdatasync, fd), fd);
    at_place("sync_file_range", syscall(SYS_sync_file_range, fd, 4096, 8192, 7), fd, 8192, 4096);
    of_bytes("ftruncate", syscall(SYS_ftruncate, fd, 70000), fd, 70000);
    at_place("fallocate", syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, 65536, 4096), fd, 4096, 65536);
    say(", \"flags\": \"FALLOC_FL_KEEP_SIZE\"");
    at_place("fadvise64", syscall(SYS_fadvise64, fd, 0, 4096, POSIX_FADV_DONTNEED), fd, 4096, 0);
    say(", \"request\": \"POSIX_FADV_DONTNEED\"");
    did("copy_file_range", syscall(SYS_copy_file_range, fd, &from, copy, &to, 300, 0));
    say(", \"fd\": %ld, \"fd2\": %ld, \"bytes\": 300, \"offset_bytes\": 100, \"offset2_bytes\": 7", fd, copy);
    from = 11;
    did("sendfile", syscall(SYS_sendfile, copy, fd, &from, 200));
    say(", \"fd\": %ld, \"fd2\": %ld, \"bytes\": 200, \"offset2_bytes\": 11", copy, fd);
    did("dup", syscall(SYS_dup, fd));
    say(", \"fd\": %ld", fd);
    did("dup3", syscall(SYS_dup3, fd, 77, O_CLOEXEC));
    say(", \"fd\": %ld, \"fd2\": 77, \"flags\": \"O_CLOEXEC\"", fd);
    did("fcntl", syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC));
    say(", \"fd\": %ld, \"request\": \"F_SETFD\", \"flags\": \"FD_CLOEXEC\"", fd);
    did("fcntl", syscall(SYS_fcntl, fd, F_DUPFD, 90));
    say(", \"fd\": %ld, \"request\": \"F_DUPFD\", \"flags\": \"90\"", fd);
    mapping = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 4096);
    did("mmap", (long)mapping);
    say(", \"fd\": %ld, \"bytes\": 8192, \"offset_bytes\": 4096, \"request\": \"PROT_READ|PROT_WRITE\"", fd);
    say(", \"flags\": \"MAP_SHARED\"");
    did("msync", syscall(SYS_msync, mapping, 4096, MS_SYNC));
    say(", \"address\": %ld, \"bytes\": 4096, \"flags\": \"MS_SYNC\"", (long)mapping);
    did("munmap", syscall(SYS_munmap, mapping, 8192));
    say(", \"address\": %ld, \"bytes\": 8192", (long)mapping);
    of_fd("close", syscall(SYS_close, fd), fd);
    of_fd("close", syscall(SYS_close, fd), fd);
    of_bytes("read", syscall(SYS_read, 999, buffer, 1), 999, 1);
}

static void name_calls(void)
{
    static const char *const NAMES[] = {"plain",
                                        "with space",
                                        "quote\"s",
                                        "comma, and ) = 5",
                                        "new\nline",
                                        "tab\t\\slash\\",
                                        "\303\244\303\266",
                                        "\377\1",
                                        "a->b",
                                        "<pid 5>",
                                        "{brace",
                                        "[bracket",
                                        "'apostrophe",
                                        "dots...",
                                        "-",
                                        "# comment",
                                        "1234<a>, 7)",
                                        "/* x */",
                                        "<unfinished ...>"};
    struct stat found;
    char link[256];

    for (size_t n = 0; n < sizeof(NAMES) / sizeof(*NAMES); n++) {
        const char *name = NAMES[n];
        char other[256];
        long fd = strcmp(name, "/* x */") ? opened(name, O_WRONLY | O_CREAT, 0644, "O_WRONLY|O_CREAT") : -1;

        snprintf(other, sizeof(other), "%s.2", name);
        of_bytes("write", syscall(SYS_write, fd, name, 3), fd, 3);
        of_paths("rename", syscall(SYS_rename, name, other), name, other);
        of_paths("link", syscall(SYS_link, other, name), other, name);
        of_paths("unlink", syscall(SYS_unlink, name), name, NULL);
        of_bytes("write", syscall(SYS_write, fd, name, 2), fd, 2);
        of_fd("close", syscall(SYS_close, fd), fd);
        did("newfstatat", syscall(SYS_newfstatat, AT_FDCWD, other, &found, 0));
        say(", \"fd\": -100");
        say_text("path", other);
        if (strcmp(name, "/* x */"))
            say(", \"size\": %lld, \"mode\": %d", (long long)found.st_size, (int)found.st_mode);
    }
    of_paths("symlink", syscall(SYS_symlink, "what \"it\" says", "the link"), "what \"it\" says", "the link");
    did("readlink", syscall(SYS_readlink, "the link", link, sizeof(link)));
    say_text("path", "the link");
    say_text("path2", "what \"it\" says");
    did("mkdir", syscall(SYS_mkdir, "folder", 0755));
    say(", \"mode\": 493");
    say_text("path", "folder");
    of_paths("rmdir", syscall(SYS_rmdir, "folder"), "folder", NULL);
    of_paths("rmdir", syscall(SYS_rmdir, "folder"), "folder", NULL);
    did("truncate", syscall(SYS_truncate, "plain.2", 12345));
    say(", \"bytes\": 12345");
    say_text("path", "plain.2");
    did("access", syscall(SYS_access, "nothing", R_OK | W_OK));
    say(", \"flags\": \"R_OK|W_OK\"");
    say_text("path", "nothing");
    did("chmod", syscall(SYS_chmod, "plain.2", 0400));
    say(", \"mode\": 256");
    say_text("path", "plain.2");
    did("unlinkat", syscall(SYS_unlinkat, AT_FDCWD, "plain.2", 0));
    say(", \"fd\": -100, \"flags\": \"0\"");
    say_text("path", "plain.2");
}

static void other_calls(void)
{
    int pair[2];
    long fd;

    did("pipe2", syscall(SYS_pipe2, pair, O_CLOEXEC));
    say(", \"fd\": %d, \"fd2\": %d, \"flags\": \"O_CLOEXEC\"", pair[0], pair[1]);
    of_bytes("write", syscall(SYS_write, pair[1], "x", 1), pair[1], 1);
    of_bytes("read", syscall(SYS_read, pair[0], pair, 1), pair[0], 1);
    did("socketpair", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair));
    say(", \"fd\": %d, \"fd2\": %d, \"request\": \"AF_UNIX\", \"flags\": \"SOCK_STREAM\"", pair[0], pair[1]);
    of_bytes("sendto", syscall(SYS_sendto, pair[0], "abc", 3, MSG_DONTWAIT, NULL, 0), pair[0], 3);
    fd = did("memfd_create", syscall(SYS_memfd_create, "memory", 0));
    say(", \"request\": \"memory\"");
    of_bytes("write", syscall(SYS_write, fd, "abcdef", 6), fd, 6);
    fd = opened("/dev/null", O_WRONLY, 0, "O_WRONLY");
    of_bytes("write", syscall(SYS_write, fd, "abcdef", 6), fd, 6);
    of_fd("close", syscall(SYS_close, fd), fd);
}

static void *thread(void *argument)
{
    char name[64];
    long fd;

    begin_account();
    marker("begin");
    snprintf(name, sizeof(name), "of thread %ld", (long)argument);
    fd = opened(name, O_RDWR | O_CREAT, 0600, "O_RDWR|O_CREAT");
    for (int round = 0; round < NR_ROUNDS; round++) {
        at_place("pwrite64", syscall(SYS_pwrite64, fd, name, sizeof(name), round * 512), fd, sizeof(name), round * 512);
        if (round % 10 == 0)
            of_fd("fsync", syscall(SYS_fsync, fd), fd);
    }
    of_fd("close", syscall(SYS_close, fd), fd);
    marker("end");
    end_account();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[NR_THREADS];
    pid_t child;

    if (argc != 2 || chdir(argv[1]))
        return 2;
    directory = argv[1];
    begin_account();
    marker("begin");
    data_calls();
    name_calls();
    other_calls();
    marker("end");
    end_account();
    for (long n = 0; n < NR_THREADS; n++)
        pthread_create(&threads[n], NULL, thread, (void *)n);
    for (long n = 0; n < NR_THREADS; n++)
        pthread_join(threads[n], NULL);
    child = fork();
    if (!child) {
        thread((void *)(long)NR_THREADS);
        _exit(3);
    }
    waitpid(child, NULL, 0);
    kill(getpid(), SIGURG);
    return 0;
}
