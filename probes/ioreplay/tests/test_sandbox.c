/* Attacks on the directory of a replay: every call with every path that could lead out of it, by openat2 and by the
 * walk for older kernels (seccomp disables openat2 in the same process).
 *
 * Other uses, for tests/replay/test_ioreplay_sandbox.py:
 *   test_sandbox operate DIRECTORY SECONDS        every call in it, while entries are exchanged
 *   test_sandbox plant DIRECTORY OUTSIDE SECONDS  exchanges these entries
 *   test_sandbox without-openat2 COMMAND…         runs a command without openat2, as on an older kernel
 *   test_sandbox populate DIRECTORY BYTES         enters and populates it, and leaves the files there */
#include "ioreplay/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/tests/tap.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define SECOND_NS    INT64_C(1000000000)

static struct sandbox *box;
static const char *way; /* openat2 or walk */

/* -- every call with one path ----------------------------------------------------------------------------------- */

static int close_if_open(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
    return descriptor < 0 ? descriptor : 0;
}

/* Ignored outputs of calls. */
static struct {
    struct stat about;
    struct statfs filesystem;
    char target[100];
} scratch;

static const struct timespec some_times[2] = {{1, 2}, {3, 4}};

#define CALL(name, call)                                                                                               \
    static int name(const char *path)                                                                                  \
    {                                                                                                                  \
        int result = (int)(call);                                                                                      \
                                                                                                                       \
        return result < 0 ? result : 0;                                                                                \
    }

CALL(call_read, close_if_open(sandbox_open(box, path, O_RDONLY, 0)))
CALL(call_write, close_if_open(sandbox_open(box, path, O_WRONLY | O_CREAT | O_TRUNC, 0666)))
CALL(call_exclusive, close_if_open(sandbox_open(box, path, O_RDWR | O_CREAT | O_EXCL, 0666)))
CALL(call_directory, close_if_open(sandbox_open(box, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)))
CALL(call_path, close_if_open(sandbox_open(box, path, O_PATH | O_NOFOLLOW, 0)))
CALL(call_unnamed, close_if_open(sandbox_open(box, path, O_TMPFILE | O_RDWR, 0600)))
CALL(call_stat, sandbox_stat(box, path, &scratch.about))
CALL(call_access, sandbox_access(box, path, R_OK))
CALL(call_readlink, sandbox_readlink(box, path, scratch.target, sizeof scratch.target))
CALL(call_statfs, sandbox_statfs(box, path, &scratch.filesystem))
CALL(call_truncate, sandbox_truncate(box, path, 3))
CALL(call_mkdir, sandbox_mkdir(box, path, 0777))
CALL(call_rmdir, sandbox_rmdir(box, path))
CALL(call_unlink, sandbox_unlink(box, path))
CALL(call_rename, sandbox_rename(box, path, "moved", 0))
CALL(call_rename_to, sandbox_rename(box, "spare", path, RENAME_NOREPLACE))
CALL(call_exchange, sandbox_rename(box, path, "spare", RENAME_EXCHANGE))
CALL(call_link, sandbox_link(box, path, "another"))
CALL(call_link_to, sandbox_link(box, "spare", path))
CALL(call_symlink, sandbox_symlink(box, "../outside", path))
CALL(call_chmod, sandbox_chmod(box, path, 07777))
CALL(call_utimens, sandbox_utimens(box, path, some_times))

static const struct call {
    const char *name;
    int (*run)(const char *path);
} calls[] = {
    {"open to read", call_read},
    {"open to write", call_write},
    {"open exclusively", call_exclusive},
    {"open a directory", call_directory},
    {"open a path", call_path},
    {"open without a name", call_unnamed},
    {"stat", call_stat},
    {"access", call_access},
    {"readlink", call_readlink},
    {"statfs", call_statfs},
    {"truncate", call_truncate},
    {"mkdir", call_mkdir},
    {"rmdir", call_rmdir},
    {"unlink", call_unlink},
    {"rename", call_rename},
    {"rename to", call_rename_to},
    {"exchange", call_exchange},
    {"link", call_link},
    {"link to", call_link_to},
    {"symlink", call_symlink},
    {"chmod", call_chmod},
    {"utimens", call_utimens},
};

