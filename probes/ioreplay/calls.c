#define _GNU_SOURCE
#include "ioreplay/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/complain.h"
#include "ioreplay/flags.h"
#include "ioreplay/moves.h"
#include "ioreplay/numbers.h"

struct kind {
    int64_t (*call)(struct replay_caller *caller, const struct replay_operation *operation, int file);
    uint8_t descriptors; /* whether `file` is the open file of `descriptor`; else -1 */
};

static int64_t flags_of(const struct replay_operation *operation)
{
    return is_null(operation->flags) ? 0 : operation->flags;
}

static const char *path_of(const struct replay_caller *caller, const struct replay_operation *operation)
{
    return caller->place->program->paths[operation->path];
}

static const char *path2_of(const struct replay_caller *caller, const struct replay_operation *operation)
{
    return caller->place->program->paths[operation->path2];
}

static mode_t mode_of(const struct replay_operation *operation, mode_t otherwise)
{
    return operation->mode == RECORD_NULL_INT32 ? otherwise : (mode_t)operation->mode & 0777;
}

/* -- what is read and written ------------------------------------------------------------------------------------- */

static int64_t do_read(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return replay_transfer(&caller->buffer, operation, file, false, RECORD_NULL_INT64);
}

static int64_t do_write(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return replay_transfer(&caller->buffer, operation, file, true, RECORD_NULL_INT64);
}

static int64_t do_pread(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return replay_transfer(&caller->buffer, operation, file, false, operation->offset_bytes);
}

static int64_t do_pwrite(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return replay_transfer(&caller->buffer, operation, file, true, operation->offset_bytes);
}

/* -- from file to file -------------------------------------------------------------------------------------------- */

static int64_t copy(const struct replay_operation *operation, int from, int to)
{
    off_t offset = operation->offset_bytes, offset2 = operation->offset2_bytes;
    off_t *at = is_null(operation->offset_bytes) ? NULL : &offset;
    off_t *at2 = is_null(operation->offset2_bytes) ? NULL : &offset2;
    size_t bytes = (size_t)replay_moves_bytes(operation);
    unsigned int flags = (unsigned int)flags_of(operation);

    switch (operation->call) {
    case CALL_SENDFILE:
        return or_errno(sendfile(to, from, at, bytes));
    case CALL_SPLICE:
        return or_errno(splice(from, at, to, at2, bytes, flags));
    default:
        return or_errno(copy_file_range(from, at, to, at2, bytes, flags));
    }
}

/* The side that is no file of the program (a socket, a pipe) is left out. */
static int64_t do_copy(struct replay_caller *caller, const struct replay_operation *operation, int from)
{
    struct replay_descriptors *descriptors = caller->place->descriptors;
    int64_t result;
    int to;

    if (operation->descriptor2 == REPLAY_NONE)
        return do_pread(caller, operation, from);
    to = replay_descriptors_use(descriptors, operation->descriptor2);
    if (to < 0)
        return to;
    result = from < 0 ? replay_transfer(&caller->buffer, operation, to, true, operation->offset2_bytes)
                      : copy(operation, from, to);
    replay_descriptors_unuse(descriptors, operation->descriptor2);
    return result;
}

/* -- descriptors -------------------------------------------------------------------------------------------------- */

static int64_t do_open(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    const struct replay_place *place = caller->place;
    int flags = replay_open_flags(flags_of(operation)), file;

    (void)unused;
    if (place->target)
        file = replay_target_open(place->target, flags);
    else
        file = sandbox_open(place->sandbox, path_of(caller, operation), flags, mode_of(operation, 0600));
    return file < 0 ? file : replay_descriptors_open(place->descriptors, operation->descriptor, file);
}

static int64_t do_close(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return replay_descriptors_close(caller->place->descriptors, operation->descriptor);
}

static int64_t do_dup(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    int made = fcntl(file, F_DUPFD_CLOEXEC, 0);

    return made < 0 ? -errno : replay_descriptors_open(caller->place->descriptors, operation->descriptor2, made);
}

static int64_t do_lseek(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    return or_errno(lseek(file, is_null(operation->offset_bytes) ? 0 : operation->offset_bytes, operation->request));
}

/* -- syncing ------------------------------------------------------------------------------------------------------ */

static int64_t do_fsync(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    (void)operation;
    return or_errno(fsync(file));
}

static int64_t do_fdatasync(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    (void)operation;
    return or_errno(fdatasync(file));
}

static int64_t do_sync_file_range(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    int64_t offset = is_null(operation->offset_bytes) ? 0 : operation->offset_bytes;
    int64_t bytes = is_null(operation->bytes) ? 0 : operation->bytes;

    (void)caller;
    return or_errno(sync_file_range(file, offset, bytes, (unsigned int)flags_of(operation)));
}

/* Of the filesystem replayed on only: what others hold dirty is not the program's, and writing it would be measured. */
static int64_t do_sync(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    const struct replay_place *place = caller->place;

    (void)operation;
    (void)unused;
    return or_errno(place->target ? fsync(place->target->file) : syncfs(sandbox_directory(place->sandbox)));
}

