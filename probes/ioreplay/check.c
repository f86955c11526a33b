#define _GNU_SOURCE
#include "ioreplay/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/complain.h"
#include "common/files.h"

#define NULL64    RECORD_NULL_INT64
#define NULL32    RECORD_NULL_INT32
#define MOST_MODE 07777

#define MOVED_BYTES (INT64_C(1) << 30) /* Linux moves no more than 2 GiB in one call, a buffer holds less */

enum need {
    UNUSED,
    MAY,
    MUST,
    MADE,   /* a new descriptor, unless it failed */
    MAPPED, /* a descriptor that was mapped, also where it is closed by now */
};

enum size {
    SIZE_NONE,
    SIZE_ANY,
    SIZE_MOVED, /* goes through a buffer */
};

/* What an operation of each call must say. Flags are asm-generic's. */
static const struct shape {
    enum need descriptor, descriptor2, path, path2, offset;
    enum size size;
    int64_t flags;
    int32_t request; /* the greatest; 0: none */
} shapes[REPLAY_CALLS] = {
    [CALL_OPEN] = {.path = MUST, .descriptor = MADE, .flags = 0x7FFFC3},
    [CALL_CLOSE] = {.descriptor = MUST},
    [CALL_DUP] = {.descriptor = MUST, .descriptor2 = MADE, .flags = 0x80000},
    [CALL_LSEEK] = {.descriptor = MUST, .offset = MUST, .request = 4},
    [CALL_READ] = {.descriptor = MUST, .size = SIZE_MOVED},
    [CALL_WRITE] = {.descriptor = MUST, .size = SIZE_MOVED},
    [CALL_PREAD] = {.descriptor = MUST, .offset = MUST, .size = SIZE_MOVED},
    [CALL_PWRITE] = {.descriptor = MUST, .offset = MUST, .size = SIZE_MOVED},
    [CALL_READV] = {.descriptor = MUST, .size = SIZE_MOVED},
    [CALL_WRITEV] = {.descriptor = MUST, .size = SIZE_MOVED},
    [CALL_PREADV] = {.descriptor = MUST, .size = SIZE_MOVED, .flags = 0x1FF},
    [CALL_PWRITEV] = {.descriptor = MUST, .size = SIZE_MOVED, .flags = 0x1FF},
    [CALL_SENDFILE] = {.descriptor = MAY, .descriptor2 = MAY, .size = SIZE_ANY},
    [CALL_SPLICE] = {.descriptor = MAY, .descriptor2 = MAY, .size = SIZE_ANY, .flags = 0xF},
    [CALL_COPY_FILE_RANGE] = {.descriptor = MAY, .descriptor2 = MAY, .size = SIZE_ANY},
    [CALL_FSYNC] = {.descriptor = MUST},
    [CALL_FDATASYNC] = {.descriptor = MUST},
    [CALL_SYNC_FILE_RANGE] = {.descriptor = MUST, .offset = MUST, .size = SIZE_ANY, .flags = 7},
    [CALL_SYNCFS] = {.descriptor = MUST},
    [CALL_TRUNCATE] = {.path = MUST, .size = SIZE_ANY},
    [CALL_FTRUNCATE] = {.descriptor = MUST, .size = SIZE_ANY},
    [CALL_FALLOCATE] = {.descriptor = MUST, .offset = MUST, .size = SIZE_ANY, .flags = 0xFF},
    [CALL_FADVISE] = {.descriptor = MUST, .offset = MUST, .size = SIZE_ANY, .request = 7},
    [CALL_READAHEAD] = {.descriptor = MUST, .offset = MUST, .size = SIZE_ANY},
    [CALL_MMAP] = {.descriptor = MUST, .offset = MUST, .size = SIZE_ANY, .flags = UINT32_MAX, .request = 0xF},
    [CALL_MUNMAP] = {.descriptor = MAPPED, .offset = MUST, .size = SIZE_ANY},
    [CALL_MSYNC] = {.descriptor = MAPPED, .offset = MUST, .size = SIZE_ANY, .flags = 7},
    [CALL_MAPPED_READ] = {.descriptor = MAPPED, .offset = MUST, .size = SIZE_MOVED},
    [CALL_MAPPED_WRITE] = {.descriptor = MAPPED, .offset = MUST, .size = SIZE_MOVED},
    [CALL_STAT] = {.path = MUST, .flags = 0x7F00},
    [CALL_LSTAT] = {.path = MUST, .flags = 0x7F00},
    [CALL_FSTAT] = {.descriptor = MUST, .flags = 0x7F00},
    [CALL_ACCESS] = {.path = MUST, .flags = 0x7F00, .request = 7},
    [CALL_READLINK] = {.path = MUST},
    [CALL_GETDENTS] = {.descriptor = MUST},
    [CALL_STATFS] = {.path = MAY, .descriptor = MAY},
    [CALL_MKDIR] = {.path = MUST},
    [CALL_RMDIR] = {.path = MUST, .flags = 0x200},
    [CALL_UNLINK] = {.path = MUST},
    [CALL_RENAME] = {.path = MUST, .path2 = MUST, .flags = 7},
    [CALL_LINK] = {.path = MUST, .path2 = MUST, .flags = 0x1400},
    [CALL_SYMLINK] = {.path = MUST, .path2 = MUST},
    [CALL_CHMOD] = {.path = MUST, .flags = 0x7F00},
    [CALL_FCHMOD] = {.descriptor = MUST, .flags = 0x7F00},
    [CALL_UTIMENS] = {.path = MUST, .flags = 0x7F00},
    [CALL_FUTIMENS] = {.descriptor = MUST, .flags = 0x7F00},
};

