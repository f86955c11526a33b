#include "iotrace/calls.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/files.h"

enum machine { X86_64, AARCH64, ARM, NR_MACHINES };

struct call {
    const char *name;           /* as in programs and strace */
    const char *event;          /* as in the kernel's tracepoints; NULL: the same */
    short numbers[NR_MACHINES]; /* -1: the machine lacks this call */
};

/* System call numbers of Linux 6.13: arch/x86/entry/syscalls/syscall_64.tbl, scripts/syscall.tbl (arm64) and
 * arch/arm/tools/syscall.tbl. They never change. */
static const struct call calls[] = {
    {"open", NULL, {2, -1, 5}},
    {"creat", NULL, {85, -1, 8}},
    {"openat", NULL, {257, 56, 322}},
    {"openat2", NULL, {437, 437, 437}},
    {"open_by_handle_at", NULL, {304, 265, 371}},
    {"close", NULL, {3, 57, 6}},
    {"close_range", NULL, {436, 436, 436}},
    {"dup", NULL, {32, 23, 41}},
    {"dup2", NULL, {33, -1, 63}},
    {"dup3", NULL, {292, 24, 358}},
    {"fcntl", NULL, {72, 25, 55}},
    {"fcntl64", NULL, {-1, -1, 221}},
    {"read", NULL, {0, 63, 3}},
    {"write", NULL, {1, 64, 4}},
    {"pread64", NULL, {17, 67, 180}},
    {"pwrite64", NULL, {18, 68, 181}},
    {"readv", NULL, {19, 65, 145}},
    {"writev", NULL, {20, 66, 146}},
    {"preadv", NULL, {295, 69, 361}},
    {"pwritev", NULL, {296, 70, 362}},
    {"preadv2", NULL, {327, 286, 392}},
    {"pwritev2", NULL, {328, 287, 393}},
    {"lseek", NULL, {8, 62, 19}},
    {"_llseek", "llseek", {-1, -1, 140}},
    {"sendfile", "sendfile64", {40, 71, -1}},
    {"sendfile", NULL, {-1, -1, 187}},
    {"sendfile64", NULL, {-1, -1, 239}},
    {"splice", NULL, {275, 76, 340}},
    {"tee", NULL, {276, 77, 342}},
    {"vmsplice", NULL, {278, 75, 343}},
    {"copy_file_range", NULL, {326, 285, 391}},
    {"fsync", NULL, {74, 82, 118}},
    {"fdatasync", NULL, {75, 83, 148}},
    {"sync", NULL, {162, 81, 36}},
    {"syncfs", NULL, {306, 267, 373}},
    {"sync_file_range", NULL, {277, 84, -1}},
    {"arm_sync_file_range", "sync_file_range2", {-1, -1, 341}},
    {"msync", NULL, {26, 227, 144}},
    {"truncate", NULL, {76, 45, 92}},
    {"truncate64", NULL, {-1, -1, 193}},
    {"ftruncate", NULL, {77, 46, 93}},
    {"ftruncate64", NULL, {-1, -1, 194}},
    {"fallocate", NULL, {285, 47, 352}},
    {"fadvise64", NULL, {221, 223, -1}},
    {"arm_fadvise64_64", "fadvise64_64", {-1, -1, 270}},
    {"readahead", NULL, {187, 213, 225}},
    {"mmap", NULL, {9, 222, -1}},
    {"mmap2", "mmap_pgoff", {-1, -1, 192}},
    {"munmap", NULL, {11, 215, 91}},
    {"mremap", NULL, {25, 216, 163}},
    {"stat", "newstat", {4, -1, 106}},
    {"stat64", NULL, {-1, -1, 195}},
    {"lstat", "newlstat", {6, -1, 107}},
    {"lstat64", NULL, {-1, -1, 196}},
    {"fstat", "newfstat", {5, 80, 108}},
    {"fstat64", NULL, {-1, -1, 197}},
    {"newfstatat", NULL, {262, 79, -1}},
    {"fstatat64", NULL, {-1, -1, 327}},
    {"statx", NULL, {332, 291, 397}},
    {"statfs", NULL, {137, 43, 99}},
    {"statfs64", NULL, {-1, -1, 266}},
    {"fstatfs", NULL, {138, 44, 100}},
    {"fstatfs64", NULL, {-1, -1, 267}},
    {"access", NULL, {21, -1, 33}},
    {"faccessat", NULL, {269, 48, 334}},
    {"faccessat2", NULL, {439, 439, 439}},
    {"readlink", NULL, {89, -1, 85}},
    {"readlinkat", NULL, {267, 78, 332}},
    {"getdents", NULL, {78, -1, 141}},
    {"getdents64", NULL, {217, 61, 217}},
    {"mkdir", NULL, {83, -1, 39}},
    {"mkdirat", NULL, {258, 34, 323}},
    {"rmdir", NULL, {84, -1, 40}},
    {"mknod", NULL, {133, -1, 14}},
    {"mknodat", NULL, {259, 33, 324}},
    {"unlink", NULL, {87, -1, 10}},
    {"unlinkat", NULL, {263, 35, 328}},
    {"rename", NULL, {82, -1, 38}},
    {"renameat", NULL, {264, 38, 329}},
    {"renameat2", NULL, {316, 276, 382}},
    {"link", NULL, {86, -1, 9}},
    {"linkat", NULL, {265, 37, 330}},
    {"symlink", NULL, {88, -1, 83}},
    {"symlinkat", NULL, {266, 36, 331}},
    {"chmod", NULL, {90, -1, 15}},
    {"fchmod", NULL, {91, 52, 94}},
    {"fchmodat", NULL, {268, 53, 333}},
    {"fchmodat2", NULL, {452, 452, 452}},
    {"utime", NULL, {132, -1, -1}},
    {"utimes", NULL, {235, -1, -1}},
    {"utimes", "utimes_time32", {-1, -1, 269}},
    {"futimesat", NULL, {261, -1, -1}},
    {"futimesat", "futimesat_time32", {-1, -1, 326}},
    {"utimensat", NULL, {280, 88, -1}},
    {"utimensat", "utimensat_time32", {-1, -1, 348}},
    {"utimensat_time64", "utimensat", {-1, -1, 412}},
    {"chdir", NULL, {80, 49, 12}},
    {"fchdir", NULL, {81, 50, 133}},
    {"chroot", NULL, {161, 51, 61}},
    {"clone", NULL, {56, 220, 120}},
    {"clone3", NULL, {435, 435, 435}},
    {"fork", NULL, {57, -1, 2}},
    {"vfork", NULL, {58, -1, 190}},
    {"execve", NULL, {59, 221, 11}},
    {"execveat", NULL, {322, 281, 387}},
    {"exit", NULL, {60, 93, 1}},
    {"exit_group", NULL, {231, 94, 248}},
    {"unshare", NULL, {272, 97, 337}},
    {"pipe", NULL, {22, -1, 42}},
    {"pipe2", NULL, {293, 59, 359}},
    {"socket", NULL, {41, 198, 281}},
    {"socketpair", NULL, {53, 199, 288}},
    {"accept", NULL, {43, 202, 285}},
    {"accept4", NULL, {288, 242, 366}},
    {"sendto", NULL, {44, 206, 290}},
    {"recvfrom", NULL, {45, 207, 292}},
    {"sendmsg", NULL, {46, 211, 296}},
    {"recvmsg", NULL, {47, 212, 297}},
    {"sendmmsg", NULL, {307, 269, 374}},
    {"recvmmsg", NULL, {299, 243, -1}},
    {"recvmmsg", "recvmmsg_time32", {-1, -1, 365}},
    {"epoll_create", NULL, {213, -1, 250}},
    {"epoll_create1", NULL, {291, 20, 357}},
    {"eventfd", NULL, {284, -1, 351}},
    {"eventfd2", NULL, {290, 19, 356}},
    {"signalfd", NULL, {282, -1, 349}},
    {"signalfd4", NULL, {289, 74, 355}},
    {"timerfd_create", NULL, {283, 85, 350}},
    {"inotify_init", NULL, {253, -1, 316}},
    {"inotify_init1", NULL, {294, 26, 360}},
    {"fanotify_init", NULL, {300, 262, 367}},
    {"memfd_create", NULL, {319, 279, 385}},
    {"pidfd_open", NULL, {434, 434, 434}},
    {"pidfd_getfd", NULL, {438, 438, 438}},
    {"userfaultfd", NULL, {323, 282, 388}},
    {"perf_event_open", NULL, {298, 241, 364}},
    {"io_setup", NULL, {206, 0, 243}},
    {"io_submit", NULL, {209, 2, 246}},
    {"io_uring_setup", NULL, {425, 425, 425}},
    {"io_uring_enter", NULL, {426, 426, 426}},
};

#define NR_CALLS (sizeof calls / sizeof *calls)

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
        char *name = format("sys_%s_%s", sides[side], call->event ? call->event : call->name);
        selection_choose(selection, tracefs, "syscalls", name, filter_others());
        free(name);
    }
}

/* Build a filter that passes only these calls. */
static char *numbers_filter(enum machine machine)
{
    char *filter = NULL;
    for (size_t i = 0; i < NR_CALLS; i++) {
        if (calls[i].numbers[machine] < 0)
            continue;
        char *longer = format("%s%sid == %d", filter ? filter : "", filter ? " || " : "", calls[i].numbers[machine]);
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
    for (size_t i = 0; i < NR_CALLS; i++)
        if (machine == NR_MACHINES || calls[i].numbers[machine] >= 0)
            choose_pair(selection, tracefs, &calls[i]);
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
    if (fd >= 0)
        close(fd);
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
    for (size_t i = 0; i < NR_CALLS; i++)
        if (calls[i].numbers[machine] >= 0)
            json_integer(json, calls[i].name, calls[i].numbers[machine]);
    json_close(json, '}');
    narrow_json(json, machine);
    json_close(json, '}');
}