static int64_t do_syncfs(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    (void)operation;
    return or_errno(syncfs(file));
}

/* -- sizes and hints ---------------------------------------------------------------------------------------------- */

static int64_t do_truncate(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_truncate(caller->place->sandbox, path_of(caller, operation), operation->bytes);
}

static int64_t do_ftruncate(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    return or_errno(ftruncate(file, operation->bytes));
}

static int64_t do_fallocate(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    const struct replay_target *target = caller->place->target;
    int64_t flags = flags_of(operation);

    if (target && target->is_device && (flags & FALLOC_FL_PUNCH_HOLE))
        return replay_target_discard(file, operation->offset_bytes, operation->bytes);
    return or_errno(fallocate(file, (int)flags, operation->offset_bytes, operation->bytes));
}

static int64_t do_fadvise(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    int64_t offset = is_null(operation->offset_bytes) ? 0 : operation->offset_bytes;
    int64_t bytes = is_null(operation->bytes) ? 0 : operation->bytes;

    (void)caller;
    return -posix_fadvise(file, offset, bytes, operation->request);
}

static int64_t do_readahead(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    return or_errno(readahead(file, operation->offset_bytes, (size_t)replay_moves_bytes(operation)));
}

/* -- mapped memory ------------------------------------------------------------------------------------------------ */

static int64_t do_mmap(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return replay_mappings_map(caller->place->mappings, operation, file);
}

static int64_t do_munmap(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return replay_mappings_unmap(caller->place->mappings, operation);
}

static int64_t do_msync(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return replay_mappings_sync(caller->place->mappings, operation);
}

static int64_t do_mapped_read(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return replay_mappings_read(caller->place->mappings, operation);
}

static int64_t do_mapped_write(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return replay_mappings_write(caller->place->mappings, operation, caller->buffer.memory, caller->buffer.room);
}

/* -- names and inodes --------------------------------------------------------------------------------------------- */

static int64_t do_lstat(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    struct stat found;

    (void)unused;
    return sandbox_stat(caller->place->sandbox, path_of(caller, operation), &found);
}

/* What the link leads to would be meant, and links are not followed. */
static int64_t do_stat(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    struct stat found;
    int result = sandbox_stat(caller->place->sandbox, path_of(caller, operation), &found);

    (void)unused;
    return result == 0 && S_ISLNK(found.st_mode) ? -ELOOP : result;
}

static int64_t do_fstat(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    struct stat found;

    (void)caller;
    (void)operation;
    return or_errno(fstat(file, &found));
}

static int64_t do_access(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    int mode = operation->request == RECORD_NULL_INT32 ? F_OK : operation->request;

    (void)unused;
    return sandbox_access(caller->place->sandbox, path_of(caller, operation), mode);
}

static int64_t do_readlink(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    char target[PATH_MAX];
    size_t room = operation->bytes > 0 && operation->bytes < PATH_MAX ? (size_t)operation->bytes : sizeof target;

    (void)unused;
    return sandbox_readlink(caller->place->sandbox, path_of(caller, operation), target, room);
}

static int64_t do_getdents(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    char entries[32768];
    size_t room =
        operation->bytes > 0 && operation->bytes < (int64_t)sizeof entries ? (size_t)operation->bytes : sizeof entries;

    (void)caller;
    return or_errno(syscall(SYS_getdents64, file, entries, room));
}

static int64_t do_statfs(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    struct statfs found;

    if (file >= 0)
        return or_errno(fstatfs(file, &found));
    return sandbox_statfs(caller->place->sandbox, path_of(caller, operation), &found);
}

static int64_t do_mkdir(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_mkdir(caller->place->sandbox, path_of(caller, operation), mode_of(operation, 0700));
}

static int64_t do_rmdir(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_rmdir(caller->place->sandbox, path_of(caller, operation));
}

static int64_t do_unlink(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_unlink(caller->place->sandbox, path_of(caller, operation));
}

static int64_t do_rename(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_rename(caller->place->sandbox, path_of(caller, operation), path2_of(caller, operation),
                          (unsigned int)flags_of(operation));
}

static int64_t do_link(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_link(caller->place->sandbox, path_of(caller, operation), path2_of(caller, operation));
}

static int64_t do_symlink(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_symlink(caller->place->sandbox, path2_of(caller, operation), path_of(caller, operation));
}

static int64_t do_chmod(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_chmod(caller->place->sandbox, path_of(caller, operation), mode_of(operation, 0600));
}

static int64_t do_fchmod(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    return sandbox_fchmod(caller->place->sandbox, file, mode_of(operation, 0600));
}

/* Which times were set is not kept; that they were is what costs. */
static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

static int64_t do_utimens(struct replay_caller *caller, const struct replay_operation *operation, int unused)
{
    (void)unused;
    return sandbox_utimens(caller->place->sandbox, path_of(caller, operation), now);
}

static int64_t do_futimens(struct replay_caller *caller, const struct replay_operation *operation, int file)
{
    (void)caller;
    (void)operation;
    return or_errno(futimens(file, now));
}

