// Names of system calls with the roles of their arguments, and names of errors.
#include "syscalls/names.h"

#include <stdlib.h>
#include <string.h>

struct call_roles {
    const char *roles;
    const char *names; // separated by spaces
};

static const struct call_roles ROLES[] = {
    {"pFm", "open"},
    {"fpFm", "openat"},
    {"fph", "openat2"},
    {"pm", "creat mkdir mknod chmod"},
    {"f", "close dup fsync fdatasync syncfs fstatfs fstatfs64 fchown fchown32 fchdir bind connect listen accept "
          "getsockname getpeername epoll_wait epoll_pwait epoll_pwait2 signalfd timerfd_gettime "
          "inotify_rm_watch"},
    {"fgF", "close_range dup3"},
    {"f-b", "read write getdents getdents64 flistxattr"},
    {"f-bo", "pread64 pread pwrite64 pwrite"},
    {"fv", "readv writev"},
    {"fv-o", "preadv pwritev"},
    {"fv-oF", "preadv2 pwritev2"},
    {"for", "lseek"},
    {"fo-r", "_llseek llseek"},
    {"fg", "dup2 pidfd_getfd"},
    {"frx", "fcntl fcntl64"},
    {"fr", "flock fremovexattr ioctl shutdown io_uring_register"},
    {"pq", "rename link symlink pivot_root"},
    {"fpgq", "renameat"},
    {"fpgqF", "renameat2 linkat move_mount"},
    {"pgq", "symlinkat"},
    {"p", "unlink rmdir statfs statfs64 chown chown32 lchown lchown32 utime utimes chdir chroot umount "
          "oldumount swapoff execve"},
    {"fpF", "unlinkat faccessat faccessat2 open_tree inotify_add_watch"},
    {"fpm", "mkdirat mknodat fchmodat"},
    {"pb", "truncate truncate64 getcwd"},
    {"fb", "ftruncate ftruncate64"},
    {"fFob", "fallocate sync_file_range2 arm_sync_file_range"},
    {"fobF", "sync_file_range"},
    {"abF", "msync mlock2"},
    {"fobr", "fadvise64 fadvise64_64"},
    {"frob", "arm_fadvise64_64"},
    {"fob", "readahead"},
    {"abrFno", "mmap mmap2 old_mmap"},
    {"ab", "munmap mlock munlock"},
    {"ab-F-", "mremap"},
    {"abr", "mprotect pkey_mprotect madvise"},
    {"abroF", "remap_file_pages"},
    {"a", "brk"},
    {"fgOb", "sendfile sendfile64"},
    {"fogObF", "copy_file_range splice"},
    {"fgbF", "tee"},
    {"fv-F", "vmsplice"},
    {"ps", "stat stat64 oldstat lstat lstat64"},
    {"fs", "fstat fstat64"},
    {"fpsF", "newfstatat fstatat64 fstatat"},
    {"fpFrs", "statx"},
    {"pF", "access umount2 swapon"},
    {"fm", "fchmod"},
    {"fpmF", "fchmodat2"},
    {"fp--F", "fchownat name_to_handle_at execveat"},
    {"fp", "futimesat"},
    {"fp-F", "utimensat utimensat_time64"},
    {"pqb", "readlink"},
    {"fpqb", "readlinkat"},
    {"pqrF", "mount"},
    {"pr-bF", "setxattr lsetxattr"},
    {"fr-bF", "fsetxattr"},
    {"pr-b", "getxattr lgetxattr"},
    {"fr-b", "fgetxattr"},
    {"p-b", "listxattr llistxattr"},
    {"pr", "removexattr lremovexattr"},
    {"f-F", "open_by_handle_at"},
    {"P", "pipe"},
    {"PF", "pipe2"},
    {"rF-P", "socketpair"},
    {"rF", "socket timerfd_create memfd_create"},
    {"f--F", "accept4 sendmmsg recvmmsg signalfd4"},
    {"f-r", "getsockopt setsockopt"},
    {"f-bF", "send recv sendto recvfrom"},
    {"fMF", "sendmsg recvmsg"},
    {"F", "epoll_create1 inotify_init1 fanotify_init userfaultfd unshare"},
    {"frg", "epoll_ctl"},
    {"-F", "eventfd2 pidfd_open"},
    {"fF", "timerfd_settime timerfd_settime64 setns"},
    {"fF-gq", "fanotify_mark"},
    {"f---F", "io_uring_enter"},
    {"C", "clone clone2 clone3"},
    {"r", "exit _exit exit_group"},
    {"m", "umask"},
    {"ar", "futex"},
};

enum { NR_ROLES = sizeof(ROLES) / sizeof(*ROLES) };

// Names of errors in numeric order: asm-generic/errno.h and, from 512, linux/errno.h.
static const char ERRNOS[] =
    "EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST "
    "EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM "
    "ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG "
    "EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET "
    "ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG "
    "ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE "
    "EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE "
    "EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN "
    "ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL "
    "EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD "
    "ENOTRECOVERABLE ERFKILL EHWPOISON";
static const char KERNEL_ERRNOS[] = "ERESTARTSYS ERESTARTNOINTR ERESTARTNOHAND ENOIOCTLCMD ERESTART_RESTARTBLOCK "
                                    "EPROBE_DEFER EOPENSTALE ENOPARAM - - - - ENOTSUPP - - - - EIOCBQUEUED";
enum { FIRST_ERRNO = 1, FIRST_KERNEL_ERRNO = 512, PLACES = 1024, MAX_NAMES = 256 };

struct name_table {
    struct text names[MAX_NAMES];
    int values[MAX_NAMES];
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

// Return the index of a name, or -1.
static int name_find(const struct name_table *table, struct text name)
{
    for (size_t slot = slot_of(name); table->slots[slot]; slot = (slot + 1) % PLACES) {
        int number = table->slots[slot] - 1;
        struct text candidate = table->names[number];

        if (text_length(candidate) == text_length(name) && !memcmp(candidate.at, name.at, text_length(name)))
            return number;
    }
    return -1;
}

// Add the names of a list with the values from `first` on, `step` apart.
static void add_names(struct name_table *table, const char *list, int first, int step)
{
    for (int value = first; *list; value += step) {
        size_t length = strcspn(list, " ");

        if (*list != '-')
            name_add(table, (struct text){(const uint8_t *)list, (const uint8_t *)list + length}, value);
        list += length + (list[length] == ' ');
    }
}

struct call_names *call_names_new(void)
{
    struct call_names *names = calloc(1, sizeof(*names));

    if (!names)
        return NULL;
    for (int number = 0; number < NR_ROLES; number++)
        add_names(&names->calls, ROLES[number].names, number, 0);
    add_names(&names->errnos, ERRNOS, FIRST_ERRNO, 1);
    add_names(&names->errnos, KERNEL_ERRNOS, FIRST_KERNEL_ERRNO, 1);
    add_names(&names->errnos, "EWOULDBLOCK", 11, 1);
    add_names(&names->errnos, "EDEADLOCK", 35, 1);
    return names;
}

int call_names_find(const struct call_names *names, struct text name)
{
    return name_find(&names->calls, name);
}

const char *call_roles(const struct call_names *names, int number)
{
    return ROLES[names->calls.values[number]].roles;
}

int errno_find(const struct call_names *names, struct text name)
{
    int number = name_find(&names->errnos, name);

    return number < 0 ? 0 : names->errnos.values[number];
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