enum state { UNMADE, OPEN, CLOSED };

struct descriptor {
    uint8_t state; /* enum state */
    bool is_mapped;
};

struct checker {
    const char *path;
    const struct replay_program *program;
    bool *is_place;                 /* for each path whether it can lead to a file; what links say can be anything */
    struct descriptor *descriptors; /* as the operations so far leave them */
};

/* What is wrong with number `number` of `what`. Always -1. */
__attribute__((format(printf, 4, 5))) static int wrong(const struct checker *checker, const char *what, uint32_t number,
                                                       const char *expected, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, expected);
    vsnprintf(text, sizeof text, expected, arguments);
    va_end(arguments);
    return complain("%s: %s %" PRIu32 ": %s was expected; make the program again with androstep program", checker->path,
                    what, number, text);
}

/* -- paths --------------------------------------------------------------------------------------------------------- */

static bool is_place(const char *path)
{
    if (!strcmp(path, "."))
        return true;
    while (true) {
        size_t length = strcspn(path, "/");

        if (length == 0 || !strncmp(path, ".", length) || !strncmp(path, "..", length))
            return false;
        if (!path[length])
            return true;
        path += length + 1;
    }
}

static void judge_paths(struct checker *checker)
{
    for (uint32_t number = 0; number < checker->program->nr_paths; number++)
        checker->is_place[number] = is_place(checker->program->paths[number]);
}

/* -- files --------------------------------------------------------------------------------------------------------- */

/* A row of the files, for sorting. */
struct named {
    const char *path;
    const struct replay_file *row;
};

static int compare_paths(const void *one, const void *other)
{
    return strcmp(((const struct named *)one)->path, ((const struct named *)other)->path);
}

static int compare_files(const void *one, const void *other)
{
    int32_t left = ((const struct named *)one)->row->file, right = ((const struct named *)other)->row->file;

    return (left > right) - (left < right);
}

struct wanted {
    const char *path;
    size_t length;
};

static int compare_wanted(const void *wanted, const void *item)
{
    const struct wanted *key = wanted;
    const char *path = ((const struct named *)item)->path;
    int order = strncmp(key->path, path, key->length);

    return order ? order : -(path[key->length] != 0);
}

