// Decodes the arguments of a call into the columns of table syscalls.
#include "decode/strace/strace.h"

#include "syscalls/columns.h"

// --- one argument ---------------------------------------------------------------------------------------------------

static void put_number(struct table *table, size_t column, size_t row, struct text text, bool not_negative)
{
    int64_t value;

    if (text.at < text.end && *text.at == '[') // a number behind a pointer
        text.at++;
    if (take_integer(&text, &value) && value != NO_INT64 && (value >= 0 || !not_negative))
        put_int64(table, column, row, value);
}

static void put_path(struct table *table, size_t column, size_t row, struct text text, struct scratch *scratch)
{
    const uint8_t *end = text.end;

    if (text.at < end && *text.at == '@') // an abstract socket's name
        text.at++;
    if (end - text.at < 2 || *text.at != '"')
        return;
    for (end--; end > text.at && *end != '"'; end--) // strace may append a security context
        ;
    if (end > text.at && !text_starts((struct text){end + 1, text.end}, "...")) // strace abbreviated the string
        put_unescaped(table, column, row, (struct text){text.at + 1, end}, scratch);
}

static void put_words(struct table *table, size_t column, size_t row, struct text text)
{
    enum { LONGEST_WORDS = 1024 };

    if (text.at < text.end && text_length(text) <= LONGEST_WORDS)
        put_string(table, column, row, text.at, text_length(text));
}

// Stores a request, with or without quotes.
static void put_request(struct table *table, size_t row, struct text text, struct scratch *scratch)
{
    if (text.at < text.end && *text.at == '"')
        put_path(table, SYSCALL_REQUEST, row, text, scratch);
    else
        put_words(table, SYSCALL_REQUEST, row, text);
}

static enum fd_kind kind_of(struct text *inner)
{
    static const char DELETED[] = " (deleted)";
    const uint8_t *device;

    if (inner->at < inner->end && *inner->at != '/' && !text_starts(*inner, "(unreachable)")) {
        if (text_starts(*inner, "pipe:"))
            return FD_KIND_PIPE;
        if (text_starts(*inner, "anon_inode:"))
            return FD_KIND_ANON;
        return text_starts(*inner, "socket:") || (*inner->at >= 'A' && *inner->at <= 'Z') ? FD_KIND_SOCKET
                                                                                          : FD_KIND_OTHER;
    }
    if ((device = text_find(*inner, "<char ")) || (device = text_find(*inner, "<block "))) {
        inner->end = device;
        return device[1] == 'c' ? FD_KIND_CHAR : FD_KIND_BLOCK;
    }
    if (text_ends(*inner, DELETED)) {
        inner->end -= strlen(DELETED);
        return text_starts(*inner, "/memfd:") ? FD_KIND_MEMFD : FD_KIND_DELETED;
    }
    return text_starts(*inner, "/memfd:") ? FD_KIND_MEMFD : FD_KIND_PATH;
}

bool put_fd(struct table *table, size_t row, struct text text, size_t fd_column, size_t path_column, size_t kind_column,
            struct scratch *scratch)
{
    static const char WORKING_DIRECTORY[] = "AT_FDCWD";
    int64_t number = -100;
    struct text inner;
    enum fd_kind kind;

    if (text_starts(text, WORKING_DIRECTORY))
        text.at += strlen(WORKING_DIRECTORY);
    else if (!take_integer(&text, &number))
        return false;
    if (fd_column != SYSCALL_NONE)
        put_int32(table, fd_column, row, (int32_t)(uint32_t)(uint64_t)number);
    if (!take_decoration(&text, &inner))
        return true;
    kind = kind_of(&inner);
    if (kind == FD_KIND_PATH && text_starts(text, "(deleted)"))
        kind = FD_KIND_DELETED;
    if (inner.at < inner.end)
        put_unescaped(table, path_column, row, inner, scratch);
    if (kind_column != SYSCALL_NONE)
        put_code(table, kind_column, row, (uint8_t)kind);
    return true;
}

static void put_fd1(struct table *table, size_t row, struct text text, struct scratch *scratch)
{
    put_fd(table, row, text, SYSCALL_FD, SYSCALL_FD_PATH, SYSCALL_FD_KIND, scratch);
}

static void put_fd2(struct table *table, size_t row, struct text text, struct scratch *scratch)
{
    put_fd(table, row, text, SYSCALL_FD2, SYSCALL_FD2_PATH, SYSCALL_NONE, scratch);
}

// Stores two descriptors in brackets: [3</a>, 4].
static void put_pair(struct table *table, size_t row, struct text text, struct scratch *scratch)
{
    struct text element;

    if (text.at >= text.end || *text.at++ != '[')
        return;
    if (take_element(&text, &element))
        put_fd1(table, row, element, scratch);
    if (take_element(&text, &element))
        put_fd2(table, row, element, scratch);
}

static bool take_mode_word(struct text word, int64_t *mode)
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
        if (text_is(word, WORDS[n].name)) {
            *mode |= WORDS[n].bits;
            return true;
        }
    }
    if (!take_integer(&word, &number))
        return false;
    *mode |= number;
    return true;
}

