// Programs that write as apps do, for few_events.py.
//
//    few_apps ROOT prepare SEED   create the files that exist before the recording
//    few_apps ROOT MODE SEED      run the processes of a mode
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096
#define RECORD (PAGE + 24) // of a journal: a page and its header

static char data[1 << 20] __attribute__((aligned(PAGE)));
static uint64_t state;

static unsigned below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 16) % limit;
}

static void check(int is_done, const char *what)
{
    if (!is_done) {
        perror(what);
        exit(1);
    }
}

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0644);

    check(fd >= 0, path);
    return fd;
}

static void put(int fd, size_t length, off_t at)
{
    for (size_t done = 0; done < length;) {
        size_t step = length - done < sizeof(data) ? length - done : sizeof(data);
        ssize_t written = pwrite(fd, data, step, at + (off_t)done);

        check(written > 0, "pwrite");
        done += (size_t)written;
    }
}

static void create(const char *path, size_t length)
{
    int fd = opened(path, O_TRUNC | O_WRONLY);

    put(fd, length, 0);
    close(fd);
}

// Write a rollback journal, sync it, change pages of the database, sync it, and end the journal: delete, truncate or
// persist.
static void rollback(const char *database, int rounds, char mode)
{
    char journal[64];
    int fd = opened(database, O_RDWR);

    snprintf(journal, sizeof(journal), "%s-journal", database);
    for (int round = 0; round < rounds; round++) {
        unsigned pages = 1 + below(6);
        int log = opened(journal, O_RDWR);

        put(log, 512, 0);
        for (unsigned k = 0; k < pages; k++)
            put(log, RECORD, 512 + (off_t)k * RECORD);
        fdatasync(log);
        for (unsigned k = 0; k < pages; k++)
            put(fd, PAGE, (off_t)PAGE * below(100));
        fdatasync(fd);
        if (mode == 'd')
            unlink(journal);
        else if (mode == 't')
            check(ftruncate(log, 0) == 0, "ftruncate");
        else
            put(log, 28, 0);
        close(log);
        pause_ms(below(40));
    }
    close(fd);
}

static void write_ahead(const char *database, int rounds)
{
    char path[64];
    int fd = opened(database, O_RDWR), log;
    off_t end = 32;

    snprintf(path, sizeof(path), "%s-wal", database);
    log = opened(path, O_RDWR);
    put(log, 32, 0);
    for (int round = 0; round < rounds; round++) {
        for (unsigned pages = 1 + below(5); pages--; end += RECORD) {
            put(log, 24, end);
            put(log, PAGE, end + 24);
        }
        if (below(2))
            fdatasync(log);
        if (end > (off_t)RECORD * 60) {
            fdatasync(log);
            for (int k = 0; k < 30; k++)
                put(fd, PAGE, (off_t)PAGE * below(140));
            fdatasync(fd);
            end = 32;
        }
        pause_ms(below(30));
    }
}

static void append(const char *path, int rounds, unsigned length)
{
    int fd = opened(path, O_WRONLY | O_APPEND);

    for (int round = 0; round < rounds; round++) {
        size_t bytes = 20 + below(length);

        check(write(fd, data, bytes) == (ssize_t)bytes, "write");
        pause_ms(below(20));
    }
}

static void overwrite(const char *path, int rounds)
{
    int fd = opened(path, O_RDWR);

    for (int round = 0; round < rounds; round++) {
        put(fd, 1 + below(9000), below(590000));
        pause_ms(below(30));
    }
}

static void copy(const char *from, const char *to)
{
    int source = opened(from, O_RDONLY), target = opened(to, O_TRUNC | O_WRONLY);
    ssize_t length;

    while ((length = read(source, data, 131072)) > 0)
        check(write(target, data, (size_t)length) == length, "write");
}

static void cache(const char *directory, int rounds)
{
    char path[64];

    mkdir(directory, 0755);
    for (int round = 0; round < rounds; round++) {
        snprintf(path, sizeof(path), "%s/%u", directory, below(60));
        if (below(3))
            create(path, 100 + below(60000));
        else
            unlink(path);
        pause_ms(below(15));
    }
}

// Replace a file by a new version: with a fsync, as preferences are saved, or without.
static void replace(const char *path, int rounds, int is_synced)
{
    char next[64];

    snprintf(next, sizeof(next), "%s.new", path);
    for (int round = 0; round < rounds; round++) {
        int fd = opened(next, O_TRUNC | O_WRONLY);

        put(fd, 1 + below(20000), 0);
        if (is_synced)
            fsync(fd);
        close(fd);
        check(rename(next, path) == 0, "rename");
        pause_ms(150);
    }
}