/* The directory that a file is in stands before it; `sorted` is in the order of paths. */
static bool has_directory(const struct checker *checker, const struct named *sorted, const struct named *file)
{
    const char *slash = strrchr(file->path, '/');
    struct wanted wanted = {file->path, slash ? (size_t)(slash - file->path) : 0};
    const struct named *found;

    if (!slash)
        return true;
    found = bsearch(&wanted, sorted, checker->program->nr_files, sizeof *sorted, compare_wanted);
    return found && found->row < file->row && found->row->kind == KIND_DIRECTORY;
}

static int check_file(const struct checker *checker, uint32_t number)
{
    const struct replay_file *file = &checker->program->files[number];

    if (!checker->is_place[file->path])
        return wrong(checker, "file", number, "a path from the root without “..” and empty parts");
    if (!strcmp(checker->program->paths[file->path], ".") && file->kind != KIND_DIRECTORY)
        return wrong(checker, "file", number, "a directory as the root");
    if ((file->target != REPLAY_NONE) != (file->kind == KIND_SYMLINK))
        return wrong(checker, "file", number, "a target of each link, and of nothing else");
    if (file->size_bytes < 0 || (file->size_bytes > 0 && file->kind != KIND_FILE))
        return wrong(checker, "file", number, "a size of 0 or more, and of files only");
    if (file->mode != NULL32 && (file->mode < 0 || file->mode > MOST_MODE))
        return wrong(checker, "file", number, "a mode from 0 to 07777");
    if (file->file < REPLAY_NONE)
        return wrong(checker, "file", number, "the number of a file from 0 on");
    return 0;
}

static uint32_t row_number(const struct checker *checker, const struct named *file)
{
    return (uint32_t)(file->row - checker->program->files);
}

static int check_places(const struct checker *checker, struct named *sorted)
{
    uint32_t nr_files = checker->program->nr_files;

    qsort(sorted, nr_files, sizeof *sorted, compare_paths);
    for (uint32_t index = 0; index < nr_files; index++) {
        if (index && !compare_paths(&sorted[index - 1], &sorted[index]))
            return wrong(checker, "file", row_number(checker, &sorted[index]), "a path that no other has");
        if (!has_directory(checker, sorted, &sorted[index]))
            return wrong(checker, "file", row_number(checker, &sorted[index]), "its directory before it");
    }
    return 0;
}

/* Names of one file tell of one size. */
static int check_names(const struct checker *checker, struct named *sorted)
{
    qsort(sorted, checker->program->nr_files, sizeof *sorted, compare_files);
    for (uint32_t index = 1; index < checker->program->nr_files; index++) {
        const struct replay_file *file = sorted[index].row, *before = sorted[index - 1].row;

        if (file->file != REPLAY_NONE && file->file == before->file && file->size_bytes != before->size_bytes)
            return wrong(checker, "file", row_number(checker, &sorted[index]),
                         "the size that it has under other names");
    }
    return 0;
}

static int check_files(const struct checker *checker)
{
    const struct replay_program *program = checker->program;
    struct named *sorted = zeroed(program->nr_files, sizeof *sorted);
    int failed = 0;

    for (uint32_t number = 0; number < program->nr_files && !failed; number++) {
        const struct replay_file *file = &program->files[number];

        sorted[number] = (struct named){program->paths[file->path], file};
        failed = check_file(checker, number);
    }
    failed = failed || check_places(checker, sorted) || check_names(checker, sorted);
    free(sorted);
    return failed ? -1 : 0;
}

/* -- operations ---------------------------------------------------------------------------------------------------- */

static int check_time(const struct checker *checker, uint32_t number)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    int64_t least = number ? operation[-1].ts_ns : 0;

    if (operation->ts_ns < least || operation->ts_ns > checker->program->duration_ns)
        return wrong(checker, "operation", number, "a time from %" PRId64 " ns to the end at %" PRId64 " ns", least,
                     checker->program->duration_ns);
    return 0;
}

static int check_place(const struct checker *checker, uint32_t number, enum need need, int32_t path, const char *name)
{
    if (path == REPLAY_NONE && need == MUST)
        return wrong(checker, "operation", number, "%s of %s", name,
                     replay_call_names[checker->program->operations[number].call]);
    if (path != REPLAY_NONE && !checker->is_place[path])
        return wrong(checker, "operation", number, "%s from the root without “..” and empty parts", name);
    return 0;
}

