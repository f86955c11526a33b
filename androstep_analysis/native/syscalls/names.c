// Names of system calls with the roles of their arguments, and names of errors.
#include "syscalls/names.h"

#include <stdlib.h>
#include <string.h>

struct call_roles {
    const char *name;
    const char *roles;
};

static const struct call_roles ROLES[] = {
    {"open", "pFm"},
    {"openat", "fpFm"},
    {"openat2", "fph"},
    {"creat", "pm"},
    {"close", "f"},
    {"close_range", "fgF"},
    {"read", "f-b"},
    {"write", "f-b"},
    {"pread64", "f-bo"},
    {"pread", "f-bo"},
    {"pwrite64", "f-bo"},
    {"pwrite", "f-bo"},
    {"readv", "fv"},
    {"writev", "fv"},
    {"preadv", "fv-o"},
    {"pwritev", "fv-o"},
    {"preadv2", "fv-oF"},
    {"pwritev2", "fv-oF"},
    {"lseek", "for"},
    {"_llseek", "fo-r"},
    {"llseek", "fo-r"},
    {"dup", "f"},
    {"dup2", "fg"},
    {"dup3", "fgF"},
    {"fcntl", "frx"},
    {"fcntl64", "frx"},
    {"flock", "fr"},
    {"rename", "pq"},
    {"renameat", "fpgq"},
    {"renameat2", "fpgqF"},
    {"link", "pq"},
    {"linkat", "fpgqF"},
    {"symlink", "pq"},
    {"symlinkat", "pgq"},
    {"unlink", "p"},
    {"unlinkat", "fpF"},
    {"mkdir", "pm"},
    {"mkdirat", "fpm"},
    {"rmdir", "p"},
    {"mknod", "pm"},
    {"mknodat", "fpm"},
    {"truncate", "pb"},
    {"truncate64", "pb"},
    {"ftruncate", "fb"},
    {"ftruncate64", "fb"},
    {"fallocate", "fFob"},
    {"fsync", "f"},
    {"fdatasync", "f"},
    {"syncfs", "f"},
    {"sync_file_range", "fobF"},
    {"sync_file_range2", "fFob"},
    {"arm_sync_file_range", "fFob"},
    {"msync", "abF"},
    {"fadvise64", "fobr"},
    {"fadvise64_64", "fobr"},
    {"arm_fadvise64_64", "frob"},
    {"readahead", "fob"},
    {"mmap", "abrFno"},
    {"mmap2", "abrFno"},
    {"old_mmap", "abrFno"},
    {"munmap", "ab"},
    {"mremap", "ab-F-"},
    {"mprotect", "abr"},
    {"pkey_mprotect", "abr"},
    {"madvise", "abr"},
    {"remap_file_pages", "abroF"},
    {"brk", "a"},
    {"mlock", "ab"},
    {"mlock2", "abF"},
    {"munlock", "ab"},
    {"sendfile", "fgOb"},
    {"sendfile64", "fgOb"},
    {"copy_file_range", "fogObF"},
    {"splice", "fogObF"},
    {"tee", "fgbF"},
    {"vmsplice", "fv-F"},
    {"stat", "ps"},
    {"stat64", "ps"},
    {"oldstat", "ps"},
    {"lstat", "ps"},
    {"lstat64", "ps"},
    {"fstat", "fs"},
    {"fstat64", "fs"},
    {"newfstatat", "fpsF"},
    {"fstatat64", "fpsF"},
    {"fstatat", "fpsF"},
    {"statx", "fpFrs"},
    {"statfs", "p"},
    {"statfs64", "p"},
    {"fstatfs", "f"},
    {"fstatfs64", "f"},
    {"access", "pF"},
    {"faccessat", "fpF"},
    {"faccessat2", "fpF"},
    {"chmod", "pm"},
    {"fchmod", "fm"},
    {"fchmodat", "fpm"},
    {"fchmodat2", "fpmF"},
    {"chown", "p"},
    {"chown32", "p"},
    {"lchown", "p"},
    {"lchown32", "p"},
    {"fchown", "f"},
    {"fchown32", "f"},
    {"fchownat", "fp--F"},
    {"utime", "p"},
    {"utimes", "p"},
    {"futimesat", "fp"},
    {"utimensat", "fp-F"},
    {"utimensat_time64", "fp-F"},
    {"getdents", "f-b"},
    {"getdents64", "f-b"},
    {"readlink", "pqb"},
    {"readlinkat", "fpqb"},
    {"getcwd", "pb"},
    {"chdir", "p"},
    {"fchdir", "f"},
    {"chroot", "p"},
    {"mount", "pqrF"},
    {"umount", "p"},
    {"umount2", "pF"},
    {"oldumount", "p"},
    {"swapon", "pF"},
    {"swapoff", "p"},
    {"pivot_root", "pq"},
    {"open_tree", "fpF"},
    {"move_mount", "fpgqF"},
    {"setxattr", "pr-bF"},
    {"lsetxattr", "pr-bF"},
    {"fsetxattr", "fr-bF"},
    {"getxattr", "pr-b"},
    {"lgetxattr", "pr-b"},
    {"fgetxattr", "fr-b"},
    {"listxattr", "p-b"},
    {"llistxattr", "p-b"},
    {"flistxattr", "f-b"},
    {"removexattr", "pr"},
    {"lremovexattr", "pr"},
    {"fremovexattr", "fr"},
    {"name_to_handle_at", "fp--F"},
    {"open_by_handle_at", "f-F"},
    {"ioctl", "fr"},
    {"pipe", "P"},
    {"pipe2", "PF"},
    {"socketpair", "rF-P"},
    {"socket", "rF"},
    {"bind", "f"},
    {"connect", "f"},
    {"listen", "f"},
    {"accept", "f"},
    {"accept4", "f--F"},
    {"shutdown", "fr"},
    {"getsockname", "f"},
    {"getpeername", "f"},
    {"getsockopt", "f-r"},
    {"setsockopt", "f-r"},
    {"send", "f-bF"},
    {"recv", "f-bF"},
    {"sendto", "f-bF"},
    {"recvfrom", "f-bF"},
    {"sendmsg", "fMF"},
    {"recvmsg", "fMF"},
    {"sendmmsg", "f--F"},
    {"recvmmsg", "f--F"},
    {"epoll_create1", "F"},
    {"epoll_ctl", "frg"},
    {"epoll_wait", "f"},
    {"epoll_pwait", "f"},
    {"epoll_pwait2", "f"},
    {"eventfd2", "-F"},
    {"signalfd", "f"},
    {"signalfd4", "f--F"},
    {"timerfd_create", "rF"},
    {"timerfd_settime", "fF"},
    {"timerfd_settime64", "fF"},
    {"timerfd_gettime", "f"},
    {"inotify_init1", "F"},
    {"inotify_add_watch", "fpF"},
    {"inotify_rm_watch", "f"},
    {"fanotify_init", "F"},
    {"fanotify_mark", "fF-gq"},
    {"memfd_create", "rF"},
    {"userfaultfd", "F"},
    {"pidfd_open", "-F"},
    {"pidfd_getfd", "fg"},
    {"io_uring_enter", "f---F"},
    {"io_uring_register", "fr"},
    {"clone", "C"},
    {"clone2", "C"},
    {"clone3", "C"},
    {"unshare", "F"},
    {"setns", "fF"},
    {"execve", "p"},
    {"execveat", "fp--F"},
    {"exit", "r"},
    {"_exit", "r"},
    {"exit_group", "r"},
    {"umask", "m"},
    {"futex", "ar"},
};

