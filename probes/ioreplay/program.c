#include "ioreplay/program.h"

#include <assert.h>

#include "common/crc.h"
#include "ioreplay/replay.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "programs are little-endian and used as they lie in the file"
#endif

#define VERSION   1
#define MOST_MODE 07777

#define MOVED_BYTES (INT64_C(1) << 30) /* less than the 2 GiB that Linux transfers in one call */

struct header {
    char magic[8];
    uint32_t version;
    uint32_t crc; /* of everything after this field */
    int64_t duration_ns;
    uint32_t is_device, is_hashed;
    uint32_t nr_operations, nr_dependencies, nr_files, nr_threads, nr_strings, nr_descriptors;
    char source_sha256[64];
};

/* Used only by the host. */
struct thread {
    int32_t pid, tid, comm;
};

static_assert(sizeof(struct header) == 120 && sizeof(struct replay_operation) == 104 &&
                  sizeof(struct replay_dependency) == 8 && sizeof(struct replay_file) == 32 &&
                  sizeof(struct thread) == 12,
              "FORMAT.md");

static const char magic[8] = {'\xA7', 'P', 'R', 'O', 'G', 'R', 'A', 'M'};

struct loader {
    const char *path;
    struct replay_program *program;
    struct contents file;
    size_t place; /* current offset in the file */
};

/* -- errors ----------------------------------------------------------------------------------------------------- */

/* Report a damaged file. Returns -1. */
static int damaged(const struct loader *loader, const char *expected)
{
    return print_error("%s: %s was expected; the file is damaged: get another copy, or make it again", loader->path,
                       expected);
}

/* Report an error in row `number` of a table, if there is one. Returns -1 or 0. */
static int check(const struct loader *loader, const char *table, uint32_t number, const char *wrong)
{
    return wrong ? print_error("%s: %s %" PRIu32 ": %s was expected; make the program again with androstep program",
                               loader->path, table, number, wrong)
                 : 0;
}

/* Return whether it is an ID below `count`, or none. */
static bool is_id(int32_t id, uint32_t count)
{
    return id == REPLAY_NONE || (id >= 0 && (uint32_t)id < count);
}

static bool is_mode(int32_t mode)
{
    return mode == RECORD_NULL_INT32 || (mode >= 0 && mode <= MOST_MODE);
}

/* -- rows: each function returns what was expected instead, or NULL ---------------------------------------------- */

static const char *wrong_in_file(const struct replay_program *program, const struct replay_file *file)
{
    if (file->kind >= REPLAY_KINDS || file->path == REPLAY_NONE || !is_id(file->path, program->nr_strings) ||
        !is_id(file->target, program->nr_strings) || (file->target != REPLAY_NONE) != (file->kind == KIND_SYMLINK))
        return "a file, a directory or a link, with the number of its path and of the link's target";
    if ((file->size_bytes != RECORD_NULL_INT64 && file->size_bytes < 0) ||
        (file->size_bytes > 0 && file->kind != KIND_FILE) || !is_mode(file->mode))
        return "a size of 0 or more, and of files only, and a mode from 0 to 07777";
    if (file->first == REPLAY_NONE)
        return NULL;
    const struct replay_file *first =
        file->first >= 0 && file->first < file - program->files ? &program->files[file->first] : NULL;
    return first && file->kind == KIND_FILE && replay_is_file(first) && file->size_bytes == first->size_bytes
               ? NULL
               : "an earlier row with the first name of the file and the same size";
}

static bool has_references(const struct replay_program *program, const struct replay_operation *operation)
{
    const struct replay_shape *shape = &replay_shapes[operation->call];
    bool has_file = operation->descriptor != REPLAY_NONE ||
                    (shape->path == MAY ? operation->path : operation->descriptor2) != REPLAY_NONE;
    return is_id(operation->path, program->nr_strings) && is_id(operation->path2, program->nr_strings) &&
           is_id(operation->descriptor, program->nr_descriptors) &&
           is_id(operation->descriptor2, program->nr_descriptors) &&
           (shape->descriptor < MUST || operation->descriptor != REPLAY_NONE) &&
           (shape->path != MUST || operation->path != REPLAY_NONE) &&
           (shape->path2 != MUST || operation->path2 != REPLAY_NONE) && (shape->descriptor != MAY || has_file);
}