/* -- all of them -------------------------------------------------------------------------------------------------- */

enum { NO_DESCRIPTOR, DESCRIPTOR, PERHAPS_DESCRIPTOR };

static const struct kind kinds[REPLAY_CALLS] = {
    [CALL_OPEN] = {do_open, NO_DESCRIPTOR},
    [CALL_CLOSE] = {do_close, NO_DESCRIPTOR},
    [CALL_DUP] = {do_dup, DESCRIPTOR},
    [CALL_LSEEK] = {do_lseek, DESCRIPTOR},
    [CALL_READ] = {do_read, DESCRIPTOR},
    [CALL_WRITE] = {do_write, DESCRIPTOR},
    [CALL_PREAD] = {do_pread, DESCRIPTOR},
    [CALL_PWRITE] = {do_pwrite, DESCRIPTOR},
    [CALL_READV] = {do_read, DESCRIPTOR},
    [CALL_WRITEV] = {do_write, DESCRIPTOR},
    [CALL_PREADV] = {do_pread, DESCRIPTOR},
    [CALL_PWRITEV] = {do_pwrite, DESCRIPTOR},
    [CALL_SENDFILE] = {do_copy, PERHAPS_DESCRIPTOR},
    [CALL_SPLICE] = {do_copy, PERHAPS_DESCRIPTOR},
    [CALL_COPY_FILE_RANGE] = {do_copy, PERHAPS_DESCRIPTOR},
    [CALL_FSYNC] = {do_fsync, DESCRIPTOR},
    [CALL_FDATASYNC] = {do_fdatasync, DESCRIPTOR},
    [CALL_SYNC_FILE_RANGE] = {do_sync_file_range, DESCRIPTOR},
    [CALL_SYNC] = {do_sync, NO_DESCRIPTOR},
    [CALL_SYNCFS] = {do_syncfs, DESCRIPTOR},
    [CALL_TRUNCATE] = {do_truncate, NO_DESCRIPTOR},
    [CALL_FTRUNCATE] = {do_ftruncate, DESCRIPTOR},
    [CALL_FALLOCATE] = {do_fallocate, DESCRIPTOR},
    [CALL_FADVISE] = {do_fadvise, DESCRIPTOR},
    [CALL_READAHEAD] = {do_readahead, DESCRIPTOR},
    [CALL_MMAP] = {do_mmap, DESCRIPTOR},
    [CALL_MUNMAP] = {do_munmap, NO_DESCRIPTOR},
    [CALL_MSYNC] = {do_msync, NO_DESCRIPTOR},
    [CALL_MAPPED_READ] = {do_mapped_read, NO_DESCRIPTOR},
    [CALL_MAPPED_WRITE] = {do_mapped_write, NO_DESCRIPTOR},
    [CALL_STAT] = {do_stat, NO_DESCRIPTOR},
    [CALL_LSTAT] = {do_lstat, NO_DESCRIPTOR},
    [CALL_FSTAT] = {do_fstat, DESCRIPTOR},
    [CALL_ACCESS] = {do_access, NO_DESCRIPTOR},
    [CALL_READLINK] = {do_readlink, NO_DESCRIPTOR},
    [CALL_GETDENTS] = {do_getdents, DESCRIPTOR},
    [CALL_STATFS] = {do_statfs, PERHAPS_DESCRIPTOR},
    [CALL_MKDIR] = {do_mkdir, NO_DESCRIPTOR},
    [CALL_RMDIR] = {do_rmdir, NO_DESCRIPTOR},
    [CALL_UNLINK] = {do_unlink, NO_DESCRIPTOR},
    [CALL_RENAME] = {do_rename, NO_DESCRIPTOR},
    [CALL_LINK] = {do_link, NO_DESCRIPTOR},
    [CALL_SYMLINK] = {do_symlink, NO_DESCRIPTOR},
    [CALL_CHMOD] = {do_chmod, NO_DESCRIPTOR},
    [CALL_FCHMOD] = {do_fchmod, DESCRIPTOR},
    [CALL_UTIMENS] = {do_utimens, NO_DESCRIPTOR},
    [CALL_FUTIMENS] = {do_futimens, DESCRIPTOR},
};

int64_t replay_do(struct replay_caller *caller, const struct replay_operation *operation)
{
    const struct kind *kind = &kinds[operation->call];
    bool by_descriptor = kind->descriptors == DESCRIPTOR ||
                         (kind->descriptors == PERHAPS_DESCRIPTOR && operation->descriptor != REPLAY_NONE);
    int64_t result;
    int file;

    if (!by_descriptor)
        return kind->call(caller, operation, -1);
    file = replay_descriptors_use(caller->place->descriptors, operation->descriptor);
    if (file < 0)
        return file;
    result = kind->call(caller, operation, file);
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
    return complain("no memory for %" PRIu32 " descriptors", program->nr_descriptors);
}

void replay_place_close(struct replay_place *place)
{
    replay_mappings_free(place->mappings);
    replay_descriptors_free(place->descriptors);
    place->mappings = NULL;
    place->descriptors = NULL;
}
