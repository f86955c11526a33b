/* The files that a replay program needs at its start. */
#define _GNU_SOURCE
#include "ioreplay/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/files.h"
#include "common/page_cache.h"
#include "common/payload.h"

#define CHUNK_BYTES (1 << 20)

/* The same files in each replay, and other contents than what any writes. */
#define SEED 0

struct populating {
    const struct sandbox *sandbox;
    const struct replay_program *program;
    const struct replay_file **first; /* of each row the first one of the same file; NULL: itself */
    struct payload payload;
    unsigned char *chunk;
    int64_t done, all; /* bytes */
    bool (*show)(int64_t done, int64_t all);
};

static const char *path_of(const struct populating *populating, const struct replay_file *file)
{
    return populating->program->paths[file->path];
}

static int fail(const struct populating *populating, const struct replay_file *file, const char *what, int error)
{
    return complain("%s/%s: %s; %s", populating->sandbox->shown, path_of(populating, file), strerror(-error), what);
}

/* -- rows of the same file ---------------------------------------------------------------------------------------- */

static int by_file(const void *left, const void *right)
{
    const struct replay_file *one = *(const struct replay_file *const *)left;
    const struct replay_file *other = *(const struct replay_file *const *)right;

    if (one->file != other->file)
        return one->file < other->file ? -1 : 1;
    return (one > other) - (one < other);
}

static void find_first(struct populating *populating)
{
    const struct replay_file *files = populating->program->files;
    uint32_t nr_files = populating->program->nr_files;
    const struct replay_file **sorted = grow(NULL, nr_files, sizeof(*sorted));

    populating->first = grow(NULL, nr_files, sizeof(*populating->first));
    for (uint32_t index = 0; index < nr_files; index++)
        sorted[index] = &files[index];
    qsort(sorted, nr_files, sizeof(*sorted), by_file);
    for (uint32_t index = 0; index < nr_files; index++) {
        bool same = index && sorted[index]->file != REPLAY_NONE && sorted[index]->file == sorted[index - 1]->file;
        const struct replay_file *before = same ? sorted[index - 1] : NULL;

        if (before && populating->first[before - files])
            before = populating->first[before - files];
        populating->first[sorted[index] - files] = before;
    }
    free(sorted);
}

/* A regular file, and not only another name of one. */
static bool is_file(const struct populating *populating, uint32_t index)
{
    return populating->program->files[index].kind == KIND_FILE && !populating->first[index];
}

/* -- room --------------------------------------------------------------------------------------------------------- */

static int64_t rounded(int64_t bytes, int64_t block)
{
    int64_t up;

    return __builtin_add_overflow(bytes, block - 1, &up) ? INT64_MAX : up / block * block;
}

static int64_t add(int64_t sum, int64_t bytes)
{
    return __builtin_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
}

/* Of the flags those that free or move what a file has. */
static bool allocates(const struct replay_operation *operation)
{
    int64_t flags = operation->flags == RECORD_NULL_INT64 ? 0 : operation->flags;

    return operation->call == CALL_FALLOCATE && operation->failed != 1 &&
           !(flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
}

/* The most that one fallocate takes: the kernel would fill the disk before it says that there is no room. */
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

/* What files take up, at the start and by being allocated, and a block for everything else that has a name. */
static int64_t room_needed(const struct populating *populating, int64_t block)
{
    const struct replay_program *program = populating->program;
    int64_t needed = largest_allocation(program);

    for (uint32_t index = 0; index < program->nr_files; index++)
        needed = add(needed, is_file(populating, index) ? rounded(program->files[index].size_bytes, block) : block);
    return add(needed, needed / 20);
}

/* Filesystems without a limit of files say that they have 0. */
static int check_room(const struct populating *populating)
{
    struct statvfs about;
    int64_t needed, room;

    if (fstatvfs(populating->sandbox->beneath.directory, &about) < 0)
        return complain("%s: %s; its free space cannot be read", populating->sandbox->shown, strerror(errno));
    needed = room_needed(populating, (int64_t)about.f_frsize);
    room = (int64_t)about.f_bavail * (int64_t)about.f_frsize;
    if (needed > room)
        return complain("%s: %" PRId64 " bytes are free, but the program's files need %" PRId64 "; make room",
                        populating->sandbox->shown, room, needed);
    if (about.f_files && populating->program->nr_files > about.f_favail)
        return complain("%s: %" PRIu64 " more files can be made, but the program needs %" PRIu32
                        "; remove some of the filesystem",
                        populating->sandbox->shown, (uint64_t)about.f_favail, populating->program->nr_files);
    return 0;
}

/* -- making them -------------------------------------------------------------------------------------------------- */

/* Whether to go on. */
static bool advance(struct populating *populating, int64_t bytes)
{
    populating->done += bytes;
    return !populating->show || populating->show(populating->done, populating->all);
}

static int fill(struct populating *populating, const struct replay_file *file, int descriptor)
{
    for (int64_t left = file->size_bytes; left > 0;) {
        size_t chunk = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;

        payload_fill(&populating->payload, populating->chunk, chunk);
        if (write_all(descriptor, populating->chunk, chunk) < 0)
            return fail(populating, file, "it cannot be written", -errno);
        if (!advance(populating, (int64_t)chunk))
            return -1;
        left -= (int64_t)chunk;
    }
    return 0;
}

static int make_file(struct populating *populating, const struct replay_file *file)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_LARGEFILE;
    int descriptor = sandbox_open(populating->sandbox, path_of(populating, file), flags, 0600), result;

    if (descriptor < 0)
        return fail(populating, file, "it cannot be made", descriptor);
    result = fill(populating, file, descriptor);
    close(descriptor);
    return result;
}

