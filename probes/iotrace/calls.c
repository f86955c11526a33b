#include "iotrace/iotrace.h"

#include <ctype.h>
#include <elf.h>
#include <sys/utsname.h>

enum machine { X86_64, AARCH64, ARM, NR_MACHINES };

/* The calls of each machine and their numbers in Linux 6.13: arch/x86/entry/syscalls/syscall_64.tbl,
 * scripts/syscall.tbl (arm64) and arch/arm/tools/syscall.tbl. They never change. The name is that of programs and
 * strace; after a slash follows that of the kernel's tracepoints if it differs. */
static const char *const calls[NR_MACHINES] = {
    [X86_64] =
        "open=2 creat=85 openat=257 openat2=437 open_by_handle_at=304 close=3 close_range=436 dup=32 dup2=33 dup3=292 "
        "fcntl=72 read=0 write=1 pread64=17 pwrite64=18 readv=19 writev=20 preadv=295 pwritev=296 preadv2=327 "
        "pwritev2=328 lseek=8 sendfile/sendfile64=40 splice=275 tee=276 vmsplice=278 copy_file_range=326 fsync=74 "
        "fdatasync=75 sync=162 syncfs=306 sync_file_range=277 msync=26 truncate=76 ftruncate=77 fallocate=285 "
        "fadvise64=221 readahead=187 mmap=9 munmap=11 mremap=25 stat/newstat=4 lstat/newlstat=6 fstat/newfstat=5 "
        "newfstatat=262 statx=332 statfs=137 fstatfs=138 access=21 faccessat=269 faccessat2=439 readlink=89 "
        "readlinkat=267 getdents=78 getdents64=217 mkdir=83 mkdirat=258 rmdir=84 mknod=133 mknodat=259 unlink=87 "
        "unlinkat=263 rename=82 renameat=264 renameat2=316 link=86 linkat=265 symlink=88 symlinkat=266 chmod=90 "
        "fchmod=91 fchmodat=268 fchmodat2=452 utime=132 utimes=235 futimesat=261 utimensat=280 chdir=80 fchdir=81 "
        "chroot=161 clone=56 clone3=435 fork=57 vfork=58 execve=59 execveat=322 exit=60 exit_group=231 unshare=272 "
        "pipe=22 pipe2=293 socket=41 socketpair=53 accept=43 accept4=288 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 "
        "sendmmsg=307 recvmmsg=299 epoll_create=213 epoll_create1=291 eventfd=284 eventfd2=290 signalfd=282 "
        "signalfd4=289 timerfd_create=283 inotify_init=253 inotify_init1=294 fanotify_init=300 memfd_create=319 "
        "pidfd_open=434 pidfd_getfd=438 userfaultfd=323 perf_event_open=298 io_setup=206 io_submit=209 "
        "io_uring_setup=425 io_uring_enter=426",
    [AARCH64] =
        "openat=56 openat2=437 open_by_handle_at=265 close=57 close_range=436 dup=23 dup3=24 fcntl=25 read=63 "
        "write=64 pread64=67 pwrite64=68 readv=65 writev=66 preadv=69 pwritev=70 preadv2=286 pwritev2=287 lseek=62 "
        "sendfile/sendfile64=71 splice=76 tee=77 vmsplice=75 copy_file_range=285 fsync=82 fdatasync=83 sync=81 "
        "syncfs=267 sync_file_range=84 msync=227 truncate=45 ftruncate=46 fallocate=47 fadvise64=223 readahead=213 "
        "mmap=222 munmap=215 mremap=216 fstat/newfstat=80 newfstatat=79 statx=291 statfs=43 fstatfs=44 faccessat=48 "
        "faccessat2=439 readlinkat=78 getdents64=61 mkdirat=34 mknodat=33 unlinkat=35 renameat=38 renameat2=276 "
        "linkat=37 symlinkat=36 fchmod=52 fchmodat=53 fchmodat2=452 utimensat=88 chdir=49 fchdir=50 chroot=51 "
        "clone=220 clone3=435 execve=221 execveat=281 exit=93 exit_group=94 unshare=97 pipe2=59 socket=198 "
        "socketpair=199 accept=202 accept4=242 sendto=206 recvfrom=207 sendmsg=211 recvmsg=212 sendmmsg=269 "
        "recvmmsg=243 epoll_create1=20 eventfd2=19 signalfd4=74 timerfd_create=85 inotify_init1=26 fanotify_init=262 "
        "memfd_create=279 pidfd_open=434 pidfd_getfd=438 userfaultfd=282 perf_event_open=241 io_setup=0 io_submit=2 "
        "io_uring_setup=425 io_uring_enter=426",
    [ARM] =
        "open=5 creat=8 openat=322 openat2=437 open_by_handle_at=371 close=6 close_range=436 dup=41 dup2=63 dup3=358 "
        "fcntl=55 fcntl64=221 read=3 write=4 pread64=180 pwrite64=181 readv=145 writev=146 preadv=361 pwritev=362 "
        "preadv2=392 pwritev2=393 lseek=19 _llseek/llseek=140 sendfile=187 sendfile64=239 splice=340 tee=342 "
        "vmsplice=343 copy_file_range=391 fsync=118 fdatasync=148 sync=36 syncfs=373 "
        "arm_sync_file_range/sync_file_range2=341 msync=144 truncate=92 truncate64=193 ftruncate=93 ftruncate64=194 "
        "fallocate=352 arm_fadvise64_64/fadvise64_64=270 readahead=225 mmap2/mmap_pgoff=192 munmap=91 mremap=163 "
        "stat/newstat=106 stat64=195 lstat/newlstat=107 lstat64=196 fstat/newfstat=108 fstat64=197 fstatat64=327 "
        "statx=397 statfs=99 statfs64=266 fstatfs=100 fstatfs64=267 access=33 faccessat=334 faccessat2=439 "
        "readlink=85 readlinkat=332 getdents=141 getdents64=217 mkdir=39 mkdirat=323 rmdir=40 mknod=14 mknodat=324 "
        "unlink=10 unlinkat=328 rename=38 renameat=329 renameat2=382 link=9 linkat=330 symlink=83 symlinkat=331 "
        "chmod=15 fchmod=94 fchmodat=333 fchmodat2=452 utimes/utimes_time32=269 futimesat/futimesat_time32=326 "
        "utimensat/utimensat_time32=348 utimensat_time64/utimensat=412 chdir=12 fchdir=133 chroot=61 clone=120 "
        "clone3=435 fork=2 vfork=190 execve=11 execveat=387 exit=1 exit_group=248 unshare=337 pipe=42 pipe2=359 "
        "socket=281 socketpair=288 accept=285 accept4=366 sendto=290 recvfrom=292 sendmsg=296 recvmsg=297 "
        "sendmmsg=374 recvmmsg/recvmmsg_time32=365 epoll_create=250 epoll_create1=357 eventfd=351 eventfd2=356 "
        "signalfd=349 signalfd4=355 timerfd_create=350 inotify_init=316 inotify_init1=360 fanotify_init=367 "
        "memfd_create=385 pidfd_open=434 pidfd_getfd=438 userfaultfd=388 perf_event_open=364 io_setup=243 "
        "io_submit=246 io_uring_setup=425 io_uring_enter=426",
};