/* Return whether offset and length are not negative and their sum does not overflow. */
static bool is_range(int64_t offset, int64_t bytes)
{
    int64_t end;
    return offset == RECORD_NULL_INT64 ||
           (offset >= 0 && !__builtin_add_overflow(offset, bytes == RECORD_NULL_INT64 ? 0 : bytes, &end));
}

static bool has_range(const struct replay_operation *operation)
{
    const struct replay_shape *shape = &replay_shapes[operation->call];
    int64_t bytes = operation->bytes;
    if (bytes == RECORD_NULL_INT64 ? shape->size != SIZE_NONE
                                   : bytes < 0 || (shape->size == SIZE_MOVED && bytes > MOVED_BYTES))
        return false;
    if (shape->offset == MUST && operation->offset_bytes == RECORD_NULL_INT64)
        return false;
    return operation->call == CALL_LSEEK ||
           (is_range(operation->offset_bytes, bytes) && is_range(operation->offset2_bytes, bytes));
}

static bool has_flags(const struct replay_operation *operation)
{
    const struct replay_shape *shape = &replay_shapes[operation->call];
    return (operation->flags == RECORD_NULL_INT64 || !(operation->flags & ~shape->flags)) &&
           (!shape->request || (operation->request >= 0 && operation->request <= shape->request)) &&
           is_mode(operation->mode);
}

static const char *wrong_in_operation(const struct replay_program *program, uint32_t number)
{
    const struct replay_operation *operation = &program->operations[number];
    if (operation->call >= REPLAY_CALLS || operation->inserted > 1 || operation->failed < -1 || operation->failed > 1)
        return "a known call, and 0 or 1 for inserted and failed";
    if (program->is_device && !replay_shapes[operation->call].is_for_device)
        return "an operation that a block device supports";
    if (operation->ts_ns < (number ? operation[-1].ts_ns : 0) || operation->ts_ns > program->duration_ns)
        return "a time from that of the operation before to the end";
    if (!has_references(program, operation))
        return "the numbers of the descriptors and paths of such a call";
    if (!has_range(operation))
        return "0 or more bytes, at most 1 GiB in reads and writes, and an offset of 0 or more that ends before 2^63";
    return has_flags(operation) ? NULL : "the flags and request of such a call, and a mode from 0 to 07777";
}

static const char *wrong_in_dependency(const struct replay_program *program, uint32_t number)
{
    const struct replay_dependency *dependency = &program->dependencies[number];
    return dependency->operation < program->nr_operations && dependency->after < dependency->operation &&
                   (!number || dependency[-1].after <= dependency->after)
               ? NULL
               : "the number of an operation and that of one before it, sorted by the latter";
}

static int check_rows(const struct loader *loader)
{
    struct replay_program *program = loader->program;
    for (uint32_t number = 0; number < program->nr_files; number++)
        if (check(loader, "file", number, wrong_in_file(program, &program->files[number])))
            return -1;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        if (check(loader, "operation", number, wrong_in_operation(program, number)))
            return -1;
        program->nr_inserted += program->operations[number].inserted;
    }
    for (uint32_t number = 0; number < program->nr_dependencies; number++)
        if (check(loader, "dependency", number, wrong_in_dependency(program, number)))
            return -1;
    return 0;
}

static int group_by_thread(const struct loader *loader)
{
    struct replay_program *program = loader->program;
    uint32_t *first = program->thread_first = zeroed((size_t)program->nr_threads + 1, sizeof *first);
    program->thread_operations = zeroed(program->nr_operations, sizeof *program->thread_operations);
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        if (operation->thread < 0 || (uint32_t)operation->thread >= program->nr_threads ||
            operation->index != first[operation->thread + 1]++)
            return check(loader, "operation", number,
                         "the number of a thread and its number among those of the thread");
    }
    for (uint32_t thread = 0; thread < program->nr_threads; thread++)
        first[thread + 1] += first[thread];
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        program->thread_operations[first[operation->thread] + operation->index] = number;
    }
    return 0;
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