enum { NR_ROLES = sizeof(ROLES) / sizeof(*ROLES) };

// Names of errors in numeric order: asm-generic/errno.h and, from 512, linux/errno.h.
static const char ERRNOS[] =
    "EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST "
    "EXDEV "
    "ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE "
    "EDEADLK "
    "ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI "
    "EL2HLT "
    "EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV "
    "ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX "
    "ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT "
    "ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET "
    "ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN "
    "EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE "
    "ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON";
static const char KERNEL_ERRNOS[] = "ERESTARTSYS ERESTARTNOINTR ERESTARTNOHAND ENOIOCTLCMD ERESTART_RESTARTBLOCK "
                                    "EPROBE_DEFER EOPENSTALE ENOPARAM - - - - ENOTSUPP - - - - EIOCBQUEUED";
enum { FIRST_ERRNO = 1, FIRST_KERNEL_ERRNO = 512, PLACES = 1024, MAX_ERRNOS = 256 };

struct name_table {
    struct text names[MAX_ERRNOS];
    int values[MAX_ERRNOS];
    int count;
    uint16_t slots[PLACES]; // index of the name + 1
};

struct call_names {
    struct name_table calls;
    struct name_table errnos;
};

static size_t slot_of(struct text name)
{
    uint32_t hash = 2166136261u; // FNV-1a

    for (const uint8_t *at = name.at; at < name.end; at++)
        hash = (hash ^ *at) * 16777619u;
    return (hash ^ hash >> 16) % PLACES;
}

