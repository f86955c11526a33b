/*
 * What benchmarks/iotrace.py runs: workloads that cost little themselves, and a recorder to hold iotrace against.
 *
 *   iotrace_load random FILE NR WAIT_NS       NR times: 4 KiB at a random place of FILE, fsync, wait
 *   iotrace_load burst DIR NR PROCESSES       each process writes NR pages of 4 KiB, in turn to 16 files of its own
 *   iotrace_load files DIR NR                 NR times: makes a file of a page in DIR, renames it, deletes it
 *   iotrace_load recorder TRACE_PIPE_RAW OUT  splices one CPU's pages to OUT until SIGUSR1, as trace-cmd's recorders do
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PIPE_BYTES = 1 << 20, FILES = 16, FILE_PAGES = 64 };

static char page[PAGE_BYTES];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void write_page(int fd, long number)
{
    if (pwrite(fd, page, sizeof page, (off_t)number * PAGE_BYTES) != PAGE_BYTES)
        fail("pwrite");
}

static void random_writes(const char *path, long nr, long wait_ns)
{
    const struct timespec wait = {0, wait_ns};
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        fail(path);
    prctl(PR_SET_TIMERSLACK, 1);
    srandom(1);
    while (nr-- > 0) {
        write_page(fd, random() % (status.st_size / PAGE_BYTES));
        if (fsync(fd) < 0)
            fail("fsync");
        if (wait_ns)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
    }
    close(fd);
}

static void write_files(const char *directory, long nr, long process)
{
    int files[FILES];
    for (int i = 0; i < FILES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/burst%ld.%d", directory, process, i);
        files[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (files[i] < 0)
            fail(path);
    }
    for (long i = 0; i < nr; i++)
        write_page(files[i % FILES], i / FILES % FILE_PAGES);
}

static void make_files(const char *directory, long nr)
{
    char first[4096], second[4096];
    while (nr-- > 0) {
        snprintf(first, sizeof first, "%s/made%ld", directory, nr);
        snprintf(second, sizeof second, "%s/renamed%ld", directory, nr);
        int fd = open(first, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
            fail(first);
        write_page(fd, 0);
        close(fd);
        if (rename(first, second) < 0 || unlink(second) < 0)
            fail(second);
    }
}

static void burst(const char *directory, long nr, long processes)
{
    int status, failed = 0;
    for (long process = 0; process < processes; process++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            write_files(directory, nr, process);
            exit(0);
        }
    }
    while (wait(&status) > 0)
        failed |= status;
    if (failed)
        exit(1);
}

static volatile sig_atomic_t ending;

static void end(int number)
{
    (void)number;
    ending = 1;
}

/* Returns false where nothing came: no page is full, or the signal. */
static int move_pages(int raw, const int pipe[2], int out, unsigned flags)
{
    ssize_t got = splice(raw, NULL, pipe[1], NULL, PIPE_BYTES, SPLICE_F_MOVE | flags);
    for (ssize_t rest = got; rest > 0;) {
        ssize_t moved = splice(pipe[0], NULL, out, NULL, (size_t)rest, SPLICE_F_MOVE);
        if (moved <= 0 && errno != EINTR)
            fail("splice");
        rest -= moved > 0 ? moved : 0;
    }
    return got > 0;
}

static void recorder(const char *source, const char *target)
{
    const struct sigaction action = {.sa_handler = end};
    int raw = open(source, O_RDONLY | O_CLOEXEC), pipe[2];
    int out = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t got;
    if (raw < 0 || out < 0 || pipe2(pipe, O_CLOEXEC) < 0 || fcntl(pipe[1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
        fail(source);
    sigaction(SIGUSR1, &action, NULL);
    while (!ending)
        move_pages(raw, pipe, out, 0);
    while (move_pages(raw, pipe, out, SPLICE_F_NONBLOCK))
        ;
    fcntl(raw, F_SETFL, O_NONBLOCK);
    while ((got = read(raw, page, sizeof page)) > 0)
        if (write(out, page, (size_t)got) != got)
            fail(target);
}

int main(int argc, char **argv)
{
    memset(page, 'x', sizeof page);
    if (argc == 5 && strcmp(argv[1], "random") == 0)
        random_writes(argv[2], atol(argv[3]), atol(argv[4]));
    else if (argc == 5 && strcmp(argv[1], "burst") == 0)
        burst(argv[2], atol(argv[3]), atol(argv[4]));
    else if (argc == 4 && strcmp(argv[1], "files") == 0)
        make_files(argv[2], atol(argv[3]));
    else if (argc == 4 && strcmp(argv[1], "recorder") == 0)
        recorder(argv[2], argv[3]);
    else
        return 2;
    return 0;
}
