// The effect of a call at the end of its path counts from the end of the call on.
#include "calls/paths.h"

#include "calls/descriptors.h"
#include "calls/flags.h"
#include "calls/left.h"
#include "calls/rows.h"
#include "calls/sizes.h"
#include "calls/texts.h"
#include "calls/types.h"

enum { TYPE_BITS = 0170000, FIFO = 0010000, CHARACTER = 0020000, DIRECTORY = 0040000, BLOCK = 0060000 };
enum { REGULAR = 0100000, LINKED = 0120000, SOCKET = 0140000, PERMISSIONS = 07777 };
enum { ERROR_BUSY = 16, ERROR_EXIST = 17, ERROR_XDEV = 18, ERROR_NOTDIR = 20, ERROR_ISDIR = 21, ERROR_INVAL = 22 };
enum { ERROR_NAMETOOLONG = 36, ERROR_NOTEMPTY = 39, ERROR_LOOP = 40 };

static int64_t error_of(const struct calls *calls, uint32_t row)
{
    return calls->in->failed[row] == 1 && calls->in->result[row] != NO_INT64 ? -calls->in->result[row] : 0;
}

// Checks whether a call failed because the file did not exist. This is the likeliest error if none is recorded.
static bool is_not_found(const struct calls *calls, uint32_t row)
{
    return calls->in->failed[row] == 1 && (error_of(calls, row) == ERROR_NOENT || error_of(calls, row) == 0);
}

// Checks whether a call that changes names failed because of the names that exist. All other errors are due to
// permissions, space or a read-only file system, so that in an empty directory the call would succeed.
static bool failed_by_names(const struct calls *calls, uint32_t row)
{
    static const uint8_t ERRORS[] = {ERROR_NOENT, ERROR_EXIST, ERROR_XDEV,        ERROR_NOTDIR,   ERROR_ISDIR,
                                     ERROR_INVAL, ERROR_BUSY,  ERROR_NAMETOOLONG, ERROR_NOTEMPTY, ERROR_LOOP};
    int64_t error = error_of(calls, row);

    for (size_t n = 0; n < sizeof(ERRORS); n++)
        if (error == ERRORS[n])
            return true;
    return false;
}

// Returns the directory that a relative path starts from.
static int32_t start_of(struct calls *calls, const struct running *call, bool is_second)
{
    int32_t descriptor = is_second ? call->descriptor2 : call->descriptor;
    uint32_t path = is_second ? calls->in->fd2_path[call->row] : calls->in->fd_path[call->row];
    struct description *description;
    struct location location;
    int32_t *working, made;

    if (descriptor != NO_INDEX) {
        description = description_of(&calls->open, descriptor);
        description->is_directory = true;
        descriptor_is(&calls->open, descriptor, LEFT_NOT);
        return description_inode(&calls->open, description_of(&calls->open, descriptor));
    }
    if (path != NO_STRING && kind_of_path(calls->in, path, NO_CODE) != LEFT_ANON &&
        names_walk(&calls->names, ROOT, path, true, &location)) {
        names_confirm(&calls->names, &location, TYPE_DIRECTORY);
        return *working_directory(&calls->threads, call->thread) = location.inode;
    }
    working = working_directory(&calls->threads, call->thread);
    if (*working == NO_INDEX) {
        made = inode_new(&calls->files, TYPE_DIRECTORY, ORIGIN_START);
        *working_directory(&calls->threads, call->thread) = made;
        return made;
    }
    return inode_find(&calls->files, *working);
}

static bool walk_path(struct calls *calls, const struct running *call, uint32_t text, bool is_second, bool follow,
                      struct location *location)
{
    const uint8_t *at;
    size_t length;

    *location = (struct location){NO_INDEX, NO_INDEX};
    if (!text_of(calls->in, text, &at, &length) || !length)
        return false;
    return names_walk(&calls->names, *at == '/' ? ROOT : start_of(calls, call, is_second), text, follow, location);
}