static void name_add(struct name_table *table, struct text name, int value)
{
    size_t slot = slot_of(name);

    while (table->slots[slot])
        slot = (slot + 1) % PLACES;
    table->names[table->count] = name;
    table->values[table->count] = value;
    table->slots[slot] = (uint16_t)++table->count;
}

static int name_find(const struct name_table *table, struct text name, int none)
{
    for (size_t slot = slot_of(name); table->slots[slot]; slot = (slot + 1) % PLACES) {
        int number = table->slots[slot] - 1;
        struct text candidate = table->names[number];

        if (text_length(candidate) == text_length(name) && !memcmp(candidate.at, name.at, text_length(name)))
            return table->values[number];
    }
    return none;
}

static void add_errnos(struct name_table *table, const char *list, int number)
{
    while (*list) {
        size_t length = strcspn(list, " ");

        if (*list != '-')
            name_add(table, (struct text){(const uint8_t *)list, (const uint8_t *)list + length}, number);
        number++;
        list += length + (list[length] == ' ');
    }
}

struct call_names *call_names_new(void)
{
    struct call_names *names = calloc(1, sizeof(*names));

    _Static_assert((int)NR_ROLES <= (int)MAX_ERRNOS, "a table of names is too small");
    if (!names)
        return NULL;
    for (int number = 0; number < NR_ROLES; number++) {
        const uint8_t *name = (const uint8_t *)ROLES[number].name;

        name_add(&names->calls, (struct text){name, name + strlen(ROLES[number].name)}, number);
    }
    add_errnos(&names->errnos, ERRNOS, FIRST_ERRNO);
    add_errnos(&names->errnos, KERNEL_ERRNOS, FIRST_KERNEL_ERRNO);
    add_errnos(&names->errnos, "EWOULDBLOCK", 11);
    add_errnos(&names->errnos, "EDEADLOCK", 35);
    return names;
}

int call_names_find(const struct call_names *names, struct text name)
{
    return name_find(&names->calls, name, -1);
}

const char *call_roles(int number)
{
    return ROLES[number].roles;
}

int errno_find(const struct call_names *names, struct text name)
{
    return name_find(&names->errnos, name, 0);
}

struct text errno_name(int number)
{
    bool is_internal = number >= FIRST_KERNEL_ERRNO;
    const char *at = is_internal ? KERNEL_ERRNOS : ERRNOS;

    for (int n = is_internal ? FIRST_KERNEL_ERRNO : FIRST_ERRNO;; n++) {
        size_t length = strcspn(at, " ");

        if (n == number)
            return (struct text){(const uint8_t *)at, (const uint8_t *)at + (*at == '-' ? 0 : length)};
        if (!at[length])
            return (struct text){(const uint8_t *)at, (const uint8_t *)at};
        at += length + 1;
    }
}
