// What the arguments of each call are, and how they come into the columns of table syscalls.
#include "strace.h"
#include "syscalls.h"

#include <stdlib.h>
#include <string.h>

// A letter for each argument: f descriptor, n the same or none (mmap), g second descriptor, P two of them that the call
// made, p path, q second path, F flags, r request, m mode, o offset, O second offset, b bytes, a address, s what stat
// found, v buffers of readv, M those of sendmsg and the descriptors it passes, h openat2's struct, x fcntl's third
// argument, C all of clone's.
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

// Names of errors by number: asm-generic/errno.h and, from 512, linux/errno.h.
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
    struct span names[MAX_ERRNOS];
    int values[MAX_ERRNOS];
    int count;
    uint16_t slots[PLACES]; // number of the name + 1
};

struct call_names {
    struct name_table calls;
    struct name_table errnos;
};

static size_t slot_of(struct span name)
{
    uint32_t hash = 2166136261u; // FNV-1a

    for (const uint8_t *at = name.at; at < name.end; at++)
        hash = (hash ^ *at) * 16777619u;
    return (hash ^ hash >> 16) % PLACES;
}

static void name_add(struct name_table *table, struct span name, int value)
{
    size_t slot = slot_of(name);

    while (table->slots[slot])
        slot = (slot + 1) % PLACES;
    table->names[table->count] = name;
    table->values[table->count] = value;
    table->slots[slot] = (uint16_t)++table->count;
}

static int name_find(const struct name_table *table, struct span name, int none)
{
    for (size_t slot = slot_of(name); table->slots[slot]; slot = (slot + 1) % PLACES) {
        int number = table->slots[slot] - 1;
        struct span known = table->names[number];

        if (span_length(known) == span_length(name) && !memcmp(known.at, name.at, span_length(name)))
            return table->values[number];
    }
    return none;
}

static void add_errnos(struct name_table *table, const char *list, int number)
{
    while (*list) {
        size_t length = strcspn(list, " ");

        if (*list != '-')
            name_add(table, (struct span){(const uint8_t *)list, (const uint8_t *)list + length}, number);
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

        name_add(&names->calls, (struct span){name, name + strlen(ROLES[number].name)}, number);
    }
    add_errnos(&names->errnos, ERRNOS, FIRST_ERRNO);
    add_errnos(&names->errnos, KERNEL_ERRNOS, FIRST_KERNEL_ERRNO);
    add_errnos(&names->errnos, "EWOULDBLOCK", 11);
    add_errnos(&names->errnos, "EDEADLOCK", 35);
    return names;
}

int call_names_find(const struct call_names *names, struct span name)
{
    return name_find(&names->calls, name, -1);
}

size_t call_names_count(void)
{
    return NR_ROLES;
}

int errno_find(const struct call_names *names, struct span name)
{
    return name_find(&names->errnos, name, 0);
}

struct span errno_name(int number)
{
    bool is_internal = number >= FIRST_KERNEL_ERRNO;
    const char *at = is_internal ? KERNEL_ERRNOS : ERRNOS;

    for (int n = is_internal ? FIRST_KERNEL_ERRNO : FIRST_ERRNO;; n++) {
        size_t length = strcspn(at, " ");

        if (n == number)
            return (struct span){(const uint8_t *)at, (const uint8_t *)at + (*at == '-' ? 0 : length)};
        if (!at[length])
            return (struct span){(const uint8_t *)at, (const uint8_t *)at};
        at += length + 1;
    }
}

// --- one argument ---------------------------------------------------------------------------------------------------

static void put_number(struct table *table, size_t column, size_t row, struct span text, bool not_negative)
{
    int64_t value;

    if (text.at < text.end && *text.at == '[') // a number behind a pointer
        text.at++;
    if (take_number(&text, &value) && value != NO_INT64 && (value >= 0 || !not_negative))
        put_int64(table, column, row, value);
}

static void put_path(struct table *table, size_t column, size_t row, struct span text, struct scratch *scratch)
{
    const uint8_t *end = text.end;

    if (text.at < end && *text.at == '@') // an abstract socket's name
        text.at++;
    if (end - text.at < 2 || *text.at != '"')
        return;
    for (end--; end > text.at && *end != '"'; end--) // what strace says of it, a security context, comes behind
        ;
    if (end > text.at && !span_starts((struct span){end + 1, text.end}, "...")) // strace left a part out
        put_text(table, column, row, (struct span){text.at + 1, end}, scratch);
}

