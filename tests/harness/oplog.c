#include "oplog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shared *shared;

static FILE *out;
static char log_directory[PATH_MAX];
static uint64_t began_ns;

void must(int ok, const char *what)
{
    if (ok)
        return;
    char comm[17] = "";
    prctl(PR_GET_NAME, comm);
    fprintf(stderr, "workload: %s: %s: %s\n", comm, what, strerror(errno));
    exit(1);
}

static void in_directory(char path[PATH_MAX], const char *directory, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    must(length > 0 && length < PATH_MAX, "path too long");
}

void oplog_share(const char *directory)
{
    char path[PATH_MAX];
    in_directory(path, directory, "shared");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0 && ftruncate(fd, sizeof(*shared)) == 0, path);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(shared != MAP_FAILED, path);
    close(fd);
}

void oplog_begin(const char *directory)
{
    char path[PATH_MAX], name[32];
    if (directory != log_directory)
        snprintf(log_directory, sizeof(log_directory), "%s", directory);
    snprintf(name, sizeof(name), "%d.log", getpid());
    in_directory(path, directory, name);
    out = fopen(path, "ae");
    must(out != NULL && setvbuf(out, NULL, _IOFBF, 1 << 20) == 0, path);
}

void oplog_begin_child(const char *comm)
{
    prctl(PR_SET_NAME, comm);
    oplog_begin(log_directory);
    oplog_path(OPLOG_PROCESS, (struct identity){0}, comm);
}

void oplog_end(void)
{
    int rc = fclose(out);
    out = NULL;
    must(rc == 0, "close of the log");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t oplog_sequence(void)
{
    began_ns = now_ns();
    return ++shared->sequence;
}

void oplog_write(enum oplog_op op, struct identity id, uint64_t sequence, uint64_t offset, uint64_t length,
                 const void *payload, size_t payload_bytes)
{
    struct oplog_record record = {
        .ts_ns = began_ns,
        .done_ns = now_ns(),
        .sequence = sequence,
        .ino = id.ino,
        .offset = offset,
        .length = length,
        .generation = id.generation,
        .pid = (uint32_t)getpid(),
        .op = op,
        .payload_bytes = (uint32_t)payload_bytes,
    };
    must(fwrite(&record, sizeof(record), 1, out) == 1, "write of the log");
    must(payload_bytes == 0 || fwrite(payload, payload_bytes, 1, out) == 1, "write of the log");
}

void oplog_path(enum oplog_op op, struct identity id, const char *path)
{
    oplog_write(op, id, oplog_sequence(), 0, 0, path, strlen(path));
}

void oplog_paths(enum oplog_op op, struct identity id, const char *from, const char *to)
{
    char both[2 * PATH_MAX];
    int length = snprintf(both, sizeof(both), "%s%c%s", from, 0, to);
    must(length > 0 && length < (int)sizeof(both), "path too long");
    oplog_write(op, id, oplog_sequence(), 0, 0, both, (size_t)length);
}

struct identity identify(int fd)
{
    struct stat status;
    must(fstat(fd, &status) == 0, "fstat");
    int generation = 0;
    if (ioctl(fd, FS_IOC_GETVERSION, &generation) != 0)
        generation = 0;
    return (struct identity){.ino = status.st_ino, .generation = (uint32_t)generation};
}

// Interposes fsync for all calls of the workload, including SQLite's: the program's function precedes the library's.
int fsync(int fd)
{
    uint64_t sequence = out ? oplog_sequence() : 0;
    int rc = (int)syscall(SYS_fsync, fd);
    if (out && rc == 0)
        oplog_write(OPLOG_SYNC, identify(fd), sequence, 0, 0, "fsync", strlen("fsync"));
    return rc;
}
