#define _GNU_SOURCE
#include "ioreplay/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/complain.h"
#include "common/files.h"
#include "ioreplay/check.h"
#include "ioreplay/record_reader.h"

#define PROBE      "androstep-program"
#define PATH_BYTES 4095 /* PATH_MAX without the NUL */

/* -- records: the fields of which a program consists --------------------------------------------------------------- */

struct about_row {
    int64_t duration_ns, operations, inserted, dependencies, threads, files, paths, descriptors;
    struct record_string kind;
};

#define ABOUT(member) RECORD_FIELD(about_row, member, RECORD_INT64, false, NULL, NULL)

static const struct record_field about_fields[] = {
    ABOUT(duration_ns),  ABOUT(operations),  ABOUT(inserted),
    ABOUT(dependencies), ABOUT(threads),     ABOUT(files),
    ABOUT(paths),        ABOUT(descriptors), RECORD_FIELD(about_row, kind, RECORD_STRING, false, NULL, NULL),
};

struct path_row {
    int32_t path;
    struct record_string name;
};

static const struct record_field path_fields[] = {
    RECORD_FIELD(path_row, path, RECORD_INT32, false, NULL, NULL),
    RECORD_FIELD(path_row, name, RECORD_STRING, false, NULL, NULL),
};

struct thread_row {
    int32_t thread;
};

static const struct record_field thread_fields[] = {
    RECORD_FIELD(thread_row, thread, RECORD_INT32, false, NULL, NULL),
};

struct file_row {
    int64_t size_bytes;
    int32_t path_number, target_number, file, mode;
    struct record_string inode_type;
};

static const struct record_field file_fields[] = {
    RECORD_FIELD(file_row, size_bytes, RECORD_INT64, true, NULL, NULL),
    RECORD_FIELD(file_row, path_number, RECORD_INT32, false, NULL, NULL),
    RECORD_FIELD(file_row, target_number, RECORD_INT32, true, NULL, NULL),
    RECORD_FIELD(file_row, file, RECORD_INT32, true, NULL, NULL),
    RECORD_FIELD(file_row, mode, RECORD_INT32, true, NULL, NULL),
    RECORD_FIELD(file_row, inode_type, RECORD_STRING, false, NULL, NULL),
};

struct operation_row {
    int64_t operation, ts_ns, flags, offset_bytes, offset2_bytes, bytes, result;
    int32_t thread, inserted, descriptor, descriptor2, path_number, path2_number, request, mode, failed;
    struct record_string call;
};

#define WIDE(member, nullable)   RECORD_FIELD(operation_row, member, RECORD_INT64, nullable, NULL, NULL)
#define NARROW(member, nullable) RECORD_FIELD(operation_row, member, RECORD_INT32, nullable, NULL, NULL)

static const struct record_field operation_fields[] = {
    WIDE(operation, false),
    WIDE(ts_ns, false),
    WIDE(flags, true),
    WIDE(offset_bytes, true),
    WIDE(offset2_bytes, true),
    WIDE(bytes, true),
    WIDE(result, true),
    NARROW(thread, false),
    NARROW(inserted, false),
    NARROW(descriptor, true),
    NARROW(descriptor2, true),
    NARROW(path_number, true),
    NARROW(path2_number, true),
    NARROW(request, true),
    NARROW(mode, true),
    NARROW(failed, true),
    RECORD_FIELD(operation_row, call, RECORD_STRING, false, NULL, NULL),
};

struct dependency_row {
    int64_t operation, after;
};

static const struct record_field dependency_fields[] = {
    RECORD_FIELD(dependency_row, operation, RECORD_INT64, false, NULL, NULL),
    RECORD_FIELD(dependency_row, after, RECORD_INT64, false, NULL, NULL),
};

#define TYPE(type, list) {.name = type, .fields = list, .nr_fields = sizeof(list) / sizeof *(list)}

static const struct record_type about_type = TYPE("program", about_fields);
static const struct record_type path_type = TYPE("path", path_fields);
static const struct record_type thread_type = TYPE("thread", thread_fields);
static const struct record_type file_type = TYPE("file", file_fields);
static const struct record_type operation_type = TYPE("operation", operation_fields);
static const struct record_type dependency_type = TYPE("dependency", dependency_fields);

/* -- loading ------------------------------------------------------------------------------------------------------- */

struct loader {
    const char *path;
    const struct recordread *in;
    struct replay_program *program;
    struct about_row about;
    char *texts; /* what `paths` points into */
    size_t texts_bytes, texts_room;
};

/* What is wrong with record `number` of a type. Always -1. */
static int wrong(const struct loader *loader, const char *type, uint64_t number, const char *expected)
{
    return complain("%s: %s %" PRIu64 ": %s was expected; make the program again with androstep program", loader->path,
                    type, number, expected);
}

static bool is_word(const struct record_text *text, const char *word)
{
    return text->length == strlen(word) && !memcmp(text->bytes, word, text->length);
}