static void put_words(struct table *table, size_t column, size_t row, struct span text)
{
    enum { LONGEST_WORDS = 1024 };

    if (text.at < text.end && span_length(text) <= LONGEST_WORDS)
        put_string(table, column, row, text.at, span_length(text));
}

// A request, with or without quotes.
static void put_request(struct table *table, size_t row, struct span text, struct scratch *scratch)
{
    if (text.at < text.end && *text.at == '"')
        put_path(table, SYSCALL_REQUEST, row, text, scratch);
    else
        put_words(table, SYSCALL_REQUEST, row, text);
}

static enum fd_kind kind_of(struct span *inner)
{
    static const char DELETED[] = " (deleted)";
    const uint8_t *device;

    if (inner->at < inner->end && *inner->at != '/' && !span_starts(*inner, "(unreachable)")) {
        if (span_starts(*inner, "pipe:"))
            return FD_KIND_PIPE;
        if (span_starts(*inner, "anon_inode:"))
            return FD_KIND_ANON;
        return span_starts(*inner, "socket:") || (*inner->at >= 'A' && *inner->at <= 'Z') ? FD_KIND_SOCKET
                                                                                          : FD_KIND_OTHER;
    }
    if ((device = span_find(*inner, "<char ")) || (device = span_find(*inner, "<block "))) {
        inner->end = device;
        return device[1] == 'c' ? FD_KIND_CHAR : FD_KIND_BLOCK;
    }
    if (span_ends(*inner, DELETED)) {
        inner->end -= strlen(DELETED);
        return span_starts(*inner, "/memfd:") ? FD_KIND_MEMFD : FD_KIND_DELETED;
    }
    return span_starts(*inner, "/memfd:") ? FD_KIND_MEMFD : FD_KIND_PATH;
}

bool put_fd(struct table *table, size_t row, struct span text, size_t fd_column, size_t path_column, size_t kind_column,
            struct scratch *scratch)
{
    static const char WORKING_DIRECTORY[] = "AT_FDCWD";
    int64_t number = -100;
    struct span inner;
    enum fd_kind kind;

    if (span_starts(text, WORKING_DIRECTORY))
        text.at += strlen(WORKING_DIRECTORY);
    else if (!take_number(&text, &number))
        return false;
    if (fd_column != SYSCALL_NONE)
        put_int32(table, fd_column, row, (int32_t)(uint32_t)(uint64_t)number);
    if (!take_decoration(&text, &inner))
        return true;
    kind = kind_of(&inner);
    if (kind == FD_KIND_PATH && span_starts(text, "(deleted)"))
        kind = FD_KIND_DELETED;
    if (inner.at < inner.end)
        put_text(table, path_column, row, inner, scratch);
    if (kind_column != SYSCALL_NONE)
        put_code(table, kind_column, row, (uint8_t)kind);
    return true;
}

static void put_fd1(struct table *table, size_t row, struct span text, struct scratch *scratch)
{
    put_fd(table, row, text, SYSCALL_FD, SYSCALL_FD_PATH, SYSCALL_FD_KIND, scratch);
}

static void put_fd2(struct table *table, size_t row, struct span text, struct scratch *scratch)
{
    put_fd(table, row, text, SYSCALL_FD2, SYSCALL_FD2_PATH, SYSCALL_NONE, scratch);
}

// Two descriptors in brackets: [3</a>, 4].
static void put_pair(struct table *table, size_t row, struct span text, struct scratch *scratch)
{
    struct span element;

    if (text.at >= text.end || *text.at++ != '[')
        return;
    if (take_element(&text, &element))
        put_fd1(table, row, element, scratch);
    if (take_element(&text, &element))
        put_fd2(table, row, element, scratch);
}