static uint32_t location_path(struct calls *calls, const struct location *location)
{
    return location->dentry == NO_INDEX && location->inode != ROOT ? names_unnamed_path(&calls->names, location->inode)
                                                                   : names_path(&calls->names, location->dentry);
}

static bool is_present(const struct calls *calls, const struct location *location)
{
    return location->dentry == NO_INDEX || calls->names.dentries[location->dentry].state == NAME_PRESENT;
}

// Checks for a file without a name in the replay. Calls reach it through the directory of descriptors in /proc.
static bool is_nowhere(const struct calls *calls, const struct location *location)
{
    return location->dentry == NO_INDEX && location->inode != ROOT &&
           calls->files.inodes[location->inode].type != TYPE_DIRECTORY &&
           (calls->files.inodes[location->inode].origin != ORIGIN_START ||
            calls->files.inodes[location->inode].first_dir != NO_INDEX);
}

// Sets the path of the operation and the file there.
static void set_location(struct calls *calls, const struct running *call, const struct location *location)
{
    uint32_t path = location_path(calls, location);
    struct operation *operation = operation_of(calls, call);

    operation->path = path;
    operation->inode = is_present(calls, location) ? location->inode : NO_INDEX;
    operation->left = is_nowhere(calls, location) ? LEFT_UNSUPPORTED : names_left(&calls->names, location);
    if (path == NO_STRING)
        operation->left = LEFT_NO_PATH;
}

static uint8_t left_of_mode(int32_t mode)
{
    switch (mode & TYPE_BITS) {
    case FIFO:
        return LEFT_PIPE;
    case SOCKET:
        return LEFT_SOCKET;
    case CHARACTER:
    case BLOCK:
        return LEFT_DEVICE;
    default:
        return LEFT_NOT;
    }
}

static uint8_t type_of_mode(int32_t mode)
{
    if (mode == NO_INT32)
        return TYPE_UNKNOWN;
    switch (mode & TYPE_BITS) {
    case DIRECTORY:
        return TYPE_DIRECTORY;
    case LINKED:
        return TYPE_SYMLINK;
    case REGULAR:
        return TYPE_FILE;
    default:
        return TYPE_UNKNOWN;
    }
}

void stat_end(struct calls *calls, struct location *location, int32_t index, uint32_t row, bool is_steady)
{
    int32_t mode = calls->in->mode[row];
    struct inode *inode;

    index = names_identify(&calls->names, location, index, calls->in->dev[row], calls->in->ino[row]);
    inode = &calls->files.inodes[index];
    if (mode != NO_INT32) {
        if (inode->type == TYPE_UNKNOWN)
            inode->type = type_of_mode(mode);
        if (!inode->left)
            inode->left = left_of_mode(mode);
        if (inode->mode == NO_INT32)
            inode->mode = mode & PERMISSIONS;
    }
    if (calls->in->size[row] != NO_INT64 && is_steady && type_of_mode(mode) == TYPE_FILE)
        size_learn(&calls->files, index, calls->in->size[row], SIZE_FROM_STAT);
    if (location)
        location->inode = index;
}

// --- open -----------------------------------------------------------------------------------------------------------

static bool follows(int64_t flags)
{
    return !(flags & FLAG_NOFOLLOW) && (flags & (FLAG_CREAT | FLAG_EXCL)) != (FLAG_CREAT | FLAG_EXCL);
}

// Finds the opened file by the path that the kernel reported or, without one, by the path of the call.
static bool opened_at(struct calls *calls, const struct running *call, int64_t flags, struct location *location)
{
    uint32_t kernel_path = calls->in->result_path[call->row];

    if (kernel_path != NO_STRING && (flags & FLAG_TMPFILE & ~FLAG_DIRECTORY) == 0 &&
        kind_of_path(calls->in, kernel_path, NO_CODE) != LEFT_ANON &&
        kind_of_path(calls->in, kernel_path, NO_CODE) != LEFT_PIPE &&
        names_walk(&calls->names, ROOT, kernel_path, false, location))
        return true;
    return walk_path(calls, call, calls->in->path[call->row], false, follows(flags), location);
}

