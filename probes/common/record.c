#include "common/record.h"

#include <sys/utsname.h>

#include "common/crc.h"
#include "common/json.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "record streams are little-endian and rows are written as they lie in memory"
#endif

#define FORMAT_VERSION 1
#define LOSS_KINDS     16
#define NULL_OFFSET    UINT16_MAX

enum { FRAME_HEADER = 0, FRAME_TRAILER = 1, FRAME_RECORDS = 2 };

/* Header of every frame. The checksum covers the fields before `crc` and the payload. */
struct frame {
    unsigned char magic[4];
    uint8_t version, reserved;
    uint16_t type;
    uint32_t sequence, count, length, crc;
};

static const unsigned char magic[4] = {0xA7, 'R', 'E', 'C'};

#define PAYLOAD_BYTES (RECORD_BLOCK_BYTES - sizeof(struct frame))

/* The block of one record type that is being filled. Rows and strings are buffered apart and joined when it is
 * written. */
struct block {
    unsigned char *rows, *strings;
    size_t rows_bytes, strings_bytes;
    uint32_t count;
    uint64_t total;
};

struct loss {
    const char *kind, *message;
    uint64_t count;
};

struct record {
    const struct record_probe *probe;
    char *path;
    struct contents header;
    int file;
    FILE *held; /* frames in memory; NULL: they are written to the file */
    struct contents frames;
    int error;
    uint32_t seed, sequence;
    struct block blocks[RECORD_TYPES];
    struct loss losses[LOSS_KINDS];
};

static const struct {
    const char *name;
    int64_t null; /* the value that represents null, in fields that may be null */
} dtypes[] = {
    [RECORD_UINT32] = {"uint32", 0},
    [RECORD_UINT64] = {"uint64", 0},
    [RECORD_INT32] = {"int32", RECORD_NULL_INT32},
    [RECORD_INT64] = {"int64", RECORD_NULL_INT64},
    [RECORD_STRING] = {"string", NULL_OFFSET},
};

static size_t row_bytes(const struct record_type *type)
{
    const struct record_field *last = &type->fields[type->nr_fields - 1];
    return last->offset + last->bytes;
}

static void describe_field(struct json *json, const struct record_field *field)
{
    json_open(json, NULL, '{');
    json_string(json, "name", field->name);
    json_string(json, "dtype", dtypes[field->dtype].name);
    json_maybe(json, "null", dtypes[field->dtype].null, field->nullable);
    json_string(json, "unit", field->unit);
    json_string(json, "meaning", field->meaning);
    json_close(json, '}');
}

static void describe_type(struct json *json, const struct record_type *type, size_t id)
{
    json_open(json, NULL, '{');
    json_integer(json, "id", (int64_t)id);
    json_string(json, "name", type->name);
    json_string(json, "table", type->table);
    json_string(json, "meaning", type->meaning);
    json_integer(json, "record_bytes", (int64_t)row_bytes(type));
    json_open(json, "fields", '[');
    for (size_t index = 0; index < type->nr_fields; index++)
        describe_field(json, &type->fields[index]);
    json_close(json, ']');
    json_close(json, '}');
}

static void describe_probe(struct json *json, const struct record_probe *probe)
{
    json_string(json, "format", "androstep record");
    json_integer(json, "version", FORMAT_VERSION);
    json_string(json, "probe", probe->name);
    json_string(json, "probe_version", PROBE_VERSION);
    json_open(json, "types", '[');
    for (size_t index = 0; index < probe->nr_types; index++)
        describe_type(json, probe->types[index], FRAME_RECORDS + index);
    json_close(json, ']');
}

int record_describe(FILE *file, const struct record_probe *probe)
{
    struct json json = {.out = file};
    json_open(&json, NULL, '{');
    describe_probe(&json, probe);
    json_close(&json, '}');
    putc('\n', file);
    return fflush(file) || ferror(file) ? -1 : 0;
}

static void describe_machine(struct json *json)
{
    char boot_id[64] = "";
    struct utsname system;
    uname(&system);
    procfs_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
    json_string(json, "boot_id", boot_id[0] ? boot_id : NULL);
    json_string(json, "kernel", system.release);
    json_string(json, "machine", system.machine);
    json_integer(json, "page_bytes", sysconf(_SC_PAGESIZE));
    json_integer(json, "clock_hz", sysconf(_SC_CLK_TCK));
}