// Stores a mode such as S_IFREG|S_ISUID|0755.
static void put_mode(struct table *table, size_t row, struct text text)
{
    int64_t mode = 0;

    while (text.at < text.end) {
        const uint8_t *bar = memchr(text.at, '|', text_length(text));
        const uint8_t *end = bar ? bar : text.end;

        if (!take_mode_word((struct text){text.at, end}, &mode))
            return;
        text.at = bar ? bar + 1 : text.end;
    }
    if (mode >= 0 && mode <= INT32_MAX)
        put_int32(table, SYSCALL_MODE, row, (int32_t)mode);
}

// Checks for NAME=... and strips the name.
static bool is_field(struct text *field, const char *name)
{
    size_t length = strlen(name);

    if (!text_starts(*field, name) || text_length(*field) <= length || field->at[length] != '=')
        return false;
    field->at += length + 1;
    return true;
}

static bool take_small(struct text *text, int64_t *value)
{
    return take_integer(text, value) && *value >= 0 && *value < 1 << 20;
}

// Stores a device such as makedev(0x8, 0x1).
static void put_makedev(struct table *table, size_t row, struct text text)
{
    static const char MAKEDEV[] = "makedev(";
    int64_t major, minor;

    if (!text_starts(text, MAKEDEV))
        return;
    text.at += strlen(MAKEDEV);
    if (!take_small(&text, &major) || major >= 1 << 12 || !text_starts(text, ","))
        return;
    text.at++;
    text = text_trimmed(text);
    if (take_small(&text, &minor))
        put_uint32(table, SYSCALL_DEV, row, (uint32_t)(major << 20 | minor));
}

static void put_stat(struct table *table, size_t row, struct text text)
{
    int64_t major = -1, minor = -1;
    struct text field;

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

// Adds the length of one buffer: {iov_base="abc"..., iov_len=3} or, before strace 4.16, {"abc"..., 3}.
static bool buffer_bytes(struct text text, int64_t *bytes)
{
    struct text field;
    int64_t length = -1;

    if (text.at >= text.end || *text.at++ != '{')
        return false;
    while (take_element(&text, &field)) {
        is_field(&field, "iov_len");
        if (!take_integer(&field, &length))
            length = -1;
    }
    return length >= 0 && !__builtin_add_overflow(*bytes, length, bytes);
}

static void put_buffers(struct table *table, size_t row, struct text text)
{
    struct text element;
    int64_t bytes = 0;

    if (text.at >= text.end || *text.at++ != '[')
        return;
    while (take_element(&text, &element))
        if (!buffer_bytes(element, &bytes)) // includes "...", the mark of an abbreviated list
            return;
    put_int64(table, SYSCALL_BYTES, row, bytes);
}

static void put_message(struct table *table, size_t row, struct text text, struct scratch *scratch)
{
    static const char PASSED[] = "cmsg_type=SCM_RIGHTS, cmsg_data=[";
    struct text field;

    if (text.at >= text.end || *text.at++ != '{')
        return;
    while (take_element(&text, &field)) {
        const uint8_t *passed;

        if (is_field(&field, "msg_iov")) {
            put_buffers(table, row, field);
        } else if (is_field(&field, "msg_control") && (passed = text_find(field, PASSED))) {
            put_fd2(table, row, (struct text){passed + strlen(PASSED), field.end}, scratch);
            put_words(table, SYSCALL_REQUEST, row, (struct text){passed + 10, passed + 20}); // SCM_RIGHTS
        }
    }
}

static void put_open_how(struct table *table, size_t row, struct text text)
{
    struct text field;

    if (text.at >= text.end || *text.at++ != '{')
        return;
    while (take_element(&text, &field)) {
        if (is_field(&field, "flags"))
            put_words(table, SYSCALL_FLAGS, row, field);
        else if (is_field(&field, "mode"))
            put_mode(table, row, field);
    }
}

// Stores the third argument of fcntl: a number, a word, or a lock such as {l_type=F_RDLCK, l_whence=SEEK_SET,
// l_start=0, l_len=1}.
static void put_fcntl(struct table *table, size_t row, struct text text)
{
    struct text field;

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

// Stores the flags of clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD) or clone3({flags=CLONE_VM, ...}, 88).
static void put_clone(struct table *table, size_t row, const struct call_text *call)
{
    for (size_t n = 0; n < call->nr_arguments; n++) {
        struct text text = call->arguments[n], field;

        if (text.at < text.end && *text.at == '{')
            text.at++;
        while (take_element(&text, &field))
            if (is_field(&field, "flags"))
                put_words(table, SYSCALL_FLAGS, row, field);
    }
}

// --- all of them ----------------------------------------------------------------------------------------------------

static void put_argument(struct table *table, size_t row, char role, struct text text, struct scratch *scratch)
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

void put_arguments(struct table *table, size_t row, const char *roles, const struct call_text *call,
                   struct scratch *scratch)
{
    if (*roles == 'C') {
        put_clone(table, row, call);
        return;
    }
    for (size_t n = 0; roles[n] && n < call->nr_arguments; n++)
        if (call->arguments[n].at < call->arguments[n].end)
            put_argument(table, row, roles[n], call->arguments[n], scratch);
}