static bool is_temporary(int64_t flags)
{
    return (flags & (FLAG_TMPFILE | FLAG_DIRECTORY)) == (FLAG_TMPFILE | FLAG_DIRECTORY);
}

// Returns the file that a successful open created or found.
static int32_t opened(struct calls *calls, struct location *location, int64_t flags)
{
    uint8_t state =
        location->dentry == NO_INDEX ? (uint8_t)NAME_PRESENT : calls->names.dentries[location->dentry].state;

    if ((flags & FLAG_CREAT) && (state == NAME_ABSENT || (flags & FLAG_EXCL)))
        names_make(&calls->names, location, TYPE_FILE, ORIGIN_MADE);
    else if ((flags & FLAG_CREAT) && state == NAME_UNKNOWN)
        names_make(&calls->names, location, TYPE_FILE, ORIGIN_MAYBE);
    else
        names_confirm(&calls->names, location, flags & FLAG_DIRECTORY ? TYPE_DIRECTORY : TYPE_UNKNOWN);
    return location->inode;
}

static void open_failed(struct calls *calls, const struct running *call, int64_t flags, struct location *location)
{
    int64_t error = error_of(calls, call->row);

    if (is_not_found(calls, call->row) && !(flags & FLAG_CREAT))
        names_absent(&calls->names, location);
    else if (error == ERROR_EXIST || error == ERROR_ISDIR)
        names_confirm(&calls->names, location, error == ERROR_ISDIR ? TYPE_DIRECTORY : TYPE_UNKNOWN);
    set_location(calls, call, location);
    if ((flags & FLAG_CREAT) && !operation_of(calls, call)->left && !failed_by_names(calls, call->row))
        operation_of(calls, call)->left = LEFT_UNSUPPORTED;
}

static int32_t number_opened(const struct calls *calls, uint32_t row)
{
    int64_t result = calls->in->result[row];

    return result == NO_INT64 ? calls->in->fd[row] : result < 0 || result > INT32_MAX ? NO_INDEX : (int32_t)result;
}

static void install_opened(struct calls *calls, const struct running *call, int32_t inode, uint8_t left, int64_t flags)
{
    int32_t description = description_new(&calls->open, inode, left),
            descriptor = descriptor_new(&calls->open, description);

    calls->open.descriptions[description].is_append = flags & FLAG_APPEND;
    operation_of(calls, call)->descriptor = descriptor;
    descriptor_install(&calls->open, call->thread, call->row, number_opened(calls, call->row), descriptor,
                       flags & FLAG_CLOEXEC);
}

void open_end(struct calls *calls, const struct running *call)
{
    int64_t flags = row_flags(calls->in, call->row);
    struct location location;
    bool has_location, is_new;
    int32_t inode;
    uint8_t left = LEFT_NOT;

    operation_of(calls, call)->flags = flags;
    has_location = row_succeeded(calls->in, call->row)
                       ? opened_at(calls, call, flags, &location)
                       : walk_path(calls, call, calls->in->path[call->row], false, follows(flags), &location);
    size_end(&calls->files, call);
    if (!row_succeeded(calls->in, call->row)) {
        if (has_location)
            open_failed(calls, call, flags, &location);
        else
            operation_of(calls, call)->left = LEFT_NO_PATH;
        return;
    }
    if (number_opened(calls, call->row) < 0) {
        operation_of(calls, call)->left = LEFT_UNKNOWN;
        return;
    }
    if (!has_location) {
        inode = inode_new(&calls->files, TYPE_UNKNOWN, flags & FLAG_EXCL ? ORIGIN_MADE : ORIGIN_START);
    } else if (is_temporary(flags)) {
        names_confirm(&calls->names, &location, TYPE_DIRECTORY);
        set_location(calls, call, &location);
        left = names_left(&calls->names, &location);
        inode = inode_new(&calls->files, TYPE_FILE, ORIGIN_MADE);
    } else {
        inode = opened(calls, &location, flags);
        inode = names_identify(&calls->names, &location, inode, calls->in->dev[call->row], calls->in->ino[call->row]);
        set_location(calls, call, &location);
        left = names_left(&calls->names, &location);
        if (!left && calls->in->result_path[call->row] != NO_STRING)
            left = kind_of_path(calls->in, calls->in->result_path[call->row], NO_CODE);
    }
    is_new = calls->files.inodes[inode].origin == ORIGIN_MADE && calls->files.inodes[inode].size == 0;
    if ((flags & FLAG_TRUNC) && !is_new)
        size_set(&calls->files, inode, 0);
    else if (calls->in->size[call->row] != NO_INT64 && !calls->files.inodes[inode].busy)
        size_learn(&calls->files, inode, calls->in->size[call->row], SIZE_FROM_STAT);
    operation_of(calls, call)->inode = inode;
    install_opened(calls, call, inode, left, flags);
}