static void many(const char *directory, int count)
{
    char path[64];

    mkdir(directory, 0755);
    for (int k = 0; k < count; k++) {
        snprintf(path, sizeof(path), "%s/%d", directory, k);
        create(path, 1 + below(20000));
        snprintf(path, sizeof(path), "%s/%u", directory, (unsigned)k - below(3));
        if (k % 3 == 2)
            unlink(path);
    }
}

static void store(const char *path, int rounds)
{
    size_t length = 1 << 20;
    int fd = opened(path, O_RDWR);
    char *map;

    check(ftruncate(fd, (off_t)length) == 0, "ftruncate");
    map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED, "mmap");
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < 10; k++)
            map[below((unsigned)length)]++;
        if (below(4) == 0)
            check(msync(map, length, MS_SYNC) == 0, "msync");
        pause_ms(below(60));
    }
}

static void direct(const char *path, int rounds)
{
    int fd = opened(path, O_RDWR | O_DIRECT);

    for (int round = 0; round < rounds; round++) {
        put(fd, (size_t)PAGE << below(5), (off_t)PAGE * below(512));
        pause_ms(below(30));
    }
}

// Write to every second page of a file that another process writes to as well.
static void share(const char *path, int rounds, int which)
{
    int fd = opened(path, O_RDWR);

    for (int round = 0; round < rounds; round++) {
        put(fd, (size_t)PAGE * (1 + below(3)), (off_t)PAGE * (2 * below(128) + (unsigned)which));
        if (below(6) == 0)
            fsync(fd);
        pause_ms(below(30));
    }
}

static void prepare(void)
{
    char path[16];

    create("big", 12 << 20);
    for (unsigned k = 0; k < 4; k++) {
        snprintf(path, sizeof(path), "old%u", k);
        create(path, 600000 + k * 70000);
        sync();
    }
}

// Run a statement in a process of that name if the mode is the one that was asked for.
#define RUN(of_mode, name, statement)                                                                                  \
    do {                                                                                                               \
        if (strcmp(mode, of_mode) == 0 && fork() == 0) {                                                               \
            prctl(PR_SET_NAME, name);                                                                                  \
            for (const char *letter = name; *letter; letter++)                                                         \
                state = state * 31 + (unsigned char)*letter;                                                           \
            state |= 1;                                                                                                \
            statement;                                                                                                 \
            _exit(0);                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(int count, char **arguments)
{
    const char *mode = count == 4 ? arguments[2] : "";
    int status, is_failed = 0;

    check(count == 4 && chdir(arguments[1]) == 0, "usage: few_apps ROOT MODE SEED");
    state = strtoull(arguments[3], NULL, 10) * 2654435761u + 1;
    for (size_t k = 0; k < sizeof(data); k++)
        data[k] = (char)below(256);
    if (strcmp(mode, "prepare") == 0)
        prepare();
    RUN("apps", "mail", write_ahead("mail.db", 120));
    RUN("apps", "chat", rollback("chat.db", 60, 'p'));
    RUN("apps", "browser", cache("cache", 150));
    RUN("apps", "logger", append("main.log", 200, 700));
    RUN("apps", "settings", replace("settings.xml", 15, 1));
    RUN("apps", "sync", replace("state.json", 12, 0));
    RUN("apps", "game", overwrite("level.pak", 60));
    RUN("delete", "database", rollback("a.db", 100, 'd'));
    RUN("truncate", "database", rollback("a.db", 100, 't'));
    RUN("persist", "database", rollback("a.db", 100, 'p'));
    RUN("wal", "database", write_ahead("a.db", 200));
    RUN("wal", "other", write_ahead("b.db", 200));
    RUN("copy", "copier", copy("big", "copy"));
    RUN("small", "installer", many("a", 400));
    RUN("small", "unpacker", many("b", 300));
    RUN("mapped", "mapper", store("map", 60));
    RUN("mapped", "logger", append("log", 150, 700));
    RUN("direct", "player", direct("a.bin", 80));
    RUN("direct", "browser", cache("cache", 80));
    RUN("shared", "first", share("shared", 80, 0));
    RUN("shared", "second", share("shared", 80, 1));
    RUN("background", "game", overwrite("level.pak", 100));
    RUN("background", "browser", cache("cache", 120));
    RUN("background", "logger", append("log", 250, 700));
    RUN("background", "writer", append("big.log", 100, 60000));
    RUN("rewrite", "editor", overwrite("old0", 60));
    RUN("rewrite", "painter", overwrite("old1", 60));
    RUN("rewrite", "database", rollback("old2", 40, 'p'));
    RUN("rewrite", "logger", append("old3", 150, 700));
    while (wait(&status) > 0)
        is_failed |= status;
    return is_failed != 0;
}
