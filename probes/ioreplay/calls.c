#include "ioreplay/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/errors.h"
#include "ioreplay/flags.h"
#include "ioreplay/shapes.h"

static int64_t or_zero(int64_t number)
{
    return number == RECORD_NULL_INT64 ? 0 : number;
}

static mode_t mode_of(const struct replay_operation *operation, mode_t otherwise)
{
    return operation->mode == RECORD_NULL_INT32 ? otherwise : (mode_t)operation->mode & 0777;
}

/* -- descriptors -------------------------------------------------------------------------------------------------- */

static int64_t do_open(const struct replay_place *place, const struct replay_operation *operation)
{
    int flags = replay_open_flags(or_zero(operation->flags)), file;

    if (place->target)
        file = replay_target_open(place->target, flags);
    else
        file = sandbox_open(place->sandbox, place->program->strings[operation->path], flags, mode_of(operation, 0600));
    return file < 0 ? file : replay_descriptors_open(place->descriptors, operation->descriptor, file);
}

static int64_t do_dup(const struct replay_place *place, const struct replay_operation *operation, int file)
{
    int made = fcntl(file, F_DUPFD_CLOEXEC, 0);

    return made < 0 ? -errno : replay_descriptors_open(place->descriptors, operation->descriptor2, made);
}

static int64_t do_fallocate(const struct replay_place *place, const struct replay_operation *operation, int file)
{
    int64_t flags = or_zero(operation->flags);

    if (place->target && place->target->is_device && (flags & FALLOC_FL_PUNCH_HOLE))
        return replay_target_discard(file, operation->offset_bytes, operation->bytes);
    return or_errno(fallocate(file, (int)flags, operation->offset_bytes, operation->bytes));
}

static int64_t do_getdents(const struct replay_operation *operation, int file)
{
    char entries[32768];
    bool fits = operation->bytes > 0 && operation->bytes < (int64_t)sizeof entries;

    return or_errno(syscall(SYS_getdents64, file, entries, fits ? (size_t)operation->bytes : sizeof entries));
}

/* The recorded times are not part of a program; setting the current time costs the same. */
static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

static int64_t do_to_file(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    const struct replay_place *place = caller->place;
    int64_t offset = or_zero(operation->offset_bytes), bytes = or_zero(operation->bytes);
    struct statfs filesystem;
    struct stat about;

    switch (operation->call) {
    case CALL_DUP:
        return do_dup(place, operation, file);
    case CALL_LSEEK:
        return or_errno(lseek(file, offset, operation->request));
    case CALL_READ:
    case CALL_READV:
        return replay_transfer(&caller->buffer, operation, file, false, RECORD_NULL_INT64);
    case CALL_WRITE:
    case CALL_WRITEV:
        return replay_transfer(&caller->buffer, operation, file, true, RECORD_NULL_INT64);
    case CALL_PREAD:
    case CALL_PREADV:
        return replay_transfer(&caller->buffer, operation, file, false, operation->offset_bytes);
    case CALL_PWRITE:
    case CALL_PWRITEV:
        return replay_transfer(&caller->buffer, operation, file, true, operation->offset_bytes);
    case CALL_FSYNC:
        return or_errno(fsync(file));
    case CALL_FDATASYNC:
        return or_errno(fdatasync(file));
    case CALL_SYNC_FILE_RANGE:
        return or_errno(sync_file_range(file, offset, bytes, (unsigned int)or_zero(operation->flags)));
    case CALL_SYNCFS:
        return or_errno(syncfs(file));
    case CALL_FTRUNCATE:
        return or_errno(ftruncate(file, bytes));
    case CALL_FALLOCATE:
        return do_fallocate(place, operation, file);
    case CALL_FADVISE:
        return -posix_fadvise(file, offset, bytes, operation->request);
    case CALL_READAHEAD:
        return or_errno(readahead(file, offset, (size_t)replay_moves_bytes(operation)));
    case CALL_MMAP:
        return replay_mappings_map(place->mappings, operation, file);
    case CALL_FSTAT:
        return or_errno(fstat(file, &about));
    case CALL_GETDENTS:
        return do_getdents(operation, file);
    case CALL_STATFS:
        return or_errno(fstatfs(file, &filesystem));
    case CALL_FCHMOD:
        return sandbox_fchmod(place->sandbox, file, mode_of(operation, 0600));
    case CALL_FUTIMENS:
        return or_errno(futimens(file, now));
    default:
        return -ENOSYS;
    }
}

/* -- copies between files --------------------------------------------------------------------------------------- */

static int64_t copy(const struct replay_operation *operation, int from, int to)
{
    off_t offset = operation->offset_bytes, offset2 = operation->offset2_bytes;
    off_t *at = operation->offset_bytes == RECORD_NULL_INT64 ? NULL : &offset;
    off_t *at2 = operation->offset2_bytes == RECORD_NULL_INT64 ? NULL : &offset2;
    size_t bytes = (size_t)replay_moves_bytes(operation);
    unsigned int flags = (unsigned int)or_zero(operation->flags);

    switch (operation->call) {
    case CALL_SENDFILE:
        return or_errno(sendfile(to, from, at, bytes));
    case CALL_SPLICE:
        return or_errno(splice(from, at, to, at2, bytes, flags));
    default:
        return or_errno(copy_file_range(from, at, to, at2, bytes, flags));
    }
}