// --- other calls ----------------------------------------------------------------------------------------------------

static bool follows_path(const struct calls *calls, uint32_t row)
{
    const struct call_type *type = call_type(calls->in->call[row]);

    switch (type->step) {
    case STEP_OPEN:
        return follows(row_flags(calls->in, row));
    case STEP_PATH:
    case STEP_CHDIR:
        return !(row_flags(calls->in, row) & FLAG_AT_NOFOLLOW) || type->call == ACCESS;
    case STEP_LINK:
        return row_flags(calls->in, row) & FLAG_AT_FOLLOW;
    default:
        return false;
    }
}

// Checks whether the call returns or changes the size of the file at its path.
static bool is_sized(const struct calls *calls, uint32_t row, bool *changes)
{
    const struct call_type *type = call_type(calls->in->call[row]);

    *changes = type->call == TRUNCATE || (type->call == OPEN && (row_flags(calls->in, row) & FLAG_TRUNC));
    return *changes || type->call == STAT;
}

void path_begin(struct calls *calls, struct running *call)
{
    struct location location;
    bool changes;

    if (is_sized(calls, call->row, &changes) &&
        walk_path(calls, call, calls->in->path[call->row], false, follows_path(calls, call->row), &location) &&
        location.inode != NO_INDEX)
        size_begin(&calls->files, call, location.inode, changes);
}

static void path_reached(struct calls *calls, const struct running *call, struct location *location, bool is_steady)
{
    uint32_t row = call->row, target = calls->in->path2[row];
    const uint8_t *text;
    size_t length;

    switch (call_type(calls->in->call[row])->call) {
    case STAT:
        names_confirm(&calls->names, location, type_of_mode(calls->in->mode[row]));
        stat_end(calls, location, location->inode, row, is_steady);
        break;
    case READLINK:
        names_confirm(&calls->names, location, TYPE_SYMLINK);
        // A result that fills the buffer may be truncated. The root and the working directory are not links.
        if (text_of(calls->in, target, &text, &length) && text_is_path(text, length) &&
            calls->in->result[row] != calls->in->bytes[row] && location->dentry != NO_INDEX &&
            !calls->files.inodes[location->inode].left) {
            uint32_t string = storage_string(&calls->storage, calls->strings, text, length);

            calls->files.inodes[location->inode].type = TYPE_SYMLINK;
            calls->files.inodes[location->inode].target = string;
        }
        break;
    case TRUNCATE:
        names_confirm(&calls->names, location, TYPE_FILE);
        size_set(&calls->files, location->inode,
                 is_steady || call->sized == NO_INDEX ? calls->in->bytes[row] : NO_INT64);
        break;
    default:
        names_confirm(&calls->names, location, TYPE_UNKNOWN);
        break;
    }
}

static void set_flags(struct calls *calls, const struct running *call)
{
    struct operation *operation = operation_of(calls, call);
    int64_t flags = row_flags(calls->in, call->row);

    if (operation->call != ACCESS && calls->in->flags[call->row] != NO_INT64) // for access this is the mode
        operation->flags = flags & ~(int64_t)FLAG_AT_NOFOLLOW;
    if (operation->call == STAT && (flags & FLAG_AT_NOFOLLOW))
        operation->call = LSTAT;
    else if (operation->flags != NO_INT64)
        operation->flags = flags;
}