/* A call of a machine, and the rest of its list. */
struct call {
    char name[32], event[32];
    int number;
    const char *rest;
};

/* Return the first call of the list; without a name at the end. */
static struct call first_call(const char *list)
{
    struct call call = {.rest = ""};
    int end = 0;
    if (sscanf(list, " %31[^/=]/%31[^=]=%d%n", call.name, call.event, &call.number, &end) < 3 &&
        sscanf(list, " %31[^=]=%d%n", call.name, &call.number, &end) == 2)
        memcpy(call.event, call.name, sizeof call.event);
    call.rest = list + end;
    return call;
}

/* Iterate over the calls of a machine. */
#define EACH_CALL(call, machine)                                                                                       \
    struct call call = first_call(calls[machine]);                                                                     \
    *call.name;                                                                                                        \
    call = first_call(call.rest)

static const char *const machine_names[NR_MACHINES] = {"x86_64", "aarch64", "arm"};

/* Return the machine with this uname, or NR_MACHINES if it is unknown. All 32-bit ARM machines are "armv7l" and the
 * like. */
static enum machine machine_of(const char *name)
{
    enum machine machine = X86_64;
    while (machine < NR_MACHINES && strncmp(name, machine_names[machine], strlen(machine_names[machine])) != 0)
        machine++;
    return machine;
}