static int check_paths(const struct checker *checker, uint32_t number)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    const struct shape *shape = &shapes[operation->call];

    if (check_place(checker, number, shape->path, operation->path, "a path"))
        return -1;
    if (operation->call == CALL_SYMLINK)
        return operation->path2 == REPLAY_NONE ? wrong(checker, "operation", number, "what the link says") : 0;
    return check_place(checker, number, shape->path2, operation->path2, "a second path");
}

/* A place and a length of a file, of which neither can be negative, and that do not lead beyond what can be told. */
static bool is_range(int64_t offset, int64_t bytes)
{
    int64_t end;

    if (offset == NULL64)
        return true;
    return offset >= 0 && !__builtin_add_overflow(offset, bytes == NULL64 ? 0 : bytes, &end);
}

static int check_numbers(const struct checker *checker, uint32_t number)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    const struct shape *shape = &shapes[operation->call];
    int64_t most = shape->size == SIZE_MOVED ? MOVED_BYTES : INT64_MAX;

    if (shape->size != SIZE_NONE && operation->bytes == NULL64)
        return wrong(checker, "operation", number, "bytes of %s", replay_call_names[operation->call]);
    if (operation->bytes != NULL64 && (operation->bytes < 0 || operation->bytes > most))
        return wrong(checker, "operation", number, "bytes from 0 to %" PRId64, most);
    if (shape->offset == MUST && operation->offset_bytes == NULL64)
        return wrong(checker, "operation", number, "an offset of %s", replay_call_names[operation->call]);
    if (operation->call != CALL_LSEEK &&
        (!is_range(operation->offset_bytes, operation->bytes) || !is_range(operation->offset2_bytes, operation->bytes)))
        return wrong(checker, "operation", number, "an offset of 0 or more that ends before 2^63");
    return 0;
}

static int check_words(const struct checker *checker, uint32_t number)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    const struct shape *shape = &shapes[operation->call];
    const char *call = replay_call_names[operation->call];

    if (operation->flags != NULL64 && (operation->flags & ~shape->flags) != 0)
        return wrong(checker, "operation", number, "no flags of %s but %#" PRIx64, call, (uint64_t)shape->flags);
    if (shape->request && (operation->request < 0 || operation->request > shape->request))
        return wrong(checker, "operation", number, "a request of %s from 0 to %" PRId32, call, shape->request);
    if (operation->mode != NULL32 && (operation->mode < 0 || operation->mode > MOST_MODE))
        return wrong(checker, "operation", number, "a mode from 0 to 07777");
    return 0;
}

/* -- descriptors --------------------------------------------------------------------------------------------------- */

static int make_descriptor(struct checker *checker, uint32_t number, int32_t made)
{
    const struct replay_operation *operation = &checker->program->operations[number];

    if (made == REPLAY_NONE)
        return operation->failed ? 0 : wrong(checker, "operation", number, "the descriptor it makes");
    if (operation->failed == 1)
        return wrong(checker, "operation", number, "no descriptor of what failed");
    if (checker->descriptors[made].state != UNMADE)
        return wrong(checker, "operation", number, "a new descriptor in place of %" PRId32, made);
    checker->descriptors[made].state = OPEN;
    return 0;
}

static int use_descriptor(struct checker *checker, uint32_t number, enum need need, int32_t used)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    struct descriptor *descriptor = used == REPLAY_NONE ? NULL : &checker->descriptors[used];

    if (need == UNUSED || need == MADE)
        return 0;
    if (!descriptor)
        return need == MAY
                   ? 0
                   : wrong(checker, "operation", number, "a descriptor of %s", replay_call_names[operation->call]);
    if (need == MAPPED)
        return descriptor->is_mapped ? 0 : wrong(checker, "operation", number, "mmap of descriptor %" PRId32, used);
    if (descriptor->state != OPEN)
        return wrong(checker, "operation", number, "an open descriptor in place of %" PRId32 ", which is %s", used,
                     descriptor->state == CLOSED ? "closed" : "not yet made");
    if (operation->call == CALL_MMAP)
        descriptor->is_mapped = true;
    if (operation->call == CALL_CLOSE)
        descriptor->state = CLOSED;
    return 0;
}