void path_end(struct calls *calls, const struct running *call)
{
    struct location location;
    bool is_steady = size_end(&calls->files, call);

    set_flags(calls, call);
    if (!walk_path(calls, call, calls->in->path[call->row], false, follows_path(calls, call->row), &location)) {
        operation_of(calls, call)->left = LEFT_NO_PATH;
        return;
    }
    if (call->sized == NO_INDEX)
        is_steady = location.inode == NO_INDEX || !calls->files.inodes[location.inode].version;
    else
        is_steady = is_steady && call->sized == location.inode;
    if (row_succeeded(calls->in, call->row))
        path_reached(calls, call, &location, is_steady);
    else if (is_not_found(calls, call->row))
        names_absent(&calls->names, &location);
    else if (operation_of(calls, call)->call == READLINK && error_of(calls, call->row) == ERROR_INVAL)
        names_confirm(&calls->names, &location, TYPE_UNKNOWN); // the file is not a link
    else if (error_of(calls, call->row) == ERROR_ISDIR)
        names_confirm(&calls->names, &location, TYPE_DIRECTORY);
    set_location(calls, call, &location);
}

static void make_end(struct calls *calls, const struct running *call, struct location *location)
{
    if (row_succeeded(calls->in, call->row))
        names_make(&calls->names, location, TYPE_DIRECTORY, ORIGIN_MADE);
    else if (error_of(calls, call->row) == ERROR_EXIST)
        names_confirm(&calls->names, location, TYPE_UNKNOWN);
    set_location(calls, call, location);
}

static void remove_end(struct calls *calls, const struct running *call, struct location *location)
{
    int64_t error = error_of(calls, call->row);

    if (row_flags(calls->in, call->row) & FLAG_AT_REMOVEDIR)
        operation_of(calls, call)->call = RMDIR;
    if (row_succeeded(calls->in, call->row))
        names_confirm(&calls->names, location,
                      operation_of(calls, call)->call == RMDIR ? TYPE_DIRECTORY : TYPE_UNKNOWN);
    else if (is_not_found(calls, call->row))
        names_absent(&calls->names, location);
    else if (error == ERROR_NOTEMPTY || error == ERROR_ISDIR)
        names_confirm(&calls->names, location, TYPE_DIRECTORY);
    set_location(calls, call, location);
    if (row_succeeded(calls->in, call->row))
        names_remove(&calls->names, location);
}

// Ends rename or link.
static void two_paths_end(struct calls *calls, const struct running *call, struct location *location)
{
    int64_t flags = row_flags(calls->in, call->row), error = error_of(calls, call->row);
    bool is_rename = operation_of(calls, call)->call == RENAME;
    struct location to;
    uint32_t path2;

    if (!walk_path(calls, call, calls->in->path2[call->row], true, false, &to)) {
        operation_of(calls, call)->left = LEFT_NO_PATH;
        return;
    }
    operation_of(calls, call)->flags = is_rename ? calls->in->flags[call->row] : NO_INT64;
    if (row_succeeded(calls->in, call->row)) {
        names_confirm(&calls->names, location, TYPE_UNKNOWN);
        if (is_rename && (flags & FLAG_EXCHANGE))
            names_confirm(&calls->names, &to, TYPE_UNKNOWN);
    } else if (error == ERROR_NOENT && to.dentry != NO_INDEX &&
               calls->files.inodes[calls->names.dentries[to.dentry].dir].origin != ORIGIN_UNKNOWN) {
        names_absent(&calls->names, location);
    } else if (error == ERROR_EXIST || error == ERROR_NOTEMPTY) {
        names_confirm(&calls->names, &to, TYPE_UNKNOWN);
    }
    set_location(calls, call, location);
    path2 = location_path(calls, &to);
    operation_of(calls, call)->path2 = path2;
    if (operation_of(calls, call)->left == LEFT_NOT)
        operation_of(calls, call)->left = path2 == NO_STRING ? (uint8_t)LEFT_NO_PATH : names_left(&calls->names, &to);
    if (is_rename && is_present(calls, &to))
        operation_of(calls, call)->inode2 = to.inode;
    if (!row_succeeded(calls->in, call->row))
        return;
    if (is_rename)
        names_rename(&calls->names, location, &to, flags & FLAG_EXCHANGE);
    else if (is_nowhere(calls, location))
        names_appear(&calls->names, &to);
    else if (location->inode != NO_INDEX)
        names_link(&calls->names, location->inode, &to);
}

