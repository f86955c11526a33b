#define _GNU_SOURCE
#include "ioreplay/record_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/crc.h"
#include "common/files.h"
#include "ioreplay/sha256.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "record streams are little-endian and rows are read as they lie in memory"
#endif

#define HEAD_BYTES    24
#define CHECKED_BYTES 20 /* of the head: what the checksum goes over */
#define FIELDS        64

enum { FRAME_HEADER = 0, FRAME_TRAILER = 1, FRAME_RECORDS = 2 };

static const unsigned char magic[4] = {0xA7, 'R', 'E', 'C'};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [RECORD_UINT32] = {"uint32", 4}, [RECORD_UINT64] = {"uint64", 8}, [RECORD_INT32] = {"int32", 4},
    [RECORD_INT64] = {"int64", 8},   [RECORD_STRING] = {"string", 4},
};

struct frame {
    const unsigned char *payload;
    size_t place, end; /* in the file */
    uint32_t sequence, count, length, crc;
    uint16_t type;
};

/* A record type as the header describes it. */
struct described {
    const struct jsonread_value *about;
    uint64_t count;
    uint32_t bytes;
    uint16_t id;
};

struct recordread {
    char *path;
    struct contents file;
    struct jsonread *header;
    char sha256[65];
    struct described types[RECORD_TYPES];
    size_t nr_types;
};

/* Always -1. */
static int damaged(const struct recordread *in, size_t place, const char *expected)
{
    return complain("%s: byte %zu: %s was expected; the file is damaged: get another copy, or make it again", in->path,
                    place, expected);
}

static int unsuitable(const struct recordread *in, const char *expected)
{
    return complain("%s: its header was expected to have %s; make the file again with programs of one version",
                    in->path, expected);
}

/* -- frames -------------------------------------------------------------------------------------------------------- */

/* The head of the frame at `place`, whose payload lies within the file. */
static int find_frame(const struct recordread *in, size_t place, struct frame *frame)
{
    const unsigned char *head = (const unsigned char *)in->file.data + place;

    if (place + HEAD_BYTES > in->file.size)
        return damaged(in, place, "another block");
    if (memcmp(head, magic, sizeof magic) != 0)
        return place ? damaged(in, place, "a block (A7 52 45 43)")
                     : complain("%s: is no record stream (no A7 52 45 43 at its start); give a .rec file", in->path);
    if (head[4] != 1)
        return complain("%s: version %d of the format, where 1 was expected; make the file again", in->path, head[4]);
    memcpy(&frame->type, head + 6, sizeof frame->type);
    memcpy(&frame->sequence, head + 8, sizeof frame->sequence);
    memcpy(&frame->count, head + 12, sizeof frame->count);
    memcpy(&frame->length, head + 16, sizeof frame->length);
    memcpy(&frame->crc, head + 20, sizeof frame->crc);
    if (frame->length > RECORD_BLOCK_BYTES - HEAD_BYTES || frame->length > in->file.size - place - HEAD_BYTES)
        return damaged(in, place, "a whole block");
    frame->place = place;
    frame->payload = head + HEAD_BYTES;
    frame->end = place + HEAD_BYTES + frame->length;
    return 0;
}

static int check_frame(const struct recordread *in, const struct frame *frame, uint32_t sequence, uint32_t seed)
{
    uint32_t crc = crc32_of(frame->type == FRAME_HEADER ? 0 : seed, frame->payload - HEAD_BYTES, CHECKED_BYTES);

    if (crc32_of(crc, frame->payload, frame->length) != frame->crc)
        return damaged(in, frame->place, "a block with the right checksum");
    if (frame->sequence != sequence)
        return damaged(in, frame->place, "the block that follows");
    return 0;
}

static struct described *find_id(struct recordread *in, uint16_t id)
{
    for (size_t index = 0; index < in->nr_types; index++)
        if (in->types[index].id == id)
            return &in->types[index];
    return NULL;
}