/* Copy, or only read or write if the other side is not a file of the program (a socket or pipe); `from` is -1 then. */
static int64_t do_copy(struct replay_caller *caller, const struct replay_operation *operation, int from)
{
    struct replay_descriptors *descriptors = caller->place->descriptors;
    int64_t result;
    int to;

    if (operation->descriptor2 == REPLAY_NONE)
        return replay_transfer(&caller->buffer, operation, from, false, operation->offset_bytes);
    to = replay_descriptors_use(descriptors, operation->descriptor2);
    if (to < 0)
        return to;
    result = from < 0 ? replay_transfer(&caller->buffer, operation, to, true, operation->offset2_bytes)
                      : copy(operation, from, to);
    replay_descriptors_unuse(descriptors, operation->descriptor2);
    return result;
}

/* -- names and inodes --------------------------------------------------------------------------------------------- */

/* Refuse a symbolic link: stat would follow it, and links are not followed. */
static int64_t do_stat(const struct sandbox *sandbox, const char *path)
{
    struct stat about;
    int result = sandbox_stat(sandbox, path, &about);

    return result == 0 && S_ISLNK(about.st_mode) ? -ELOOP : result;
}

static int64_t do_readlink(const struct sandbox *sandbox, const struct replay_operation *operation, const char *path)
{
    char target[PATH_MAX];
    bool fits = operation->bytes > 0 && operation->bytes < PATH_MAX;

    return sandbox_readlink(sandbox, path, target, fits ? (size_t)operation->bytes : sizeof target);
}

static int64_t do_to_path(const struct replay_place *place, const struct replay_operation *operation)
{
    const struct sandbox *sandbox = place->sandbox;
    const char *path = place->program->strings[operation->path];
    const char *path2 = operation->path2 == REPLAY_NONE ? NULL : place->program->strings[operation->path2];
    struct statfs filesystem;
    struct stat about;

    switch (operation->call) {
    case CALL_TRUNCATE:
        return sandbox_truncate(sandbox, path, operation->bytes);
    case CALL_STAT:
        return do_stat(sandbox, path);
    case CALL_LSTAT:
        return sandbox_stat(sandbox, path, &about);
    case CALL_ACCESS:
        return sandbox_access(sandbox, path, operation->request);
    case CALL_READLINK:
        return do_readlink(sandbox, operation, path);
    case CALL_STATFS:
        return sandbox_statfs(sandbox, path, &filesystem);
    case CALL_MKDIR:
        return sandbox_mkdir(sandbox, path, mode_of(operation, 0700));
    case CALL_RMDIR:
        return sandbox_rmdir(sandbox, path);
    case CALL_UNLINK:
        return sandbox_unlink(sandbox, path);
    case CALL_RENAME:
        return sandbox_rename(sandbox, path, path2, (unsigned int)or_zero(operation->flags));
    case CALL_LINK:
        return sandbox_link(sandbox, path, path2);
    case CALL_SYMLINK:
        return sandbox_symlink(sandbox, path2, path);
    case CALL_CHMOD:
        return sandbox_chmod(sandbox, path, mode_of(operation, 0600));
    case CALL_UTIMENS:
        return sandbox_utimens(sandbox, path, now);
    default:
        return -ENOSYS;
    }
}

/* -- all operations --------------------------------------------------------------------------------------------- */

/* Do an operation that needs no open descriptor; some need only the ID that it had. */
static int64_t do_without_file(struct replay_caller *caller, const struct replay_operation *operation)
{
    const struct replay_place *place = caller->place;

    switch (operation->call) {
    case CALL_OPEN:
        return do_open(place, operation);
    case CALL_CLOSE:
        return replay_descriptors_close(place->descriptors, operation->descriptor);
    case CALL_SYNC: /* Sync only this filesystem: dirty data of other programs would be measured. */
        return or_errno(syncfs(sandbox_directory(place->sandbox)));
    case CALL_MUNMAP:
    case CALL_MSYNC:
    case CALL_MAPPED_READ:
    case CALL_MAPPED_WRITE:
        return replay_mappings_do(place->mappings, operation, &caller->buffer);
    case CALL_SENDFILE:
    case CALL_SPLICE:
    case CALL_COPY_FILE_RANGE:
        return do_copy(caller, operation, -1);
    default:
        return do_to_path(place, operation);
    }
}

int64_t replay_do(struct replay_caller *caller, const struct replay_operation *operation)
{
    const struct replay_shape *shape = &replay_shapes[operation->call];
    int64_t result;
    int file;

    if (shape->descriptor == UNUSED || shape->descriptor == NUMBER || operation->descriptor == REPLAY_NONE)
        return do_without_file(caller, operation);
    file = replay_descriptors_use(caller->place->descriptors, operation->descriptor);
    if (file < 0)
        return file;
    result = shape->moves == MOVES_BOTH ? do_copy(caller, operation, file) : do_to_file(caller, operation, file);
    replay_descriptors_unuse(caller->place->descriptors, operation->descriptor);
    return result;
}

int replay_place_open(struct replay_place *place, const struct replay_program *program)
{
    place->program = program;
    place->most_buffer = replay_buffer_most(program);
    place->descriptors = replay_descriptors_make(program->nr_descriptors);
    place->mappings = replay_mappings_make(program);
    if (place->descriptors && place->mappings)
        return 0;
    replay_place_close(place);
    return print_error("no memory for %" PRIu32 " descriptors", program->nr_descriptors);
}

void replay_place_close(struct replay_place *place)
{
    replay_mappings_free(place->mappings);
    replay_descriptors_free(place->descriptors);
    place->mappings = NULL;
    place->descriptors = NULL;
}