static int check_descriptors(struct checker *checker, uint32_t number)
{
    const struct replay_operation *operation = &checker->program->operations[number];
    const struct shape *shape = &shapes[operation->call];

    if (use_descriptor(checker, number, shape->descriptor, operation->descriptor) ||
        use_descriptor(checker, number, shape->descriptor2, operation->descriptor2))
        return -1;
    if (shape->descriptor == MAY && operation->descriptor == REPLAY_NONE && operation->descriptor2 == REPLAY_NONE &&
        operation->path == REPLAY_NONE)
        return wrong(checker, "operation", number, "a file of %s", replay_call_names[operation->call]);
    if (shape->descriptor == MADE)
        return make_descriptor(checker, number, operation->descriptor);
    return shape->descriptor2 == MADE ? make_descriptor(checker, number, operation->descriptor2) : 0;
}

/* -- devices ------------------------------------------------------------------------------------------------------- */

static bool is_for_device(enum replay_call call)
{
    switch (call) {
    case CALL_OPEN:
    case CALL_CLOSE:
    case CALL_PREAD:
    case CALL_PWRITE:
    case CALL_PREADV:
    case CALL_PWRITEV:
    case CALL_FSYNC:
    case CALL_FDATASYNC:
    case CALL_FALLOCATE:
        return true;
    default:
        return false;
    }
}

static bool is_device_path(const struct replay_program *program, int32_t path)
{
    return !strcmp(program->paths[path], "device");
}

static int check_device(const struct checker *checker)
{
    const struct replay_program *program = checker->program;

    if (program->nr_files != 1 || program->files[0].kind != KIND_FILE ||
        !is_device_path(program, program->files[0].path))
        return complain("%s: the one file “device” was expected, for its operations are those of a block device; make "
                        "the program again with androstep program",
                        checker->path);
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];

        if (!is_for_device(operation->call))
            return wrong(checker, "operation", number, "what a block device can do in place of %s",
                         replay_call_names[operation->call]);
        if (operation->path != REPLAY_NONE && !is_device_path(program, operation->path))
            return wrong(checker, "operation", number, "no file but “device”");
    }
    return 0;
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

static int check_operations(struct checker *checker)
{
    for (uint32_t number = 0; number < checker->program->nr_operations; number++)
        if (check_time(checker, number) || check_paths(checker, number) || check_numbers(checker, number) ||
            check_words(checker, number) || check_descriptors(checker, number))
            return -1;
    return 0;
}

static int check_dependencies(const struct checker *checker)
{
    const struct replay_program *program = checker->program;

    for (uint32_t number = 0; number < program->nr_dependencies; number++) {
        const struct replay_dependency *dependency = &program->dependencies[number];

        if (program->operations[dependency->operation].thread == program->operations[dependency->after].thread)
            return wrong(checker, "dependency", number, "operations of two threads");
        if (number &&
            (dependency[-1].operation > dependency->operation ||
             (dependency[-1].operation == dependency->operation && dependency[-1].after >= dependency->after)))
            return wrong(checker, "dependency", number, "a place behind the dependency before it");
    }
    return 0;
}

int replay_check(const char *path, const struct replay_program *program)
{
    struct checker checker = {
        .path = path,
        .program = program,
        .is_place = zeroed(program->nr_paths, sizeof *checker.is_place),
        .descriptors = zeroed(program->nr_descriptors, sizeof *checker.descriptors),
    };
    int failed;

    judge_paths(&checker);
    failed = check_files(&checker) || check_operations(&checker) || check_dependencies(&checker) ||
             (program->is_device && check_device(&checker));
    free(checker.is_place);
    free(checker.descriptors);
    return failed ? -1 : 0;
}
