/*
 * A small app that was recorded for datasets/replay: four processes, one of them with four threads.
 *
 *   app DIRECTORY ROUNDS
 *
 * Its I/O is typical of apps: settings replaced by a rename, a log with occasional syncs, a mapped index, a database
 * with a rollback journal, and a database in WAL mode shared by two processes. Each thread always writes the same
 * content in the same order.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sqlite3.h"

#define INDEX_BYTES 65536

static int nr_rounds;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "app: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static void pause_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

static void put(int fd, const char *text, size_t bytes)
{
    check(write(fd, text, bytes) == (ssize_t)bytes, "write");
}

static void *save_settings(void *unused)
{
    prctl(PR_SET_NAME, "settings");
    for (int round = 0; round < nr_rounds; round++) {
        char text[3000];
        memset(text, 'a' + round % 26, sizeof(text));
        int fd = open("prefs/settings.xml.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        check(fd >= 0, "prefs/settings.xml.tmp");
        put(fd, text, 1000);
        put(fd, text + 1000, (size_t)(1000 + 100 * (round % 10)));
        check(!fsync(fd) && !close(fd), "settings");
        check(!rename("prefs/settings.xml.tmp", "prefs/settings.xml"), "rename");
        fd = open("prefs/settings.xml", O_RDONLY | O_CLOEXEC);
        check(fd >= 0 && read(fd, text, sizeof(text)) > 0 && !close(fd), "prefs/settings.xml");
        pause_ms(35);
    }
    return unused;
}

static void *append_log(void *unused)
{
    prctl(PR_SET_NAME, "logger");
    int fd = open("files/app.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    check(fd >= 0, "files/app.log");
    for (int line = 0; line < 5 * nr_rounds; line++) {
        char text[80];
        int length = snprintf(text, sizeof(text), "%06d something happened that is worth a line\n", line);
        put(fd, text, (size_t)length);
        if (line % 8 == 7)
            check(!fdatasync(fd), "fdatasync");
        pause_ms(7);
    }
    check(!close(fd), "close");
    return unused;
}

static void *map_index(void *unused)
{
    prctl(PR_SET_NAME, "index");
    int fd = open("cache/index.dat", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0 && !ftruncate(fd, INDEX_BYTES), "cache/index.dat");
    char *index = mmap(NULL, INDEX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(index != MAP_FAILED, "mmap");
    for (int round = 0; round < nr_rounds; round++) {
        size_t at = (size_t)round * 4096 % INDEX_BYTES;
        memset(index + at, round, 512);
        check(!msync(index + at, 4096, MS_SYNC), "msync");
        char block[512], thumb[40];
        check(pread(fd, block, sizeof(block), (off_t)at) == sizeof(block), "pread");
        snprintf(thumb, sizeof(thumb), "cache/thumb%d.jpg", round);
        int other = open(thumb, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        check(other >= 0 && pwrite(other, index, 12288, 0) == 12288 && !close(other), thumb);
        snprintf(thumb, sizeof(thumb), "cache/thumb%d.jpg", round - 4);
        check(round < 4 || !unlink(thumb), thumb);
        pause_ms(30);
    }
    check(!munmap(index, INDEX_BYTES) && !close(fd), "index");
    return unused;
}

static void run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "app: %s: %s\n", sql, message);
        exit(1);
    }
}

static sqlite3 *opened(const char *path)
{
    sqlite3 *db = NULL;
    check(sqlite3_open(path, &db) == SQLITE_OK, path);
    sqlite3_busy_timeout(db, 60000);
    run(db, "PRAGMA synchronous=FULL");
    return db;
}

static void make_database(const char *path, const char *mode)
{
    sqlite3 *db = opened(path);
    char sql[160];
    snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s; CREATE TABLE item(id INTEGER PRIMARY KEY, text)", mode);
    run(db, sql);
    sqlite3_close(db);
}

/* Inserts rows of one process. The two processes that share the database use different numbers. */
static void use_database(const char *path, int first)
{
    sqlite3 *db = opened(path);
    char sql[160];
    for (int round = 0; round < nr_rounds; round++) {
        snprintf(sql, sizeof(sql), "INSERT INTO item VALUES(%d, hex(zeroblob(%d)))", first + round,
                 300 + round % 7 * 40);
        run(db, sql);
        if (round % 3 == 2) {
            snprintf(sql, sizeof(sql),
                     "BEGIN; UPDATE item SET text='x' WHERE id=%d; DELETE FROM item WHERE id=%d; COMMIT",
                     first + round - 1, first + round - 2);
            run(db, sql);
        }
        run(db, "SELECT count(*) FROM item");
        pause_ms(25);
    }
    sqlite3_close(db);
}

static pid_t process(const char *name, const char *path, int first)
{
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid)
        return pid;
    prctl(PR_SET_NAME, name);
    use_database(path, first);
    exit(0);
}

int main(int argc, char **argv)
{
    check(argc == 3 && !chdir(argv[1]), "usage: app DIRECTORY ROUNDS");
    nr_rounds = atoi(argv[2]);
    check(!mkdir("prefs", 0700) && !mkdir("files", 0700) && !mkdir("cache", 0700) && !mkdir("databases", 0700),
          "mkdir");
    make_database("databases/timeline.db", "DELETE");
    make_database("databases/messages.db", "WAL");
    pid_t pids[] = {
        process("timeline", "databases/timeline.db", 0),
        process("sync", "databases/messages.db", 0),
        process("provider", "databases/messages.db", 100000),
    };
    void *(*work[])(void *) = {save_settings, append_log, map_index};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        check(!pthread_create(&threads[i], NULL, work[i], NULL), "pthread_create");
    for (int i = 0; i < 3; i++)
        check(!pthread_join(threads[i], NULL), "pthread_join");
    for (int i = 0; i < 3; i++) {
        int status;
        check(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "a process");
    }
    return 0;
}