static enum machine this_machine(void)
{
    struct utsname name;
    uname(&name);
    return machine_of(name.machine);
}

static void choose_pair(struct selection *selection, int tracefs, const struct call *call)
{
    static const char *const sides[] = {"enter", "exit"};
    bool never_returns = strncmp(call->name, "exit", 4) == 0;
    for (int side = 0; side < (never_returns ? 1 : 2); side++) {
        char *name = format("sys_%s_%s", sides[side], call->event);
        selection_choose(selection, tracefs, "syscalls", name, filter_others());
        free(name);
    }
}

/* Build a filter that passes only these calls. */
static char *numbers_filter(enum machine machine)
{
    char *filter = NULL;
    for (EACH_CALL(call, machine)) {
        char *longer = format("%s%sid == %d", filter ? filter : "", filter ? " || " : "", call.number);
        free(filter);
        filter = longer;
    }
    return filter;
}

/* On a machine with unknown numbers all calls are recorded. */
static void choose_raw(struct selection *selection, int tracefs, enum machine machine)
{
    static const char *const sides[] = {"sys_enter", "sys_exit"};
    char *numbers = machine < NR_MACHINES ? numbers_filter(machine) : NULL, *own = filter_others();
    for (int side = 0; side < 2; side++)
        selection_choose(selection, tracefs, "raw_syscalls", sides[side],
                         numbers ? format("%s && (%s)", own, numbers) : format("%s", own));
    free(numbers);
    free(own);
}

void calls_select(struct selection *selection, int tracefs)
{
    enum machine machine = this_machine();
    if (!tracefs_has_event(tracefs, "syscalls", "sys_enter_read")) {
        choose_raw(selection, tracefs, machine);
        return;
    }
    for (EACH_CALL(call, machine < NR_MACHINES ? machine : X86_64))
        choose_pair(selection, tracefs, &call);
}

enum call_part event_call_part(const struct event *event)
{
    if (strncmp(event->name, "sys_enter", 9) == 0)
        return CALL_BEGINS;
    return strncmp(event->name, "sys_exit", 8) == 0 || strncmp(event->name, "call_", 5) == 0 ? CALL_GOES_ON : NO_CALL;
}

static bool is_raw(const struct selection *selection)
{
    for (size_t i = 0; i < selection->nr_events; i++)
        if (strcmp(selection->events[i].system, "raw_syscalls") == 0)
            return true;
    return false;
}

/* Return whether the process executes a 32-bit program, from the class in its ELF header (elf.h). Kernel threads have
 * no ELF file. */
static bool is_narrow(const char *pid)
{
    unsigned char head[EI_NIDENT] = {0};
    char *path = format("/proc/%s/exe", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool narrow = fd >= 0 && read(fd, head, sizeof head) == sizeof head && head[EI_CLASS] == ELFCLASS32;
    close_file(fd);
    free(path);
    return narrow;
}

/* List processes that run 32-bit programs. On a 32-bit machine all programs use its own numbers. */
static void narrow_json(struct json *json, enum machine machine)
{
    DIR *processes = machine == ARM ? NULL : opendir("/proc");
    json_open(json, "narrow", '[');
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]) && is_narrow(entry->d_name))
            json_integer(json, NULL, strtol(entry->d_name, NULL, 10));
    json_close(json, ']');
    if (processes)
        closedir(processes);
}

void calls_json(struct json *json, const struct selection *selection)
{
    enum machine machine = this_machine();
    if (machine == NR_MACHINES || !is_raw(selection)) {
        json_null(json, "syscall_numbers");
        return;
    }
    json_open(json, "syscall_numbers", '{');
    json_string(json, "machine", machine_names[machine]);
    json_open(json, "numbers", '{');
    for (EACH_CALL(call, machine))
        json_integer(json, call.name, call.number);
    json_close(json, '}');
    narrow_json(json, machine);
    json_close(json, '}');
}