static bool take_mode_word(struct span word, int64_t *mode)
{
    static const struct {
        const char *name;
        int bits;
    } WORDS[] = {
        {"S_IFREG", 0100000}, {"S_IFDIR", 0040000},  {"S_IFLNK", 0120000}, {"S_IFCHR", 0020000}, {"S_IFBLK", 0060000},
        {"S_IFIFO", 0010000}, {"S_IFSOCK", 0140000}, {"S_ISUID", 04000},   {"S_ISGID", 02000},   {"S_ISVTX", 01000},
    };
    int64_t number;

    for (size_t n = 0; n < sizeof(WORDS) / sizeof(*WORDS); n++) {
        if (span_is(word, WORDS[n].name)) {
            *mode |= WORDS[n].bits;
            return true;
        }
    }
    if (!take_number(&word, &number))
        return false;
    *mode |= number;
    return true;
}

// S_IFREG|S_ISUID|0755
static void put_mode(struct table *table, size_t row, struct span text)
{
    int64_t mode = 0;

    while (text.at < text.end) {
        const uint8_t *bar = memchr(text.at, '|', span_length(text));
        const uint8_t *end = bar ? bar : text.end;

        if (!take_mode_word((struct span){text.at, end}, &mode))
            return;
        text.at = bar ? bar + 1 : text.end;
    }
    if (mode >= 0 && mode <= INT32_MAX)
        put_int32(table, SYSCALL_MODE, row, (int32_t)mode);
}

// Whether `field` is NAME=..., which leaves what comes behind.
static bool is_field(struct span *field, const char *name)
{
    size_t length = strlen(name);

    if (!span_starts(*field, name) || span_length(*field) <= length || field->at[length] != '=')
        return false;
    field->at += length + 1;
    return true;
}

static bool take_small(struct span *text, int64_t *value)
{
    return take_number(text, value) && *value >= 0 && *value < 1 << 20;
}

// makedev(0x8, 0x1)
static void put_makedev(struct table *table, size_t row, struct span text)
{
    static const char MAKEDEV[] = "makedev(";
    int64_t major, minor;

    if (!span_starts(text, MAKEDEV))
        return;
    text.at += strlen(MAKEDEV);
    if (!take_small(&text, &major) || major >= 1 << 12 || !span_starts(text, ","))
        return;
    text.at++;
    text = span_trimmed(text);
    if (take_small(&text, &minor))
        put_uint32(table, SYSCALL_DEV, row, (uint32_t)(major << 20 | minor));
}

static void put_stat(struct table *table, size_t row, struct span text)
{
    int64_t major = -1, minor = -1;
    struct span field;

    if (text.at >= text.end || *text.at++ != '{')
        return;
    while (take_element(&text, &field)) {
        if (is_field(&field, "st_mode") || is_field(&field, "stx_mode"))
            put_mode(table, row, field);
        else if (is_field(&field, "st_size") || is_field(&field, "stx_size"))
            put_number(table, SYSCALL_SIZE, row, field, true);
        else if (is_field(&field, "st_ino") || is_field(&field, "stx_ino"))
            put_number(table, SYSCALL_INO, row, field, false);
        else if (is_field(&field, "st_dev"))
            put_makedev(table, row, field);
        else if (is_field(&field, "stx_dev_major"))
            take_small(&field, &major);
        else if (is_field(&field, "stx_dev_minor"))
            take_small(&field, &minor);
    }
    if (major >= 0 && major < 1 << 12 && minor >= 0)
        put_uint32(table, SYSCALL_DEV, row, (uint32_t)(major << 20 | minor));
}

// The length of one buffer: {iov_base="abc"..., iov_len=3} or, before strace 4.16, {"abc"..., 3}.
static bool buffer_bytes(struct span text, int64_t *bytes)
{
    struct span field;
    int64_t length = -1;

    if (text.at >= text.end || *text.at++ != '{')
        return false;
    while (take_element(&text, &field)) {
        is_field(&field, "iov_len");
        if (!take_number(&field, &length))
            length = -1;
    }
    return length >= 0 && !__builtin_add_overflow(*bytes, length, bytes);
}

static void put_buffers(struct table *table, size_t row, struct span text)
{
    struct span element;
    int64_t bytes = 0;

    if (text.at >= text.end || *text.at++ != '[')
        return;
    while (take_element(&text, &element))
        if (!buffer_bytes(element, &bytes)) // also "...": strace left some out
            return;
    put_int64(table, SYSCALL_BYTES, row, bytes);
}

