/* Creates the files that exist at the start of a replay program. */
#include "ioreplay/replay.h"

#include <linux/falloc.h>
#include <sys/statvfs.h>

#include "common/page_cache.h"

struct populating {
    const struct sandbox *sandbox;
    const struct replay_program *program;
    struct replay_filling filling;
};

static const char *path_of(const struct populating *populating, const struct replay_file *file)
{
    return populating->program->strings[file->path];
}

static int fail(const struct populating *populating, const struct replay_file *file, const char *what, int error)
{
    return print_error("%s/%s: %s; %s", populating->sandbox->shown, path_of(populating, file), strerror(-error), what);
}

/* -- free space ------------------------------------------------------------------------------------------------- */

static int64_t rounded(int64_t bytes, int64_t block)
{
    int64_t up;
    return __builtin_add_overflow(bytes, block - 1, &up) ? INT64_MAX : up / block * block;
}

/* Return whether an operation allocates space. Flags that free or move existing blocks do not. */
static bool allocates(const struct replay_operation *operation)
{
    int64_t flags = operation->flags == RECORD_NULL_INT64 ? 0 : operation->flags;
    return operation->call == CALL_FALLOCATE && operation->failed != 1 &&
           !(flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
}

/* Return the bytes of the largest fallocate: the kernel would fill the disk before it fails. */
static int64_t largest_allocation(const struct replay_program *program)
{
    int64_t largest = 0;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        if (allocates(operation) && operation->bytes > largest)
            largest = operation->bytes;
    }
    return largest;
}

/* Check the free space for all files at the start, the largest allocation, and a block for every other name.
 * Filesystems without a limit of files report a limit of 0. */
static int check_room(const struct populating *populating)
{
    const struct replay_program *program = populating->program;
    const struct sandbox *sandbox = populating->sandbox;
    int64_t needed = largest_allocation(program);
    struct statvfs about;
    if (fstatvfs(sandbox->beneath.directory, &about) < 0)
        return print_error("%s: %s; its free space cannot be read", sandbox->shown, strerror(errno));
    for (uint32_t index = 0; index < program->nr_files; index++)
        needed = replay_sum(needed, replay_is_file(&program->files[index])
                                        ? rounded(replay_file_bytes(&program->files[index]), (int64_t)about.f_frsize)
                                        : (int64_t)about.f_frsize);
    if (about.f_files && program->nr_files > about.f_favail)
        return print_error("%s: %" PRIu64 " more files can be made, but the program needs %" PRIu32
                           "; remove some of the filesystem",
                           sandbox->shown, (uint64_t)about.f_favail, program->nr_files);
    return files_room(sandbox->beneath.directory, sandbox->shown, needed);
}

/* -- creating files --------------------------------------------------------------------------------------------- */

static int make_file(struct populating *populating, const struct replay_file *file)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_LARGEFILE;
    int descriptor = sandbox_open(populating->sandbox, path_of(populating, file), flags, 0600), result;
    if (descriptor < 0)
        return fail(populating, file, "it cannot be made", descriptor);
    result = replay_fill(&populating->filling, descriptor, replay_file_bytes(file));
    close(descriptor);
    return result < 0 ? fail(populating, file, "it cannot be written", result) : -result;
}

static int make_name(const struct populating *populating, const struct replay_file *file)
{
    struct replay_operation make = {.call = CALL_MKDIR, .path = file->path, .path2 = file->target, .mode = 0700};
    if (file->kind == KIND_DIRECTORY && !strcmp(path_of(populating, file), "."))
        return 0;
    make.flags = RECORD_NULL_INT64;
    if (file->kind == KIND_SYMLINK) {
        make.call = CALL_SYMLINK;
    } else if (file->kind == KIND_FILE) {
        make.call = CALL_LINK;
        make.path = populating->program->files[file->first].path;
        make.path2 = file->path;
    }
    int64_t error = sandbox_do(populating->sandbox, populating->program, &make);
    return error < 0 ? fail(populating, file, "it cannot be made", (int)error) : 0;
}

static int make_all(struct populating *populating)
{
    for (uint32_t index = 0; index < populating->program->nr_files; index++) {
        const struct replay_file *file = &populating->program->files[index];
        if ((replay_is_file(file) ? make_file(populating, file) : make_name(populating, file)) < 0)
            return -1;
    }
    return 0;
}

/* -- initial state ---------------------------------------------------------------------------------------------- */

static int sync_all(const struct populating *populating)
{
    if (syncfs(populating->sandbox->beneath.directory) == 0)
        return 0;
    return print_error("%s: %s; the program's files cannot be synced", populating->sandbox->shown, strerror(errno));
}

static int drop(const struct populating *populating, const struct replay_file *file)
{
    int descriptor = sandbox_open(populating->sandbox, path_of(populating, file), O_RDONLY | O_LARGEFILE, 0);
    if (descriptor < 0)
        return fail(populating, file, "it cannot be opened", descriptor);
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    close(descriptor);
    return 0;
}

static int give_mode(const struct populating *populating, const struct replay_file *file)
{
    const char *path = path_of(populating, file);
    if (file->mode == RECORD_NULL_INT32 || file->kind == KIND_SYMLINK || !strcmp(path, "."))
        return 0;
    int error = sandbox_chmod(populating->sandbox, path, (mode_t)file->mode);
    return error < 0 ? fail(populating, file, "its mode cannot be set", error) : 0;
}

/* Set modes last, and in directories after their entries, because they may deny access to this program. */
static int finish_all(const struct populating *populating)
{
    const struct replay_program *program = populating->program;
    if (sync_all(populating) < 0)
        return -1;
    for (uint32_t index = program->nr_files; index--;) {
        const struct replay_file *file = &program->files[index];
        if ((replay_is_file(file) && drop(populating, file) < 0) || give_mode(populating, file) < 0)
            return -1;
    }
    return sync_all(populating);
}

/* -- all files -------------------------------------------------------------------------------------------------- */

int sandbox_populate(const struct sandbox *sandbox, const struct replay_program *program, replay_show *show)
{
    struct populating populating = {.sandbox = sandbox, .program = program};
    replay_filling_open(&populating.filling, replay_files_bytes(program), show);
    int failed = check_room(&populating) < 0 || make_all(&populating) < 0 || finish_all(&populating) < 0;
    replay_filling_close(&populating.filling);
    return failed ? -1 : 0;
}

int32_t sandbox_is_cold(const struct sandbox *sandbox, const struct replay_program *program)
{
    struct cache_found cache = {0};
    for (uint32_t index = 0; index < program->nr_files && cache.resident_bytes == 0; index++) {
        const struct replay_file *file = &program->files[index];
        if (!replay_is_file(file))
            continue;
        int descriptor = sandbox_open(sandbox, program->strings[file->path], O_RDONLY | O_LARGEFILE, 0);
        if (descriptor < 0)
            return RECORD_NULL_INT32;
        cache_look(descriptor, replay_file_bytes(file), &cache);
        close(descriptor);
    }
    return cache.resident_bytes < 0 ? RECORD_NULL_INT32 : cache.resident_bytes == 0;
}