/* A number of one of `count` things, or none. */
static bool is_number(int32_t number, uint32_t count)
{
    return number == RECORD_NULL_INT32 || (number >= 0 && (uint32_t)number < count);
}

static int32_t or_none(int32_t number)
{
    return number == RECORD_NULL_INT32 ? REPLAY_NONE : number;
}

static int take_about(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    struct loader *loader = context;

    memcpy(&loader->about, row, sizeof loader->about);
    loader->program->is_device = is_word(texts, "device");
    loader->program->duration_ns = loader->about.duration_ns;
    if (!loader->program->is_device && !is_word(texts, "files"))
        return wrong(loader, "program", number, "kind files or device");
    return 0;
}

static int take_path(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    struct loader *loader = context;
    const struct path_row *path = row;
    char *text = loader->texts + loader->texts_bytes;

    if (path->path < 0 || (uint64_t)path->path != number)
        return wrong(loader, "path", number, "its number");
    if (texts->length == 0 || texts->length > PATH_BYTES || memchr(texts->bytes, 0, texts->length))
        return wrong(loader, "path", number, "1 to 4095 bytes without NUL");
    if (texts->length >= loader->texts_room - loader->texts_bytes)
        return wrong(loader, "path", number, "text of its own");
    memcpy(text, texts->bytes, texts->length);
    text[texts->length] = 0;
    loader->texts_bytes += texts->length + 1;
    loader->program->paths[number] = text;
    return 0;
}

static int take_thread(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    const struct thread_row *thread = row;

    (void)texts;
    if (thread->thread < 0 || (uint64_t)thread->thread != number)
        return wrong(context, "thread", number, "its number");
    return 0;
}

static int take_file(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    static const char *const kinds[] = {"file", "directory", "symlink"};
    const struct loader *loader = context;
    const struct file_row *from = row;
    struct replay_file *file = &loader->program->files[number];

    while (file->kind < 3 && !is_word(texts, kinds[file->kind]))
        file->kind++;
    if (file->kind == 3)
        return wrong(loader, "file", number, "inode_type file, directory or symlink");
    if (from->path_number == RECORD_NULL_INT32 || !is_number(from->path_number, loader->program->nr_paths) ||
        !is_number(from->target_number, loader->program->nr_paths))
        return wrong(loader, "file", number, "the number of a path");
    file->path = from->path_number;
    file->target = or_none(from->target_number);
    /* Only of regular files can there be several names. */
    file->file = file->kind == KIND_FILE ? or_none(from->file) : REPLAY_NONE;
    file->mode = from->mode;
    file->size_bytes = from->size_bytes == RECORD_NULL_INT64 ? 0 : from->size_bytes;
    return 0;
}

/* The numbers of an operation that refer to something. */
static const char *unknown_in(const struct loader *loader, const struct operation_row *row)
{
    const struct replay_program *program = loader->program;

    if (row->thread < 0 || (uint32_t)row->thread >= program->nr_threads)
        return "the number of a thread";
    if (!is_number(row->path_number, program->nr_paths) || !is_number(row->path2_number, program->nr_paths))
        return "the number of a path";
    if (!is_number(row->descriptor, program->nr_descriptors) || !is_number(row->descriptor2, program->nr_descriptors))
        return "the number of a descriptor";
    if (row->inserted < 0 || row->inserted > 1 ||
        (row->failed != RECORD_NULL_INT32 && (row->failed < 0 || row->failed > 1)))
        return "0 or 1 for inserted and failed";
    return NULL;
}

static int take_operation(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    const struct loader *loader = context;
    const struct operation_row *from = row;
    struct replay_operation *operation = &loader->program->operations[number];
    const char *unknown = unknown_in(loader, from);

    while (operation->call < REPLAY_CALLS && !is_word(texts, replay_call_names[operation->call]))
        operation->call++;
    if (operation->call == REPLAY_CALLS)
        return wrong(loader, "operation", number, "a known call");
    if (from->operation < 0 || (uint64_t)from->operation != number)
        return wrong(loader, "operation", number, "its number");
    if (unknown)
        return wrong(loader, "operation", number, unknown);
    operation->ts_ns = from->ts_ns;
    operation->offset_bytes = from->offset_bytes;
    operation->offset2_bytes = from->offset2_bytes;
    operation->bytes = from->bytes;
    operation->result = from->result;
    operation->flags = from->flags;
    operation->thread = from->thread;
    operation->descriptor = or_none(from->descriptor);
    operation->descriptor2 = or_none(from->descriptor2);
    operation->path = or_none(from->path_number);
    operation->path2 = or_none(from->path2_number);
    operation->request = from->request;
    operation->mode = from->mode;
    operation->inserted = from->inserted;
    operation->failed = (int8_t)or_none(from->failed);
    loader->program->nr_inserted += operation->inserted;
    return 0;
}