static void describe_clock(struct json *json)
{
    json_string(json, "clock", "boottime");
    json_integer(json, "opened_ns", clock_now(CLOCK_RECORD));
    json_integer(json, "realtime_offset_ns", clock_offset(CLOCK_REALTIME));
    json_integer(json, "monotonic_offset_ns", clock_offset(CLOCK_MONOTONIC));
}

static void make_header(struct record *out)
{
    struct json json = {.out = memory_open(&out->header)};
    json_open(&json, NULL, '{');
    describe_probe(&json, out->probe);
    describe_machine(&json);
    describe_clock(&json);
    json_integer(&json, "seed", out->seed);
    json_close(&json, '}');
    memory_close(json.out);
}

static void write_bytes(struct record *out, const void *bytes, size_t length)
{
    if (!out->error && (out->held ? fwrite(bytes, 1, length, out->held) < length : write_all(out->file, bytes, length)))
        out->error = errno;
}

/* Write a frame whose payload is the two parts. */
static void write_frame(struct record *out, uint16_t type, uint32_t count, uint32_t seed,
                        const struct record_text parts[2])
{
    struct frame frame = {.version = FORMAT_VERSION, .type = type, .sequence = out->sequence++, .count = count};
    unsigned char block[RECORD_BLOCK_BYTES];
    unsigned char *payload = block + sizeof frame;
    memcpy(frame.magic, magic, sizeof magic);
    frame.length = (uint32_t)(parts[0].length + parts[1].length);
    memcpy(payload, parts[0].bytes, parts[0].length);
    memcpy(payload + parts[0].length, parts[1].bytes, parts[1].length);
    frame.crc = crc32_of(seed, &frame, offsetof(struct frame, crc));
    frame.crc = crc32_of(frame.crc, payload, frame.length);
    memcpy(block, &frame, sizeof frame);
    write_bytes(out, block, sizeof frame + frame.length);
}

static void write_header(struct record *out)
{
    write_frame(out, FRAME_HEADER, 0, 0, (struct record_text[2]){{out->header.data, out->header.size}, {"", 0}});
}

static void write_block(struct record *out, size_t index)
{
    struct block *block = &out->blocks[index];
    struct record_text parts[2] = {{(char *)block->rows, block->rows_bytes},
                                   {(char *)block->strings, block->strings_bytes}};
    if (!block->count)
        return;
    write_frame(out, (uint16_t)(FRAME_RECORDS + index), block->count, out->seed, parts);
    block->total += block->count;
    block->count = 0;
    block->rows_bytes = block->strings_bytes = 0;
}

static void release(struct record *out)
{
    for (size_t index = 0; index < RECORD_TYPES; index++) {
        free(out->blocks[index].rows);
        free(out->blocks[index].strings);
    }
    close_file(out->file);
    if (out->held)
        fclose(out->held);
    free(out->frames.data);
    free(out->header.data);
    free(out->path);
    free(out);
}

/* O_NOFOLLOW: probes run as root, and other users may write in the directory. A symbolic link there could lead to any
 * file. */
static int open_output(const char *path)
{
    int file;
    if (!strcmp(path, "-"))
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    do
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    while (file < 0 && errno == EINTR);
    return file;
}

static struct record *make(const char *path, const struct record_probe *probe)
{
    struct record *out = zeroed(1, sizeof *out);
    out->file = -1;
    out->probe = probe;
    out->path = format("%s", path);
    /* An unpredictable seed: a file name in a listed directory then cannot contain a forged frame. */
    out->seed = (uint32_t)((uint64_t)clock_now(CLOCK_REALTIME) * 0x9E3779B97F4A7C15U >> 32) ^ (uint32_t)getpid();
    for (size_t index = 0; index < probe->nr_types; index++) {
        out->blocks[index].rows = grow(NULL, PAYLOAD_BYTES, 1);
        out->blocks[index].strings = grow(NULL, PAYLOAD_BYTES, 1);
    }
    make_header(out);
    return out;
}

static int create(struct record *out)
{
    out->file = open_output(out->path);
    return out->file < 0 ? print_error("%s: cannot be written (%s)", out->path, strerror(errno)) : 0;
}

struct record *record_open(const char *path, const struct record_probe *probe)
{
    struct record *out = make(path, probe);
    if (create(out) < 0) {
        release(out);
        return NULL;
    }
    write_header(out);
    return out;
}

struct record *record_open_held(const char *path, const struct record_probe *probe)
{
    struct record *out = make(path, probe);
    out->held = memory_open(&out->frames);
    write_header(out);
    return out;
}