static bool check(int result, int expected, const char *call, const char *path)
{
    if (result == expected)
        return tap_ok(true, "%s: %s %.60s: %s", way, call, path, strerror(-result));
    return tap_ok(false, "%s: %s %.60s: %s instead of %s", way, call, path, strerror(result < 0 ? -result : 0),
                  strerror(-expected));
}

/* -- directories ------------------------------------------------------------------------------------------------ */

static char base[256];
static int base_fd;

static void need(int result, const char *what)
{
    if (result < 0) {
        printf("Bail out! %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static void save(int directory, const char *path, const char *text)
{
    int file = openat(directory, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    need(file, path);
    need(write_all(file, text, strlen(text)), path);
    close(file);
}

static void make_base(void)
{
    const char *place = getenv("TMPDIR");

    snprintf(base, sizeof(base), "%s/test_sandbox-XXXXXX", place ? place : "/tmp");
    need(mkdtemp(base) ? 0 : -1, base);
    base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(mkdirat(base_fd, "outside", 0755), "outside");
    need(mkdirat(base_fd, "outside/directory", 0755), "outside/directory");
    save(base_fd, "outside/secret", "canary");
    save(base_fd, "outside/directory/inner", "canary");
}

static int remove_any(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_base(void)
{
    close(base_fd);
    need(nftw(base, remove_any, 16, FTW_DEPTH | FTW_PHYS), base);
}

static uint64_t digest;

static void mix(const void *data, size_t size)
{
    for (size_t at = 0; at < size; at++)
        digest = (digest ^ ((const unsigned char *)data)[at]) * UINT64_C(0x100000001b3);
}

static int mix_file(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    struct contents contents;

    (void)place;
    mix(path, strlen(path) + 1);
    mix(&about->st_mode, sizeof about->st_mode);
    mix(&about->st_nlink, sizeof about->st_nlink);
    mix(&about->st_mtim, sizeof about->st_mtim);
    mix(&about->st_ctim, sizeof about->st_ctim);
    if (kind == FTW_F && file_read(AT_FDCWD, path, &contents) == 0) {
        mix(contents.data, contents.size);
        free(contents.data);
    }
    return 0;
}

/* Return a hash of everything outside that could be changed: names, contents, modes, times. */
static uint64_t outside(void)
{
    char *path = format("%s/outside", base);

    digest = UINT64_C(0xcbf29ce484222325);
    need(nftw(path, mix_file, 16, FTW_PHYS), path);
    free(path);
    return digest;
}

static char *in_base(const char *name)
{
    return format("%s/%s", base, name);
}

static void enter(void)
{
    char *path = in_base("box");

    box = sandbox_enter(path);
    if (!box)
        exit(1);
    free(path);
}

static int leave(bool keep)
{
    int result = sandbox_leave(box, keep);

    box = NULL;
    return result;
}

static bool is_there(const char *name)
{
    return faccessat(base_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* -- paths that lead out ------------------------------------------------------------------------------------------ */

static const struct link {
    const char *name, *target;
} links[] = {
    {"link-file", "../outside/secret"},  {"link-directory", "../outside"},
    {"link-dangling", "../outside/new"}, {"link-root", "/"},
    {"link-process", "/proc/self/root"}, {"link-loop", "link-loop"},
    {"link-inside", "directory"},
};

static void plant(void)
{
    int directory = sandbox_directory(box);
    char *target = in_base("outside/directory");

    for (size_t index = 0; index < COUNT(links); index++)
        need(symlinkat(links[index].target, directory, links[index].name), links[index].name);
    need(symlinkat(target, directory, "link-absolute"), "link-absolute");
    free(target);
    need(mkdirat(directory, "directory", 0700), "directory");
    save(directory, "directory/file", "inside");
    save(directory, "file", "inside");
    save(directory, "spare", "inside");
}

#define LONG_NAME                                                                                                      \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"                             \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"                           \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

static const struct refused {
    const char *path;
    int error;
} refused[] = {
    {"..", EXDEV},
    {"../outside/secret", EXDEV},
    {"/", EXDEV},
    {"/etc/passwd", EXDEV},
    {"directory/..", EXDEV},
    {"directory/../../outside/secret", EXDEV},
    {"directory/../file", EXDEV},
    {"nowhere/../file", EXDEV},
    {"", EINVAL},
    {"directory//file", EINVAL},
    {"directory/", EINVAL},
    {"directory/.", EINVAL},
    {"./file", EINVAL},
    {"link-directory/secret", ELOOP},
    {"link-directory/directory/inner", ELOOP},
    {"link-absolute/inner", ELOOP},
    {"link-root/etc/passwd", ELOOP},
    {"link-process/etc/passwd", ELOOP},
    {"link-loop/file", ELOOP},
    {"link-dangling/file", ELOOP},
    {"link-inside/file", ELOOP},
    {"file/inner", ENOTDIR},
    {"nowhere/file", ENOENT},
    {LONG_NAME, ENAMETOOLONG},
    {"directory/" LONG_NAME, ENAMETOOLONG},
};

static void test_refused(void)
{
    for (size_t path = 0; path < COUNT(refused); path++)
        for (size_t call = 0; call < COUNT(calls); call++)
            check(calls[call].run(refused[path].path), -refused[path].error, calls[call].name, refused[path].path);
}

static void test_long(void)
{
    char path[PATH_MAX + 2];

    for (size_t at = 0; at < sizeof path; at++)
        path[at] = at % 2 ? '/' : 'd';
    path[sizeof path - 1] = '\0';
    for (size_t call = 0; call < COUNT(calls); call++)
        check(calls[call].run(path), -ENAMETOOLONG, calls[call].name, "a path of PATH_MAX");
    path[PATH_MAX - 1] = '\0';
    check(call_stat(path), -ENOENT, "stat", "a path of PATH_MAX - 1");
}

/* -- links and special files at the end of a path --------------------------------------------------------------- */

static const struct ended {
    const char *call, *path;
    int expected; /* expected error */
} ended[] = {
    {"open to read", "link-file", ELOOP},
    {"open to read", "link-directory", ELOOP},
    {"open to read", "link-process", ELOOP},
    {"open to write", "link-file", ELOOP},
    {"open to write", "link-dangling", ELOOP},
    {"open exclusively", "link-dangling", EEXIST},
    {"open a directory", "link-directory", ELOOP},
    {"open a path", "link-directory", ELOOP},
    {"open without a name", "link-directory", ELOOP},
    {"stat", "link-file", 0},
    {"stat", "link-dangling", 0},
    {"access", "link-file", ELOOP},
    {"statfs", "link-directory", ELOOP},
    {"readlink", "link-file", 0},
    {"readlink", "file", EINVAL},
    {"readlink", "directory", EINVAL},
    {"truncate", "link-file", ELOOP},
    {"mkdir", "link-dangling", EEXIST},
    {"rmdir", "link-directory", ENOTDIR},
    {"rename to", "link-directory", EEXIST},
    {"link to", "link-dangling", EEXIST},
    {"symlink", "link-dangling", EEXIST},
    {"chmod", "link-file", ELOOP},
    {"utimens", "link-file", 0},
    {"open to read", "pipe", ENXIO},
    {"open to write", "pipe", ENXIO},
    {"open a path", "pipe", ENXIO},
    {"truncate", "pipe", ENXIO},
    {"open to read", "socket", ENXIO},
    {"open to write", "socket", ENXIO},
    {"open to read", "device", ENXIO},
    {"open to write", "device", ENXIO},
    {"truncate", "device", ENXIO},
    {"open to read", ".", 0},
    {"open to write", ".", EISDIR},
    {"open exclusively", ".", EISDIR},
    {"stat", ".", 0},
    {"truncate", ".", EISDIR},
    {"mkdir", ".", EEXIST},
    {"symlink", ".", EEXIST},
    {"rmdir", ".", EBUSY},
    {"unlink", ".", EBUSY},
    {"rename", ".", EBUSY},
    {"exchange", ".", EBUSY},
    {"link", ".", EPERM},
    {"link", "directory", EPERM},
    {"link to", ".", EEXIST},
    {"chmod", ".", EPERM},
    {"open to write", "directory", EISDIR},
    {"open a directory", "file", ENOTDIR},
    {"open without a name", "file", ENOTDIR},
    {"unlink", "directory", EISDIR},
    {"rmdir", "file", ENOTDIR},
    {"rmdir", "directory", ENOTEMPTY},
    /* These calls move or remove the links themselves. */
    {"link", "link-file", 0},
    {"rename", "link-absolute", 0},
    {"exchange", "link-directory", 0},
    {"unlink", "link-process", 0},
    {"unlink", "pipe", 0},
};

static int run(const char *name, const char *path)
{
    for (size_t call = 0; call < COUNT(calls); call++)
        if (!strcmp(calls[call].name, name))
            return calls[call].run(path);
    return 1;
}

static void test_ended(void)
{
    int directory = sandbox_directory(box);
    bool device = mknodat(directory, "device", S_IFCHR | 0666, makedev(1, 3)) == 0;

    need(mknodat(directory, "pipe", S_IFIFO | 0666, 0), "pipe");
    need(mknodat(directory, "socket", S_IFSOCK | 0666, 0), "socket");
    for (size_t index = 0; index < COUNT(ended); index++) {
        const struct ended *at = &ended[index];

        if (!strcmp(at->path, "device") && !device)
            tap_ok(true, "%s: %s device # SKIP devices cannot be made here", way, at->call);
        else
            check(run(at->call, at->path), -at->expected, at->call, at->path);
    }
}

/* -- effects of calls ------------------------------------------------------------------------------------------- */

static void test_flags(void)
{
    static const int bad[] = {O_ASYNC, 1 << 30, O_RDWR | O_CREAT | INT_MIN};
    int file;

    for (size_t index = 0; index < COUNT(bad); index++)
        check(close_if_open(sandbox_open(box, "flagged", bad[index], 0600)), -EINVAL, "open with", "flags for nothing");
    file = sandbox_open(box, "flagged", O_RDWR | O_CREAT | O_APPEND | O_DSYNC | O_NONBLOCK, 0600);
    tap_ok(file >= 0 && (fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND | O_DSYNC | O_NONBLOCK)) ==
                            (O_RDWR | O_APPEND | O_DSYNC | O_NONBLOCK),
           "%s: a new file has the flags asked for", way);
    close(file);
    file = sandbox_open(box, "flagged", O_WRONLY | O_CREAT | O_SYNC, 0600);
    tap_ok(file >= 0 && (fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND | O_SYNC | O_NONBLOCK)) == (O_WRONLY | O_SYNC) &&
               fcntl(file, F_GETFD) == FD_CLOEXEC,
           "%s: and one that was there, and no others", way);
    close(file);
    check(sandbox_rename(box, "flagged", "white", RENAME_WHITEOUT), -EINVAL, "rename", "RENAME_WHITEOUT");
}

static mode_t mode_of(const char *path)
{
    struct stat about = {0};

    sandbox_stat(box, path, &about);
    return about.st_mode & 07777;
}

static void test_modes(void)
{
    int file = sandbox_open(box, "moded", O_RDWR | O_CREAT, 06711), top = sandbox_open(box, ".", O_RDONLY, 0);

    tap_ok(mode_of("moded") == 0711, "%s: a new file cannot be setuid", way);
    tap_ok(sandbox_chmod(box, "moded", 07640) == 0 && mode_of("moded") == 0640, "%s: nor by chmod", way);
    tap_ok(sandbox_fchmod(box, file, 06600) == 0 && mode_of("moded") == 0600, "%s: nor by fchmod", way);
    tap_ok(sandbox_fchmod(box, top, 0777) == -EPERM && mode_of(".") == 0700, "%s: the top stays closed to others", way);
    tap_ok(sandbox_mkdir(box, "moded-directory", 07711) == 0 && mode_of("moded-directory") == 0711,
           "%s: a new directory has permissions only", way);
    tap_ok(sandbox_chmod(box, "moded", 0) == 0 && sandbox_chmod(box, "moded", 0600) == 0,
           "%s: what cannot be opened can be changed", way);
    close(file);
    close(top);
}

static void test_effects(void)
{
    static const struct timespec times[2] = {{.tv_sec = 100, .tv_nsec = 1}, {.tv_sec = 200, .tv_nsec = 2}};
    static const char odd[] = "directory/a\nb\x1b[31m \xff\\";
    struct stat about = {0}, other = {0};
    char target[8];

    tap_ok(call_write(odd) == 0 && sandbox_stat(box, odd, &about) == 0 && S_ISREG(about.st_mode),
           "%s: a name may have any bytes", way);
    tap_ok(sandbox_truncate(box, odd, INT64_C(5) << 32) == 0 && sandbox_stat(box, odd, &about) == 0 &&
               about.st_size == INT64_C(5) << 32,
           "%s: truncate", way);
    tap_ok(sandbox_truncate(box, odd, -1) == -EINVAL, "%s: truncate to less than nothing", way);
    tap_ok(sandbox_utimens(box, odd, times) == 0 && sandbox_stat(box, odd, &about) == 0 &&
               about.st_atim.tv_sec == 100 && about.st_mtim.tv_nsec == 2,
           "%s: utimens", way);
    tap_ok(sandbox_link(box, odd, "second") == 0 && sandbox_stat(box, "second", &other) == 0 &&
               about.st_ino == other.st_ino && other.st_nlink == 2,
           "%s: link", way);
    tap_ok(sandbox_rename(box, odd, "third", 0) == 0 && call_stat(odd) == -ENOENT && call_stat("third") == 0,
           "%s: rename", way);
    tap_ok(sandbox_symlink(box, "/etc/passwd", "fourth") == 0 &&
               sandbox_readlink(box, "fourth", target, sizeof target) == 8 && !memcmp(target, "/etc/pas", 8),
           "%s: symlink and readlink", way);
    tap_ok(sandbox_unlink(box, "fourth") == 0 && sandbox_unlink(box, "third") == 0 && call_stat("third") == -ENOENT &&
               sandbox_stat(box, "second", &other) == 0 && other.st_nlink == 1,
           "%s: unlink", way);
    tap_ok(sandbox_access(box, "second", F_OK) == 0 && sandbox_access(box, "second", 0100) == -EINVAL, "%s: access",
           way);
}

/* -- a race ------------------------------------------------------------------------------------------------------- */

/* Exchange a directory and a link, and create links where another process is about to create files. */
static void flip(int directory)
{
    for (;;) {
        syscall(SYS_renameat2, directory, "flip", directory, "flop", RENAME_EXCHANGE);
        symlinkat("../outside/new", directory, "blink");
        unlinkat(directory, "blink", 0);
    }
}

static pid_t start_flipping(int directory)
{
    pid_t child;

    need(mkdirat(directory, "flip", 0700), "flip");
    save(directory, "flip/secret", "inside");
    need(symlinkat("../outside", directory, "flop"), "flop");
    fflush(stdout);
    child = fork();
    if (!child)
        flip(directory);
    need(child, "fork");
    return child;
}

/* Repeat until every attack was tried often, if the two processes overlap at all. */
static void test_race(void)
{
    static const char *const paths[] = {"flip/secret", "flip/new", "flip", "flip/directory/inner", "flip/directory"};
    pid_t child = start_flipping(sandbox_directory(box));
    int64_t end_ns = clock_now(CLOCK_MONOTONIC) + SECOND_NS, limit_ns = end_ns + 20 * SECOND_NS, now_ns = 0;
    uint64_t met = 0, missed = 0, turn = 0;

    while (now_ns < end_ns || ((met < 100 || missed < 100) && now_ns < limit_ns)) {
        for (size_t path = 0; path < COUNT(paths); path++) {
            const struct call *call = &calls[turn++ % COUNT(calls)];
            int result = call->run(paths[path]);

            met += result == -ELOOP;
            missed += result == 0;
        }
        call_write("blink");
        call_write("spare");
        now_ns = clock_now(CLOCK_MONOTONIC);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    tap_ok(met >= 100 && missed >= 100, "%s: raced: %" PRIu64 " links refused, %" PRIu64 " calls done", way, met,
           missed);
}

/* -- other mounts ------------------------------------------------------------------------------------------------- */

static const struct mounted {
    const char *place, *what; /* NULL: another filesystem */
    const char *within;
} mounted[] = {
    {"mounted", "outside", "mounted/secret"},
    {"mounted-file", "outside/secret", NULL},
    {"mounted-other", NULL, "mounted-other/secret"},
};

static char *in_box(const char *name)
{
    return format("%s/box/%s", base, name);
}

static bool mount_one(const struct mounted *one)
{
    char *place = in_box(one->place), *what = one->what ? in_base(one->what) : NULL;
    bool done;

    if (one->within)
        need(mkdirat(sandbox_directory(box), one->place, 0700), place);
    else
        save(sandbox_directory(box), one->place, "inside");
    done = mount(what, place, "tmpfs", what ? MS_BIND : 0, NULL) == 0;
    free(place);
    free(what);
    return done;
}

static void check_mounted(const struct mounted *one)
{
    for (size_t call = 0; call < COUNT(calls); call++) {
        int result = calls[call].run(one->place);

        tap_ok(result < 0, "%s: %s %s: %s", way, calls[call].name, one->place, strerror(-result));
        if (one->within)
            check(calls[call].run(one->within), -EXDEV, calls[call].name, one->within);
    }
}

/* Uses a mount namespace of this process, so that nothing stays mounted. */
static void test_mounts(void)
{
    uint64_t before = outside();

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        tap_ok(true, "%s: other mounts are not entered # SKIP nothing can be mounted here", way);
        return;
    }
    enter();
    call_write("spare");
    for (size_t index = 0; index < COUNT(mounted); index++)
        if (tap_ok(mount_one(&mounted[index]), "%s: mounted on %s", way, mounted[index].place))
            check_mounted(&mounted[index]);
    tap_ok(sandbox_empty(box) == -1 && outside() == before, "%s: what lies in other mounts is not removed", way);
    for (size_t index = 0; index < COUNT(mounted); index++) {
        char *place = in_box(mounted[index].place);

        umount2(place, MNT_DETACH);
        free(place);
    }
    tap_ok(leave(false) == 0 && !is_there("box"), "%s: what they were mounted on is", way);
}

/* -- enter and leave -------------------------------------------------------------------------------------------- */

static void check_refused(const char *path, const char *why)
{
    struct sandbox *entered = sandbox_enter(path);

    tap_ok(!entered, "%s is refused", why);
    if (entered)
        sandbox_leave(entered, true);
}

static void test_entering(void)
{
    char *path = in_base("box"), *file = in_base("outside/secret"), *slashes = in_base("box//");
    char *nowhere = in_base("nowhere/box"), *full = in_base("outside");
    struct stat about;

    check_refused("/", "the root directory");
    check_refused("//", "the root directory by another name");
    check_refused("", "nothing");
    check_refused(full, "what is not empty");
    check_refused(file, "a file");
    check_refused(nowhere, "a place that is not there");
    enter();
    tap_ok(fstat(sandbox_directory(box), &about) == 0 && (about.st_mode & 07777) == 0700, "it is closed to others");
    check_refused(path, "one in use");
    tap_ok(leave(true) == 0 && is_there("box"), "what was made is kept");
    need(fchmodat(base_fd, "box", 0775, 0), "chmod");
    box = sandbox_enter(slashes);
    tap_ok(box && fstat(sandbox_directory(box), &about) == 0 && (about.st_mode & 07777) == 0700,
           "an empty one is taken");
    tap_ok(call_write("file") == 0 && leave(false) == 0 && !is_there("box/file"), "and emptied");
    tap_ok(fstatat(base_fd, "box", &about, 0) == 0 && (about.st_mode & 07777) == 0775, "and given back as it was");
    if (!geteuid() && fchownat(base_fd, "box", 65534, 65534, 0) == 0)
        check_refused(path, "somebody else's");
    need(unlinkat(base_fd, "box", AT_REMOVEDIR), path);
    need(symlinkat("outside", base_fd, "box"), path);
    check_refused(path, "a link to what is not empty");
    need(unlinkat(base_fd, "box", 0), path);
    free(path);
    free(file);
    free(slashes);
    free(nowhere);
    free(full);
}

#define DEPTH 3000

static void test_leaving(void)
{
    bool made = sandbox_mkdir(box, "deep", 0700) == 0;

    for (int depth = 0; depth < DEPTH && made; depth++)
        made = sandbox_mkdir(box, "deeper", 0700) == 0 && call_write("deeper/file") == 0 &&
               sandbox_rename(box, "deep", "deeper/deep", 0) == 0 && sandbox_rename(box, "deeper", "deep", 0) == 0;
    tap_ok(made, "%s: directories %d deep", way, DEPTH);
    tap_ok(sandbox_mkdir(box, "closed", 0700) == 0 && sandbox_mkdir(box, "closed/inner", 0700) == 0 &&
               call_write("closed/inner/file") == 0 && sandbox_mkdir(box, ".removed-0", 0700) == 0 &&
               call_write(".removed-0/file") == 0 && call_write(".removed-1") == 0 &&
               sandbox_chmod(box, "closed/inner/file", 0) == 0 && sandbox_chmod(box, "closed/inner", 0) == 0 &&
               sandbox_chmod(box, "closed", 0500) == 0,
           "%s: directories that nobody may enter", way);
    tap_ok(leave(false) == 0 && !is_there("box"), "%s: nothing stays", way);
}

static void test_way(void)
{
    uint64_t before = outside();

    enter();
    way = box->beneath.walks ? "walk" : "openat2";
    plant();
    test_refused();
    test_long();
    test_ended();
    test_flags();
    test_modes();
    test_effects();
    tap_ok(outside() == before, "%s: what lies outside is as it was", way);
    test_race();
    tap_ok(outside() == before, "%s: also after the race", way);
    test_leaving();
    tap_ok(outside() == before, "%s: also after all was removed", way);
    test_mounts();
}

/* -- files of the program --------------------------------------------------------------------------------------- */

static const char *strings[] = {"d",       "d/file",      "d/second",    "link", "empty",
                                "d/inner", "d/inner/big", "/etc/passwd", "."};
static struct replay_file files[] = {
    {.path = 8, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 0755, .kind = KIND_DIRECTORY},
    {.path = 0, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 0500, .kind = KIND_DIRECTORY},
    {.path = 1, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 0400, .size_bytes = 10001, .kind = KIND_FILE},
    {.path = 3, .target = 7, .first = REPLAY_NONE, .mode = 0777, .kind = KIND_SYMLINK},
    {.path = 4, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = RECORD_NULL_INT32, .kind = KIND_FILE},
    {.path = 2, .target = REPLAY_NONE, .first = 2, .mode = 0400, .size_bytes = 10001, .kind = KIND_FILE},
    {.path = 5, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = RECORD_NULL_INT32, .kind = KIND_DIRECTORY},
    {.path = 6, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 04777, .size_bytes = 3 << 20, .kind = KIND_FILE},
};
static struct replay_program program = {
    .strings = strings, .nr_strings = COUNT(strings), .files = files, .nr_files = COUNT(files)};

static int64_t shown_done, shown_all;

static bool show(int64_t done, int64_t all)
{
    shown_done = done;
    shown_all = all;
    return true;
}

static bool stop(int64_t done, int64_t all)
{
    (void)all;
    return done < 1 << 20;
}

static int64_t size_of(const char *path)
{
    struct stat about;

    return sandbox_stat(box, path, &about) < 0 ? -1 : (int64_t)about.st_size;
}

static void test_populating(void)
{
    struct stat first = {0}, second = {0};
    char target[PATH_MAX];
    int file;

    enter();
    tap_ok(sandbox_populate(box, &program, show) == 0, "the program's files are made");
    tap_ok(shown_done == shown_all && shown_all == 10001 + (3 << 20), "and shown, each file once");
    tap_ok(sandbox_stat(box, "d/file", &first) == 0 && sandbox_stat(box, "d/second", &second) == 0 &&
               first.st_ino == second.st_ino && first.st_size == 10001,
           "two names of one file");
    tap_ok(mode_of("d") == 0500 && mode_of("d/file") == 0400 && mode_of("d/inner") == 0700 &&
               mode_of("empty") == 0600 && mode_of("d/inner/big") == 0777 && mode_of(".") == 0700,
           "modes are the recorded ones, or the user's only");
    tap_ok(sandbox_readlink(box, "link", target, sizeof target) == 11 && !memcmp(target, "/etc/passwd", 11), "a link");
    tap_ok(size_of("empty") == 0 && size_of("d/inner/big") == 3 << 20, "sizes");
    tap_ok(sandbox_is_cold(box, &program) == 1, "nothing of them is in the page cache");
    file = sandbox_open(box, "d/inner/big", O_RDONLY, 0);
    tap_ok(read(file, target, sizeof target) == sizeof target && sandbox_is_cold(box, &program) == 0,
           "until somebody reads");
    close(file);
    tap_ok(leave(false) == 0 && !is_there("box"), "and they are removed");
    enter();
    tap_ok(sandbox_populate(box, &program, stop) == -1 && size_of("d/inner/big") == 1 << 20, "it ends when told to");
    tap_ok(leave(false) == 0 && !is_there("box"), "and what was made is removed");
}

/* Also for users who then have no access to them. */
static void test_closed(void)
{
    const char *names[] = {"closed", "closed/file"};
    struct replay_file closed[] = {
        {.path = 0, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 0, .kind = KIND_DIRECTORY},
        {.path = 1, .target = REPLAY_NONE, .first = REPLAY_NONE, .mode = 0, .size_bytes = 5, .kind = KIND_FILE},
    };
    struct replay_program program_closed = {
        .strings = names, .nr_strings = COUNT(names), .files = closed, .nr_files = COUNT(closed)};

    enter();
    tap_ok(sandbox_populate(box, &program_closed, NULL) == 0 && mode_of("closed") == 0,
           "a closed directory with a file");
    tap_ok(sandbox_is_cold(box, &program_closed) == (geteuid() ? RECORD_NULL_INT32 : 1), "which only root can look at");
    tap_ok(leave(false) == 0 && !is_there("box"), "but all can remove");
}

/* -- other uses --------------------------------------------------------------------------------------------------- */

/* From here on this process and its children have no openat2. */
static void hide_openat2(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog loaded = {COUNT(filter), filter};

    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
    need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded), "seccomp");
}

/* The planted entries "pipe" and so on are only opened: no file of these names is created here. */
static int operate(const char *directory, int64_t seconds)
{
    static const char *const targets[] = {"flip/secret",          "flip/new",   "flip",
                                          "flip/directory/inner", "link",       "link/secret",
                                          "../outside/secret",    "/etc/passwd"};
    static const char *const planted[] = {"pipe", "socket", "device"};
    int64_t end_ns = clock_now(CLOCK_MONOTONIC) + seconds * SECOND_NS;

    box = sandbox_enter(directory);
    if (!box)
        return 1;
    while (clock_now(CLOCK_MONOTONIC) < end_ns) {
        for (size_t call = 0; call < COUNT(calls); call++) {
            call_write("spare");
            for (size_t target = 0; target < COUNT(targets); target++)
                calls[call].run(targets[target]);
        }
        for (size_t kind = 0; kind < COUNT(planted); kind++) {
            call_read(planted[kind]);
            call_truncate(planted[kind]);
        }
    }
    return leave(false) < 0;
}

/* Open the directory of another process once its first file exists. Returns -1 if this takes too long. */
static int wait_for(const char *directory, int64_t end_ns)
{
    char *path = format("%s/spare", directory);
    struct timespec pause = {.tv_nsec = 1000000};

    while (access(path, F_OK) < 0 && clock_now(CLOCK_MONOTONIC) < end_ns)
        nanosleep(&pause, NULL);
    free(path);
    return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int plant_all(const char *directory, const char *target, int64_t seconds)
{
    int64_t end_ns = clock_now(CLOCK_MONOTONIC) + seconds * SECOND_NS;
    int place = wait_for(directory, end_ns);

    while (clock_now(CLOCK_MONOTONIC) < end_ns) {
        mkdirat(place, "flip", 0700);
        symlinkat(target, place, "flop");
        symlinkat(target, place, "link");
        mknodat(place, "pipe", S_IFIFO | 0666, 0);
        mknodat(place, "socket", S_IFSOCK | 0666, 0);
        mknodat(place, "device", S_IFCHR | 0666, makedev(1, 3));
        for (int turn = 0; turn < 100; turn++)
            syscall(SYS_renameat2, place, "flip", place, "flop", RENAME_EXCHANGE);
    }
    return 0;
}

static int populate(const char *directory, int64_t bytes)
{
    files[7].size_bytes = bytes;
    box = sandbox_enter(directory);
    if (!box || sandbox_populate(box, &program, NULL) < 0)
        return 1;
    printf("%d\n", sandbox_is_cold(box, &program));
    return leave(true) < 0;
}

static int test(void)
{
    umask(0);
    make_base();
    test_entering();
    test_way();
    test_populating();
    test_closed();
    if (!strcmp(way, "openat2")) {
        hide_openat2();
        test_way();
    }
    tap_ok(!strcmp(way, "walk"), "the walk was tested");
    remove_base();
    return tap_done();
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "without-openat2")) {
        hide_openat2();
        execvp(argv[2], argv + 2);
        return 127;
    }
    if (argc == 4 && !strcmp(argv[1], "operate"))
        return operate(argv[2], atoll(argv[3]));
    if (argc == 5 && !strcmp(argv[1], "plant"))
        return plant_all(argv[2], argv[3], atoll(argv[4]));
    if (argc == 4 && !strcmp(argv[1], "populate"))
        return populate(argv[2], atoll(argv[3]));
    return test();
}