static void put_message(struct table *table, size_t row, struct span text, struct scratch *scratch)
{
    static const char PASSED[] = "cmsg_type=SCM_RIGHTS, cmsg_data=[";
    struct span field;

    if (text.at >= text.end || *text.at++ != '{')
        return;
    while (take_element(&text, &field)) {
        const uint8_t *passed;

        if (is_field(&field, "msg_iov")) {
            put_buffers(table, row, field);
        } else if (is_field(&field, "msg_control") && (passed = span_find(field, PASSED))) {
            put_fd2(table, row, (struct span){passed + strlen(PASSED), field.end}, scratch);
            put_words(table, SYSCALL_REQUEST, row, (struct span){passed + 10, passed + 20}); // SCM_RIGHTS
        }
    }
}

static void put_open_how(struct table *table, size_t row, struct span text)
{
    struct span field;

    if (text.at >= text.end || *text.at++ != '{')
        return;
    while (take_element(&text, &field)) {
        if (is_field(&field, "flags"))
            put_words(table, SYSCALL_FLAGS, row, field);
        else if (is_field(&field, "mode"))
            put_mode(table, row, field);
    }
}

// A number, a word, or a lock: {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=0, l_len=1}.
static void put_fcntl(struct table *table, size_t row, struct span text)
{
    struct span field;

    if (text.at >= text.end)
        return;
    if (*text.at != '{') {
        put_words(table, SYSCALL_FLAGS, row, text);
        return;
    }
    text.at++;
    while (take_element(&text, &field)) {
        if (is_field(&field, "l_type"))
            put_words(table, SYSCALL_FLAGS, row, field);
        else if (is_field(&field, "l_start"))
            put_number(table, SYSCALL_OFFSET_BYTES, row, field, false);
        else if (is_field(&field, "l_len"))
            put_number(table, SYSCALL_BYTES, row, field, true);
    }
}

// clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD) or clone3({flags=CLONE_VM, ...}, 88)
static void put_clone(struct table *table, size_t row, const struct call_text *call)
{
    for (size_t n = 0; n < call->nr_arguments; n++) {
        struct span text = call->arguments[n], field;

        if (text.at < text.end && *text.at == '{')
            text.at++;
        while (take_element(&text, &field))
            if (is_field(&field, "flags"))
                put_words(table, SYSCALL_FLAGS, row, field);
    }
}

// --- all of them ----------------------------------------------------------------------------------------------------

static void put_argument(struct table *table, size_t row, char role, struct span text, struct scratch *scratch)
{
    switch (role) {
    case 'n':
        if (*text.at == '-')
            break;
        // fall through
    case 'f':
        put_fd1(table, row, text, scratch);
        break;
    case 'g':
        put_fd2(table, row, text, scratch);
        break;
    case 'P':
        put_pair(table, row, text, scratch);
        break;
    case 'p':
        put_path(table, SYSCALL_PATH, row, text, scratch);
        break;
    case 'q':
        put_path(table, SYSCALL_PATH2, row, text, scratch);
        break;
    case 'F':
        put_words(table, SYSCALL_FLAGS, row, text);
        break;
    case 'r':
        put_request(table, row, text, scratch);
        break;
    case 'm':
        put_mode(table, row, text);
        break;
    case 'o':
        put_number(table, SYSCALL_OFFSET_BYTES, row, text, false);
        break;
    case 'O':
        put_number(table, SYSCALL_OFFSET2_BYTES, row, text, false);
        break;
    case 'b':
        put_number(table, SYSCALL_BYTES, row, text, true);
        break;
    case 'a':
        put_number(table, SYSCALL_ADDRESS, row, text, false);
        break;
    case 's':
        put_stat(table, row, text);
        break;
    case 'v':
        put_buffers(table, row, text);
        break;
    case 'M':
        put_message(table, row, text, scratch);
        break;
    case 'h':
        put_open_how(table, row, text);
        break;
    case 'x':
        put_fcntl(table, row, text);
        break;
    default:
        break;
    }
}

void put_arguments(struct table *table, size_t row, int number, const struct call_text *call, struct scratch *scratch)
{
    const char *roles = ROLES[number].roles;

    if (*roles == 'C') {
        put_clone(table, row, call);
        return;
    }
    for (size_t n = 0; roles[n] && n < call->nr_arguments; n++)
        if (call->arguments[n].at < call->arguments[n].end)
            put_argument(table, row, roles[n], call->arguments[n], scratch);
}