static size_t type_index(const struct record *out, const struct record_type *type)
{
    size_t index = 0;
    while (index < out->probe->nr_types && out->probe->types[index] != type)
        index++;
    return index;
}

static bool is_long(const struct record_text *text)
{
    return text->bytes && text->length > RECORD_TEXT_BYTES;
}

static size_t texts_bytes(const struct record_type *type, const struct record_text *texts)
{
    size_t bytes = 0;
    for (size_t index = 0; index < type->nr_fields; index++) {
        if (type->fields[index].dtype != RECORD_STRING)
            continue;
        if (texts->bytes && !is_long(texts))
            bytes += texts->length;
        texts++;
    }
    return bytes;
}

static struct record_string add_text(struct block *block, const struct record_text *text)
{
    struct record_string string = {NULL_OFFSET, 0};
    if (!text->bytes || is_long(text))
        return string;
    string.offset = (uint16_t)block->strings_bytes;
    string.length = (uint16_t)text->length;
    memcpy(block->strings + block->strings_bytes, text->bytes, text->length);
    block->strings_bytes += text->length;
    return string;
}

int record_add(struct record *out, const struct record_type *type, const void *row, const struct record_text *texts)
{
    size_t index = type_index(out, type);
    struct block *block = &out->blocks[index];
    if (index == out->probe->nr_types)
        out->error = EINVAL;
    if (out->error)
        return -1;
    if (block->rows_bytes + row_bytes(type) + block->strings_bytes + texts_bytes(type, texts) > PAYLOAD_BYTES)
        write_block(out, index);
    unsigned char *place = block->rows + block->rows_bytes;
    memcpy(place, row, row_bytes(type));
    for (size_t number = 0; number < type->nr_fields; number++) {
        const struct record_field *field = &type->fields[number];
        if (field->dtype != RECORD_STRING)
            continue;
        if (is_long(texts))
            record_lose(out, "long_text", "strings too long for a record; they are null", 1);
        struct record_string string = add_text(block, texts++);
        memcpy(place + field->offset, &string, sizeof string);
    }
    block->rows_bytes += row_bytes(type);
    block->count++;
    return out->error ? -1 : 0;
}

void record_lose(struct record *out, const char *kind, const char *message, uint64_t count)
{
    struct loss *loss = out->losses;
    while (loss < out->losses + LOSS_KINDS - 1 && loss->kind && strcmp(loss->kind, kind))
        loss++;
    loss->kind = kind;
    loss->message = message;
    loss->count += count;
}

int record_flush(struct record *out)
{
    for (size_t index = 0; index < out->probe->nr_types; index++)
        write_block(out, index);
    return out->error ? -1 : 0;
}

static void write_trailer(struct record *out)
{
    struct contents text;
    struct json json = {.out = memory_open(&text)};
    json_open(&json, NULL, '{');
    json_integer(&json, "closed_ns", clock_now(CLOCK_RECORD));
    json_integer(&json, "blocks", out->sequence);
    json_open(&json, "records", '{');
    for (size_t index = 0; index < out->probe->nr_types; index++)
        json_integer(&json, out->probe->types[index]->name, (int64_t)out->blocks[index].total);
    json_close(&json, '}');
    json_open(&json, "losses", '[');
    for (const struct loss *loss = out->losses; loss < out->losses + LOSS_KINDS && loss->kind; loss++) {
        json_open(&json, NULL, '{');
        json_string(&json, "kind", loss->kind);
        json_integer(&json, "count", (int64_t)loss->count);
        json_string(&json, "message", loss->message);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    memory_close(json.out);
    write_frame(out, FRAME_TRAILER, 0, out->seed, (struct record_text[2]){{text.data, text.size}, {"", 0}});
    free(text.data);
}

/* Write the frames in memory to the file. Returns -1 after printing an error. */
static int write_held(struct record *out)
{
    if (!out->held)
        return 0;
    memory_close(out->held);
    out->held = NULL;
    if (create(out) < 0)
        return -1;
    write_bytes(out, out->frames.data, out->frames.size);
    return 0;
}

int record_close(struct record *out)
{
    record_flush(out);
    write_header(out);
    write_trailer(out);
    if (write_held(out) < 0) {
        release(out);
        return -1;
    }
    /* A full device may report its error only now. */
    if (close(out->file) && errno != EINTR && !out->error)
        out->error = errno;
    out->file = -1;
    int failed = out->error ? print_error("%s: the file is incomplete (%s)", out->path, strerror(out->error)) : 0;
    release(out);
    return failed;
}