static int take_dependency(void *context, uint64_t number, const void *row, const struct record_text *texts)
{
    const struct loader *loader = context;
    const struct dependency_row *from = row;
    struct replay_dependency *dependency = &loader->program->dependencies[number];

    (void)texts;
    if (from->after < 0 || from->operation <= from->after || from->operation >= loader->program->nr_operations)
        return wrong(loader, "dependency", number, "the number of an operation and that of one before it");
    dependency->operation = (uint32_t)from->operation;
    dependency->after = (uint32_t)from->after;
    return 0;
}

/* Takes how many records of a type there are, which the file has room for, into `count`. */
static int count_type(const struct loader *loader, const char *type, int64_t told, uint32_t *count)
{
    uint64_t found = recordread_count(loader->in, type);

    if (told < 0 || found != (uint64_t)told || found > INT32_MAX)
        return complain("%s: %" PRIu64 " records of type %s, where the program tells of %" PRId64
                        " and can have %d at most; make the program again with androstep program",
                        loader->path, found, type, told, INT32_MAX);
    *count = (uint32_t)found;
    return 0;
}

static int count_all(const struct loader *loader)
{
    const struct about_row *about = &loader->about;
    struct replay_program *program = loader->program;

    if (count_type(loader, "operation", about->operations, &program->nr_operations) ||
        count_type(loader, "dependency", about->dependencies, &program->nr_dependencies) ||
        count_type(loader, "thread", about->threads, &program->nr_threads) ||
        count_type(loader, "file", about->files, &program->nr_files) ||
        count_type(loader, "path", about->paths, &program->nr_paths))
        return -1;
    if (about->descriptors < 0 || about->descriptors > program->nr_operations)
        return wrong(loader, "program", 0, "no more descriptors than operations");
    program->nr_descriptors = (uint32_t)about->descriptors;
    return 0;
}

static void make_room(struct loader *loader)
{
    struct replay_program *program = loader->program;

    program->operations = zeroed(program->nr_operations, sizeof *program->operations);
    program->dependencies = zeroed(program->nr_dependencies, sizeof *program->dependencies);
    program->files = zeroed(program->nr_files, sizeof *program->files);
    program->paths = zeroed((size_t)program->nr_paths + 1, sizeof *program->paths);
    program->thread_operations = zeroed(program->nr_operations, sizeof *program->thread_operations);
    program->thread_first = zeroed((size_t)program->nr_threads + 1, sizeof *program->thread_first);
    loader->texts_room = recordread_bytes(loader->in);
    loader->texts = zeroed(loader->texts_room, 1);
    program->texts = loader->texts;
}

static void group_by_thread(struct replay_program *program)
{
    uint32_t *first = program->thread_first;

    for (uint32_t index = 0; index < program->nr_operations; index++) {
        struct replay_operation *operation = &program->operations[index];

        operation->index = first[operation->thread + 1]++;
    }
    for (uint32_t thread = 0; thread < program->nr_threads; thread++)
        first[thread + 1] += first[thread];
    for (uint32_t index = 0; index < program->nr_operations; index++) {
        const struct replay_operation *operation = &program->operations[index];

        program->thread_operations[first[operation->thread] + operation->index] = index;
    }
}

static int load(struct loader *loader)
{
    const char *probe = jsonread_string(recordread_header(loader->in), "probe");

    if (!probe || strcmp(probe, PROBE) != 0)
        return complain("%s: is no replay program; make one with androstep program", loader->path);
    if (recordread_count(loader->in, "program") != 1)
        return complain("%s: one record of type program was expected; make it again with androstep program",
                        loader->path);
    if (recordread_each(loader->in, &about_type, take_about, loader) || count_all(loader))
        return -1;
    make_room(loader);
    if (recordread_each(loader->in, &path_type, take_path, loader) ||
        recordread_each(loader->in, &thread_type, take_thread, loader) ||
        recordread_each(loader->in, &file_type, take_file, loader) ||
        recordread_each(loader->in, &operation_type, take_operation, loader) ||
        recordread_each(loader->in, &dependency_type, take_dependency, loader))
        return -1;
    if (loader->program->nr_inserted != loader->about.inserted)
        return wrong(loader, "program", 0, "the number of inserted operations");
    group_by_thread(loader->program);
    memcpy(loader->program->sha256, recordread_sha256(loader->in), sizeof loader->program->sha256);
    return replay_check(loader->path, loader->program);
}

int replay_load(const char *path, struct replay_program *program)
{
    struct recordread *in = recordread_open(path);
    struct loader loader = {.path = path, .in = in, .program = program};
    int failed;

    memset(program, 0, sizeof *program);
    if (!in)
        return -1;
    failed = load(&loader);
    recordread_close(in);
    if (failed)
        replay_unload(program);
    return failed;
}

void replay_unload(struct replay_program *program)
{
    free(program->operations);
    free(program->thread_operations);
    free(program->thread_first);
    free(program->paths);
    free(program->texts);
    free(program->files);
    free(program->dependencies);
    memset(program, 0, sizeof *program);
}