// Ends symlink. The second path is the link, the first one its target.
static void symlink_end(struct calls *calls, const struct running *call)
{
    struct location location;
    const uint8_t *text;
    size_t length;
    uint32_t target = NO_STRING;

    if (!walk_path(calls, call, calls->in->path2[call->row], true, false, &location) ||
        !text_of(calls->in, calls->in->path[call->row], &text, &length)) {
        operation_of(calls, call)->left = LEFT_NO_PATH;
        return;
    }
    if (text_is_path(text, length))
        target = storage_string(&calls->storage, calls->strings, text, length);
    if (row_succeeded(calls->in, call->row)) {
        names_make(&calls->names, &location, TYPE_SYMLINK, ORIGIN_MADE);
        if (location.inode != NO_INDEX)
            calls->files.inodes[location.inode].target = target;
    } else if (error_of(calls, call->row) == ERROR_EXIST) {
        names_confirm(&calls->names, &location, TYPE_UNKNOWN);
    }
    set_location(calls, call, &location);
    operation_of(calls, call)->path2 = target;
    if (target == NO_STRING && !operation_of(calls, call)->left)
        operation_of(calls, call)->left = LEFT_NO_PATH;
}

static void mknod_end(struct calls *calls, const struct running *call, struct location *location)
{
    int32_t mode = calls->in->mode[call->row];

    operation_of(calls, call)->left = LEFT_UNSUPPORTED;
    if (!row_succeeded(calls->in, call->row) || location->dentry == NO_INDEX)
        return;
    names_make(&calls->names, location, TYPE_FILE, ORIGIN_MADE);
    if (mode != NO_INT32 && !calls->files.inodes[location->inode].left)
        calls->files.inodes[location->inode].left = left_of_mode(mode);
}

void directory_end(struct calls *calls, const struct running *call)
{
    uint8_t step = call_type(calls->in->call[call->row])->step;
    struct location location;

    if (step == STEP_SYMLINK) {
        symlink_end(calls, call);
        return;
    }
    if (!walk_path(calls, call, calls->in->path[call->row], false, follows_path(calls, call->row), &location)) {
        operation_of(calls, call)->left = LEFT_NO_PATH;
        return;
    }
    switch (step) {
    case STEP_MAKE:
        make_end(calls, call, &location);
        break;
    case STEP_REMOVE:
        remove_end(calls, call, &location);
        break;
    case STEP_MKNOD:
        mknod_end(calls, call, &location);
        break;
    default:
        two_paths_end(calls, call, &location);
        break;
    }
}

void directory_changed(struct calls *calls, const struct running *call)
{
    const struct calls_input *in = calls->in;
    struct location location;

    if (!row_succeeded(calls->in, call->row))
        return;
    if (call_type(in->call[call->row])->step == STEP_FCHDIR) {
        if (call->descriptor != NO_INDEX) {
            description_of(&calls->open, call->descriptor)->is_directory = true;
            descriptor_is(&calls->open, call->descriptor, LEFT_NOT);
            location.inode = description_inode(&calls->open, description_of(&calls->open, call->descriptor));
            *working_directory(&calls->threads, call->thread) = location.inode;
        }
    } else if (walk_path(calls, call, in->path[call->row], false, true, &location)) {
        names_confirm(&calls->names, &location, TYPE_DIRECTORY);
        *working_directory(&calls->threads, call->thread) = location.inode;
    }
}
