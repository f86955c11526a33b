// Classifies recorded calls by their names.
#include "calls/types.h"

#include "calls/flags.h"
#include "calls/left.h"
#include "core/table.h"

#include <string.h>

enum { LLSEEK = 1 };

static const struct call_type CALLS[] = {
    {"open openat openat2", STEP_OPEN, OPEN, 0, 0},
    {"creat", STEP_OPEN, OPEN, 0, FLAG_CREAT | FLAG_WRONLY | FLAG_TRUNC},
    {"close", STEP_CLOSE, CLOSE, 0, 0},
    {"close_range", STEP_CLOSE_RANGE, NO_CALL, LEFT_PROCESS, 0},
    {"dup", STEP_DUP, DUP, 0, 0},
    {"dup2 dup3", STEP_DUP_TO, DUP, 0, 0},
    {"fcntl fcntl64", STEP_FCNTL, DUP, 0, 0},
    {"ioctl", STEP_IOCTL, NO_CALL, 0, 0},
    {"lseek", STEP_SEEK, LSEEK, 0, 0},
    {"_llseek llseek", STEP_SEEK, LSEEK, 0, LLSEEK},
    {"read", STEP_STREAM, READ, 0, 0},
    {"write", STEP_STREAM, WRITE, 0, 0},
    {"readv", STEP_STREAM, READV, 0, 0},
    {"writev", STEP_STREAM, WRITEV, 0, 0},
    {"pread64 pread", STEP_AT_OFFSET, PREAD, 0, 0},
    {"pwrite64 pwrite", STEP_AT_OFFSET, PWRITE, 0, 0},
    {"preadv preadv2", STEP_AT_OFFSET, PREADV, 0, 0},
    {"pwritev pwritev2", STEP_AT_OFFSET, PWRITEV, 0, 0},
    {"mapped_pread", STEP_AT_OFFSET, MAPPED_READ, 0, 0},
    {"mapped_pwrite", STEP_AT_OFFSET, MAPPED_WRITE, 0, 0},
    {"sendfile sendfile64", STEP_BETWEEN, SENDFILE, 0, 0},
    {"splice", STEP_BETWEEN, SPLICE, 0, 0},
    {"copy_file_range", STEP_BETWEEN, COPY_FILE_RANGE, 0, 0},
    {"tee vmsplice", STEP_ON_SPECIAL, NO_CALL, LEFT_PIPE, 0},
    {"fsync", STEP_DESCRIPTOR, FSYNC, 0, 0},
    {"fdatasync", STEP_DESCRIPTOR, FDATASYNC, 0, 0},
    {"syncfs", STEP_DESCRIPTOR, SYNCFS, 0, 0},
    {"sync", STEP_SYNC, SYNC, 0, 0},
    {"sync_file_range sync_file_range2 arm_sync_file_range", STEP_DESCRIPTOR, SYNC_FILE_RANGE, 0, 0},
    {"ftruncate ftruncate64", STEP_DESCRIPTOR, FTRUNCATE, 0, 0},
    {"fallocate", STEP_DESCRIPTOR, FALLOCATE, 0, 0},
    {"fadvise64 fadvise64_64 arm_fadvise64_64", STEP_DESCRIPTOR, FADVISE, 0, 0},
    {"readahead", STEP_DESCRIPTOR, READAHEAD, 0, 0},
    {"fstat fstat64", STEP_DESCRIPTOR, FSTAT, 0, 0},
    {"getdents getdents64", STEP_DESCRIPTOR, GETDENTS, 0, 0},
    {"fstatfs fstatfs64", STEP_DESCRIPTOR, STATFS, 0, 0},
    {"fchmod", STEP_DESCRIPTOR, FCHMOD, 0, 0},
    {"mmap mmap2 old_mmap", STEP_MMAP, MMAP, 0, 0},
    {"munmap", STEP_MUNMAP, MUNMAP, 0, 0},
    {"mremap", STEP_MREMAP, NO_CALL, 0, 0},
    {"msync", STEP_MSYNC, MSYNC, 0, 0},
    {"mprotect pkey_mprotect madvise brk mlock mlock2 munlock", STEP_MEMORY, NO_CALL, LEFT_MEMORY, 0},
    {"stat stat64 oldstat newfstatat fstatat64 fstatat statx", STEP_PATH, STAT, 0, 0},
    {"lstat lstat64", STEP_PATH, STAT, 0, FLAG_AT_NOFOLLOW},
    {"access faccessat faccessat2", STEP_PATH, ACCESS, 0, 0},
    {"readlink readlinkat", STEP_PATH, READLINK, 0, FLAG_AT_NOFOLLOW},
    {"statfs statfs64", STEP_PATH, STATFS, 0, 0},
    {"truncate truncate64", STEP_PATH, TRUNCATE, 0, 0},
    {"chmod fchmodat fchmodat2", STEP_PATH, CHMOD, 0, 0},
    {"utime utimes futimesat utimensat utimensat_time64", STEP_PATH, UTIMENS, 0, 0},
    {"mkdir mkdirat", STEP_MAKE, MKDIR, 0, 0},
    {"rmdir", STEP_REMOVE, RMDIR, 0, 0},
    {"unlink unlinkat", STEP_REMOVE, UNLINK, 0, 0},
    {"rename renameat renameat2", STEP_RENAME, RENAME, 0, 0},
    {"link linkat", STEP_LINK, LINK, 0, 0},
    {"symlink symlinkat", STEP_SYMLINK, SYMLINK, 0, 0},
    {"mknod mknodat", STEP_MKNOD, NO_CALL, 0, 0},
    {"chdir", STEP_CHDIR, NO_CALL, LEFT_NO_EFFECT, 0},
    {"fchdir", STEP_FCHDIR, NO_CALL, LEFT_NO_EFFECT, 0},
    {"getcwd", STEP_GETCWD, NO_CALL, LEFT_NO_EFFECT, 0},
    {"clone clone2 clone3 fork", STEP_CLONE, NO_CALL, LEFT_PROCESS, 0},
    {"vfork", STEP_CLONE, NO_CALL, LEFT_PROCESS, FLAG_CLONE_VM},
    {"unshare", STEP_UNSHARE, NO_CALL, LEFT_PROCESS, 0},
    {"execve execveat", STEP_EXEC, NO_CALL, LEFT_PROCESS, 0},
    {"exit _exit", STEP_EXIT, NO_CALL, LEFT_PROCESS, 0},
    {"exit_group", STEP_EXIT_GROUP, NO_CALL, LEFT_PROCESS, 0},
    {"wait4 waitid waitpid", STEP_NOTHING, NO_CALL, LEFT_PROCESS, 0},
    {"socket accept accept4", STEP_SPECIAL, NO_CALL, LEFT_SOCKET, 0},
    {"socketpair", STEP_SPECIAL_PAIR, NO_CALL, LEFT_SOCKET, 0},
    {"pipe pipe2", STEP_SPECIAL_PAIR, NO_CALL, LEFT_PIPE, 0},
    {"eventfd eventfd2 epoll_create epoll_create1 timerfd_create signalfd signalfd4 inotify_init "
     "inotify_init1 fanotify_init userfaultfd perf_event_open bpf io_uring_setup pidfd_open",
     STEP_SPECIAL, NO_CALL, LEFT_ANON, 0},
    {"memfd_create memfd_secret", STEP_SPECIAL, NO_CALL, LEFT_MEMFD, 0},
    {"pidfd_getfd open_by_handle_at", STEP_FOREIGN, NO_CALL, LEFT_UNSUPPORTED, 0},
    {"bind connect listen shutdown getsockname getpeername getsockopt setsockopt send recv sendto recvfrom "
     "sendmsg sendmmsg recvmmsg",
     STEP_ON_SPECIAL, NO_CALL, LEFT_SOCKET, 0},
    {"recvmsg", STEP_ON_SPECIAL, NO_CALL, LEFT_SOCKET, 1},
    {"epoll_ctl epoll_wait epoll_pwait epoll_pwait2 timerfd_settime timerfd_gettime inotify_add_watch "
     "inotify_rm_watch io_uring_register",
     STEP_ON_SPECIAL, NO_CALL, LEFT_ANON, 0},
    {"io_uring_enter io_setup io_submit io_getevents chown chown32 lchown lchown32 fchown fchown32 "
     "fchownat setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
     "removexattr lremovexattr fremovexattr chroot pivot_root mount move_mount umount umount2 swapon "
     "swapoff quotactl remap_file_pages name_to_handle_at",
     STEP_UNSUPPORTED, NO_CALL, 0, 0},
};

enum { NR_CALLS = sizeof(CALLS) / sizeof(*CALLS) };

static const struct call_type OTHER = {"", STEP_NOTHING, NO_CALL, LEFT_NO_EFFECT, 0};

const struct call_type *call_type(uint8_t index)
{
    _Static_assert((int)NR_CALLS < (int)CALL_UNKNOWN, "numbers of calls do not fit");
    return index < NR_CALLS ? &CALLS[index] : &OTHER;
}

static bool is_among(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = length ? strstr(names, name) : NULL; at; at = strstr(at + 1, name))
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

// Returns the index of the type of a call with this name; CALL_UNKNOWN if the call does nothing to files.
API uint8_t calls_number(const char *name)
{
    for (int index = 0; index < NR_CALLS; index++)
        if (is_among(CALLS[index].names, name))
            return (uint8_t)index;
    return CALL_UNKNOWN;
}