static int make_name(const struct populating *populating, const struct replay_file *file,
                     const struct replay_file *first)
{
    const char *const *paths = populating->program->paths;
    int error = 0;

    if (file->kind == KIND_SYMLINK)
        error = sandbox_symlink(populating->sandbox, paths[file->target], paths[file->path]);
    else if (first)
        error = sandbox_link(populating->sandbox, paths[first->path], paths[file->path]);
    else if (strcmp(paths[file->path], "."))
        error = sandbox_mkdir(populating->sandbox, paths[file->path], 0700);
    return error < 0 ? fail(populating, file, "it cannot be made", error) : 0;
}

static int make_all(struct populating *populating)
{
    const struct replay_file *files = populating->program->files;

    for (uint32_t index = 0; index < populating->program->nr_files; index++) {
        if (is_file(populating, index) ? make_file(populating, &files[index]) < 0
                                       : make_name(populating, &files[index], populating->first[index]) < 0)
            return -1;
        if (!advance(populating, 0))
            return -1;
    }
    return 0;
}

/* -- as the replay finds them ------------------------------------------------------------------------------------- */

static int sync_all(const struct populating *populating)
{
    if (syncfs(populating->sandbox->beneath.directory) == 0)
        return 0;
    return complain("%s: %s; the program's files cannot be synced", populating->sandbox->shown, strerror(errno));
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
    int error;

    if (file->mode == RECORD_NULL_INT32 || file->kind == KIND_SYMLINK || !strcmp(path, "."))
        return 0;
    error = sandbox_chmod(populating->sandbox, path, (mode_t)file->mode);
    return error < 0 ? fail(populating, file, "its mode cannot be set", error) : 0;
}

/* Modes come last, of what lies deep before that of what it lies in: they may keep this program out. */
static int finish_all(const struct populating *populating)
{
    const struct replay_program *program = populating->program;

    if (sync_all(populating) < 0)
        return -1;
    for (uint32_t index = program->nr_files; index--;) {
        if (is_file(populating, index) && drop(populating, &program->files[index]) < 0)
            return -1;
        if (give_mode(populating, &program->files[index]) < 0)
            return -1;
    }
    return sync_all(populating);
}

/* -- all of it ---------------------------------------------------------------------------------------------------- */

static int64_t sum_sizes(const struct populating *populating)
{
    int64_t sum = 0;

    for (uint32_t index = 0; index < populating->program->nr_files; index++)
        if (is_file(populating, index))
            sum = add(sum, populating->program->files[index].size_bytes);
    return sum;
}

static int populate(struct populating *populating)
{
    if (payload_open(&populating->payload, CHUNK_BYTES, 0, 0, SEED, RNG_LAYOUT, 0) < 0)
        return complain("no memory for the contents of files");
    if (check_room(populating) < 0 || make_all(populating) < 0)
        return -1;
    return finish_all(populating);
}

int sandbox_populate(const struct sandbox *sandbox, const struct replay_program *program,
                     bool (*show)(int64_t done, int64_t all))
{
    struct populating populating = {.sandbox = sandbox, .program = program, .show = show};
    int result;

    find_first(&populating);
    populating.chunk = grow(NULL, CHUNK_BYTES, 1);
    populating.all = sum_sizes(&populating);
    result = populate(&populating);
    payload_close(&populating.payload);
    free(populating.chunk);
    free(populating.first);
    return result;
}

int sandbox_is_cold(const struct sandbox *sandbox, const struct replay_program *program)
{
    struct cache_found found = {0};

    for (uint32_t index = 0; index < program->nr_files && found.resident_bytes == 0; index++) {
        const struct replay_file *file = &program->files[index];
        int descriptor;

        if (file->kind != KIND_FILE)
            continue;
        descriptor = sandbox_open(sandbox, program->paths[file->path], O_RDONLY | O_LARGEFILE, 0);
        if (descriptor < 0)
            return -1;
        cache_look(descriptor, file->size_bytes, &found);
        close(descriptor);
    }
    return found.resident_bytes < 0 ? -1 : found.resident_bytes == 0;
}