static const struct described *find_name(const struct recordread *in, const char *name)
{
    for (size_t index = 0; index < in->nr_types; index++) {
        const char *called = jsonread_string(in->types[index].about, "name");

        if (called && !strcmp(called, name))
            return &in->types[index];
    }
    return NULL;
}

static int count_records(struct recordread *in, const struct frame *frame)
{
    struct described *type = find_id(in, frame->type);

    if (!type)
        return damaged(in, frame->place, "a block of a type that the header describes");
    if ((uint64_t)frame->count * type->bytes > frame->length)
        return damaged(in, frame->place, "as many records as the block has room for");
    type->count += frame->count;
    return 0;
}

/* -- header -------------------------------------------------------------------------------------------------------- */

static int add_type(struct recordread *in, const struct jsonread_value *about)
{
    struct described *type = &in->types[in->nr_types];
    const char *name = jsonread_string(about, "name");
    int64_t id = jsonread_integer(about, "id", FRAME_RECORDS, UINT16_MAX, 0);

    if (in->nr_types == RECORD_TYPES)
        return unsuitable(in, "fewer record types");
    type->bytes = (uint32_t)jsonread_integer(about, "record_bytes", 1, RECORD_BLOCK_BYTES, 0);
    if (!name || !id || !type->bytes || find_name(in, name) || find_id(in, (uint16_t)id))
        return unsuitable(in, "record types of different names and numbers");
    type->about = about;
    type->id = (uint16_t)id;
    in->nr_types++;
    return 0;
}

static int read_header(struct recordread *in, const struct frame *frame, uint32_t *seed)
{
    const struct jsonread_value *root, *types;
    const char *expected, *format;
    int64_t given;
    size_t place;

    if (frame->type != FRAME_HEADER)
        return damaged(in, 0, "a header");
    in->header = jsonread_parse((const char *)frame->payload, frame->length, &expected, &place);
    if (!in->header)
        return damaged(in, HEAD_BYTES + place, expected);
    root = jsonread_root(in->header);
    format = jsonread_string(root, "format");
    if (!format || strcmp(format, "androstep record") != 0 || jsonread_integer(root, "version", 1, 1, 0) != 1)
        return unsuitable(in, "format “androstep record” of version 1");
    given = jsonread_integer(root, "seed", 0, UINT32_MAX, -1);
    if (given < 0)
        return unsuitable(in, "a seed of 32 bits");
    *seed = (uint32_t)given;
    types = jsonread_member(root, "types");
    if (!types || types->kind != JSONREAD_ARRAY)
        return unsuitable(in, "a list of record types");
    for (const struct jsonread_value *type = types->first; type; type = type->next)
        if (add_type(in, type))
            return -1;
    return 0;
}

static int check_trailer(const struct recordread *in, const struct jsonread_value *root, const struct frame *frame)
{
    const struct jsonread_value *records = jsonread_member(root, "records");
    const struct jsonread_value *losses = jsonread_member(root, "losses");

    if (jsonread_integer(root, "blocks", 0, UINT32_MAX, -1) != frame->sequence)
        return damaged(in, frame->place, "a trailer that counts the blocks before it");
    for (size_t index = 0; index < in->nr_types; index++) {
        const char *name = jsonread_string(in->types[index].about, "name");
        int64_t count = jsonread_integer(records, name, 0, INT64_MAX, -1);

        if (count < 0 || (uint64_t)count != in->types[index].count)
            return damaged(in, frame->place, "a trailer that counts the records before it");
    }
    if (!losses || losses->kind != JSONREAD_ARRAY || losses->first)
        return damaged(in, frame->place, "a trailer that tells of no losses");
    return 0;
}

static int read_trailer(const struct recordread *in, const struct frame *frame)
{
    const char *expected;
    size_t place;
    struct jsonread *trailer = jsonread_parse((const char *)frame->payload, frame->length, &expected, &place);
    int failed;

    if (!trailer)
        return damaged(in, frame->place + HEAD_BYTES + place, expected);
    failed = check_trailer(in, jsonread_root(trailer), frame);
    jsonread_free(trailer);
    if (!failed && frame->end != in->file.size)
        return damaged(in, frame->end, "the end of the file");
    return failed;
}