/* Read a regular file: a pipe or device cannot contain a program. */
static int read_file(struct loader *loader)
{
    struct stat about;
    if (stat(loader->path, &about) || (S_ISREG(about.st_mode) && file_read(AT_FDCWD, loader->path, &loader->file)))
        return print_error("%s: cannot be read (%s)", loader->path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return print_error("%s: is not a regular file; give a .rec file", loader->path);
    loader->program->data = loader->file.data;
    sha256_of(loader->file.data, loader->file.size, loader->program->sha256);
    return 0;
}

static int read_header(struct loader *loader)
{
    const struct header *header = (const struct header *)loader->file.data;
    const size_t checked = offsetof(struct header, duration_ns);
    struct replay_program *program = loader->program;
    if (loader->file.size < sizeof magic || memcmp(header->magic, magic, sizeof magic) != 0)
        return print_error("%s: is not a replay program; make one with androstep program", loader->path);
    if (loader->file.size < sizeof *header)
        return damaged(loader, "a complete header");
    if (header->version != VERSION)
        return print_error("%s: version %" PRIu32 " of the format, where %d was expected; make the program again with "
                           "androstep program",
                           loader->path, header->version, VERSION);
    if (crc32_of(0, loader->file.data + checked, loader->file.size - checked) != header->crc)
        return damaged(loader, "another checksum");
    if (header->is_device > 1 || header->duration_ns < 0 || header->nr_descriptors > header->nr_operations)
        return damaged(loader, "a valid kind, a valid duration and at most as many descriptors as operations");
    program->duration_ns = header->duration_ns;
    program->is_device = header->is_device;
    program->nr_operations = header->nr_operations;
    program->nr_dependencies = header->nr_dependencies;
    program->nr_files = header->nr_files;
    program->nr_threads = header->nr_threads;
    program->nr_strings = header->nr_strings;
    program->nr_descriptors = header->nr_descriptors;
    loader->place = sizeof *header;
    return 0;
}

/* Return the next table, or NULL if it exceeds the file. */
static void *next_table(struct loader *loader, uint32_t rows, size_t row_bytes)
{
    char *table = loader->file.data + loader->place;
    if (rows > (loader->file.size - loader->place) / row_bytes)
        return NULL;
    loader->place += rows * row_bytes;
    return table;
}

static int find_tables(struct loader *loader)
{
    struct replay_program *program = loader->program;
    program->operations = next_table(loader, program->nr_operations, sizeof *program->operations);
    program->dependencies = next_table(loader, program->nr_dependencies, sizeof *program->dependencies);
    program->files = next_table(loader, program->nr_files, sizeof *program->files);
    if (!program->operations || !program->dependencies || !program->files ||
        !next_table(loader, program->nr_threads, sizeof(struct thread)) ||
        program->nr_strings > loader->file.size - loader->place)
        return damaged(loader, "as many rows as in the header");
    return 0;
}

/* Find the strings: each ends with a NUL, and the last one ends the file. */
static int find_strings(struct loader *loader)
{
    struct replay_program *program = loader->program;
    program->strings = zeroed((size_t)program->nr_strings + 1, sizeof *program->strings);
    for (uint32_t number = 0; number < program->nr_strings; number++) {
        const char *string = loader->file.data + loader->place;
        size_t length = strnlen(string, loader->file.size - loader->place);
        if (length == loader->file.size - loader->place)
            return damaged(loader, "a string that ends");
        program->strings[number] = string;
        loader->place += length + 1;
    }
    return loader->place == loader->file.size ? 0 : damaged(loader, "the end of the file after the last string");
}

int replay_load(const char *path, struct replay_program *program)
{
    struct loader loader = {.path = path, .program = program};
    return read_file(&loader) || read_header(&loader) || find_tables(&loader) || find_strings(&loader) ||
                   group_by_thread(&loader) || check_rows(&loader)
               ? -1
               : 0;
}

int64_t replay_files_bytes(const struct replay_program *program)
{
    int64_t bytes = 0;
    for (uint32_t number = 0; number < program->nr_files; number++)
        bytes = replay_sum(bytes, replay_file_bytes(&program->files[number]));
    return bytes;
}
