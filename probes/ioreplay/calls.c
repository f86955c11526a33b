#include "ioreplay/replay.h"

#include <sys/sendfile.h>

static int64_t or_zero(int64_t number)
{
    return number == RECORD_NULL_INT64 ? 0 : number;
}

/* -- descriptors -------------------------------------------------------------------------------------------------- */

static int64_t do_open(const struct replay_place *place, const struct replay_operation *operation)
{
    int flags = replay_open_flags(or_zero(operation->flags)), file;
    if (place->target)
        file = replay_target_open(place->target, flags);
    else
        file =
            sandbox_open(place->sandbox, place->program->strings[operation->path], flags, replay_mode(operation, 0600));
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

static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

static int64_t do_to_file(const struct replay_place *place, const struct replay_buffer *buffer,
                          const struct replay_operation *operation, int file)
{
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
        return replay_transfer(buffer, operation, file, false, RECORD_NULL_INT64);
    case CALL_WRITE:
    case CALL_WRITEV:
        return replay_transfer(buffer, operation, file, true, RECORD_NULL_INT64);
    case CALL_PREAD:
    case CALL_PREADV:
        return replay_transfer(buffer, operation, file, false, operation->offset_bytes);
    case CALL_PWRITE:
    case CALL_PWRITEV:
        return replay_transfer(buffer, operation, file, true, operation->offset_bytes);
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
        return sandbox_fchmod(place->sandbox, file, replay_mode(operation, 0600));
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
static int64_t do_copy(const struct replay_place *place, const struct replay_buffer *buffer,
                       const struct replay_operation *operation, int from)
{
    struct replay_descriptors *descriptors = place->descriptors;
    int64_t result;
    if (operation->descriptor2 == REPLAY_NONE)
        return replay_transfer(buffer, operation, from, false, operation->offset_bytes);
    int to = replay_descriptors_use(descriptors, operation->descriptor2);
    if (to < 0)
        return to;
    result =
        from < 0 ? replay_transfer(buffer, operation, to, true, operation->offset2_bytes) : copy(operation, from, to);
    replay_descriptors_unuse(descriptors, operation->descriptor2);
    return result;
}

/* -- all operations --------------------------------------------------------------------------------------------- */

/* Do an operation that needs no open descriptor; some need only the ID that it had. */
static int64_t do_without_file(const struct replay_place *place, const struct replay_buffer *buffer,
                               const struct replay_operation *operation)
{
    switch (operation->call) {
    case CALL_OPEN:
        return do_open(place, operation);
    case CALL_CLOSE:
        return replay_descriptors_close(place->descriptors, operation->descriptor);
    case CALL_SYNC: /* Sync only this filesystem: dirty data of other programs would be measured. */
        return or_errno(syncfs(place->sandbox->beneath.directory));
    case CALL_MUNMAP:
    case CALL_MSYNC:
    case CALL_MAPPED_READ:
    case CALL_MAPPED_WRITE:
        return replay_mappings_do(place->mappings, operation, buffer);
    case CALL_SENDFILE:
    case CALL_SPLICE:
    case CALL_COPY_FILE_RANGE:
        return do_copy(place, buffer, operation, -1);
    default:
        return sandbox_do(place->sandbox, place->program, operation);
    }
}

int64_t replay_do(const struct replay_place *place, const struct replay_buffer *buffer,
                  const struct replay_operation *operation)
{
    const struct replay_shape *shape = &replay_shapes[operation->call];
    if (shape->descriptor == UNUSED || shape->descriptor == NUMBER || operation->descriptor == REPLAY_NONE)
        return do_without_file(place, buffer, operation);
    int file = replay_descriptors_use(place->descriptors, operation->descriptor);
    if (file < 0)
        return file;
    int64_t result = shape->moves == MOVES_BOTH ? do_copy(place, buffer, operation, file)
                                                : do_to_file(place, buffer, operation, file);
    replay_descriptors_unuse(place->descriptors, operation->descriptor);
    return result;
}