/* -- file ---------------------------------------------------------------------------------------------------------- */

static int check_frames(struct recordread *in)
{
    struct frame first, frame = {0};
    uint32_t seed = 0;

    if (find_frame(in, 0, &first) || check_frame(in, &first, 0, 0) || read_header(in, &first, &seed))
        return -1;
    frame.end = first.end;
    for (uint32_t sequence = 1; frame.type != FRAME_TRAILER; sequence++) {
        if (find_frame(in, frame.end, &frame) || check_frame(in, &frame, sequence, seed))
            return -1;
        if (frame.type == FRAME_HEADER &&
            (frame.length != first.length || memcmp(frame.payload, first.payload, first.length) != 0))
            return damaged(in, frame.place, "the header again");
        if (frame.type >= FRAME_RECORDS && count_records(in, &frame))
            return -1;
    }
    return read_trailer(in, &frame);
}

/* What file_read calls; a pipe, or a device that never ends, is not what a record stream is in. */
static int load(struct recordread *in)
{
    struct stat about;

    if (stat(in->path, &about))
        return complain("%s: cannot be read (%s)", in->path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return complain("%s: is no regular file; give a .rec file", in->path);
    if (file_read(AT_FDCWD, in->path, &in->file))
        return complain("%s: cannot be read (%s)", in->path, strerror(errno));
    sha256_of(in->file.data, in->file.size, in->sha256);
    return check_frames(in);
}

struct recordread *recordread_open(const char *path)
{
    struct recordread *in = calloc(1, sizeof *in);

    if (in)
        in->path = strdup(path);
    if (!in || !in->path) {
        complain("%s: no memory to read it", path);
        free(in);
        return NULL;
    }
    if (load(in)) {
        recordread_close(in);
        return NULL;
    }
    return in;
}

void recordread_close(struct recordread *in)
{
    if (!in)
        return;
    jsonread_free(in->header);
    free(in->file.data);
    free(in->path);
    free(in);
}

const struct jsonread_value *recordread_header(const struct recordread *in)
{
    return jsonread_root(in->header);
}

size_t recordread_bytes(const struct recordread *in)
{
    return in->file.size;
}

const char *recordread_sha256(const struct recordread *in)
{
    return in->sha256;
}

uint64_t recordread_count(const struct recordread *in, const char *name)
{
    const struct described *type = find_name(in, name);

    return type ? type->count : 0;
}

/* -- records ------------------------------------------------------------------------------------------------------- */

/* Where the fields of a type lie in a record, and where they go. */
struct layout {
    const struct record_type *type;
    size_t places[FIELDS];
    size_t row_bytes;
};

static size_t dtype_bytes(const char *name)
{
    for (size_t index = 0; name && index < sizeof dtypes / sizeof *dtypes; index++)
        if (!strcmp(dtypes[index].name, name))
            return dtypes[index].bytes;
    return 0;
}

static bool fits(const struct jsonread_value *about, const struct record_field *field)
{
    const char *dtype = jsonread_string(about, "dtype");
    const struct jsonread_value *null = jsonread_member(about, "null");

    return dtype && !strcmp(dtype, dtypes[field->dtype].name) && null &&
           (field->nullable || null->kind == JSONREAD_NULL);
}

/* Finds one field in the header; `*bytes` becomes what all fields of a record take. */
static int place_field(const struct recordread *in, const struct described *described, const struct record_field *field,
                       size_t *place, size_t *bytes)
{
    const struct jsonread_value *fields = jsonread_member(described->about, "fields");
    bool found = false;

    *bytes = 0;
    for (const struct jsonread_value *about = fields ? fields->first : NULL; about; about = about->next) {
        const char *name = jsonread_string(about, "name");
        size_t size = dtype_bytes(jsonread_string(about, "dtype"));

        if (!size || *bytes > described->bytes)
            return unsuitable(in, "fields of known types");
        if (!found && name && !strcmp(name, field->name)) {
            if (!fits(about, field))
                return complain("%s: its header was expected to have field %s of type %s as %s%s; make the file again "
                                "with programs of one version",
                                in->path, field->name, jsonread_string(described->about, "name"),
                                dtypes[field->dtype].name, field->nullable ? "" : " without null");
            *place = *bytes;
            found = true;
        }
        *bytes += size;
    }
    return found ? 0
                 : complain("%s: its header was expected to have field %s of type %s; make the file again with "
                            "programs of one version",
                            in->path, field->name, jsonread_string(described->about, "name"));
}

static int lay_out(const struct recordread *in, const struct described *described, struct layout *layout)
{
    size_t bytes = 0;

    if (layout->type->nr_fields > FIELDS)
        return unsuitable(in, "fewer fields");
    layout->row_bytes = 0;
    for (size_t index = 0; index < layout->type->nr_fields; index++) {
        const struct record_field *field = &layout->type->fields[index];

        if (place_field(in, described, field, &layout->places[index], &bytes))
            return -1;
        if (bytes != described->bytes)
            return unsuitable(in, "fields that make record_bytes");
        if (field->offset + field->bytes > layout->row_bytes)
            layout->row_bytes = field->offset + field->bytes;
    }
    return 0;
}

/* Fills in one row. False: a string does not lie in its block, or is null where it cannot be. */
static bool fill(const struct layout *layout, const struct frame *frame, const unsigned char *bytes, size_t strings,
                 unsigned char *row, struct record_text *texts)
{
    const char *first = (const char *)frame->payload + strings;
    size_t room = frame->length - strings;

    for (size_t index = 0; index < layout->type->nr_fields; index++) {
        const struct record_field *field = &layout->type->fields[index];
        struct record_string string;

        memcpy(row + field->offset, bytes + layout->places[index], field->bytes);
        if (field->dtype != RECORD_STRING)
            continue;
        memcpy(&string, row + field->offset, sizeof string);
        texts->bytes = NULL;
        texts->length = 0;
        if (string.offset != UINT16_MAX) {
            if (string.offset > room || string.length > room - string.offset)
                return false;
            texts->bytes = first + string.offset;
            texts->length = string.length;
        } else if (!field->nullable) {
            return false;
        }
        texts++;
    }
    return true;
}

/* `number` is that of the block's first record. */
static int give_block(const struct recordread *in, const struct layout *layout, const struct frame *frame,
                      const struct described *described, uint64_t number, recordread_take *take, void *context)
{
    _Alignas(max_align_t) unsigned char row[FIELDS * sizeof(int64_t)];
    struct record_text texts[FIELDS];
    size_t strings = (size_t)frame->count * described->bytes;

    if (layout->row_bytes > sizeof row)
        return unsuitable(in, "shorter records");
    for (uint32_t index = 0; index < frame->count; index++) {
        const unsigned char *bytes = frame->payload + (size_t)index * described->bytes;

        if (!fill(layout, frame, bytes, strings, row, texts))
            return damaged(in, frame->place, "strings that are there and lie in their block");
        if (take(context, number + index, row, texts))
            return -1;
    }
    return 0;
}

int recordread_each(const struct recordread *in, const struct record_type *type, recordread_take *take, void *context)
{
    const struct described *described = find_name(in, type->name);
    struct layout layout = {.type = type};
    struct frame frame = {0};
    uint64_t number = 0;

    if (!described)
        return complain("%s: its header was expected to have record type %s; make the file again with programs of one "
                        "version",
                        in->path, type->name);
    if (lay_out(in, described, &layout))
        return -1;
    while (frame.end < in->file.size) {
        if (find_frame(in, frame.end, &frame))
            return -1;
        if (frame.type != described->id)
            continue;
        if (give_block(in, &layout, &frame, described, number, take, context))
            return -1;
        number += frame.count;
    }
    return 0;
}
