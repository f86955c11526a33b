/* Writer of record streams (FORMAT.md): records of fixed width with their strings, in framed and checksummed blocks,
 * after a header that describes them.
 *
 * A probe declares its record types as tables of fields. The header of the file, `--describe` and the layout of the
 * blocks all follow from these tables. */
#pragma once

#include "common/base.h"

#define PROBE_VERSION "0.1.0"

#define RECORD_BLOCK_BYTES 65536
#define RECORD_TEXT_BYTES  16384 /* a longer string is written as null and counted as a loss */
#define RECORD_TYPES       16

/* Null of the signed types in nullable fields; unsigned fields are never null. */
#define RECORD_NULL_INT32 INT32_MIN
#define RECORD_NULL_INT64 INT64_MIN

enum record_dtype { RECORD_UINT32, RECORD_UINT64, RECORD_INT32, RECORD_INT64, RECORD_STRING };

/* Position of a string among the strings of its block. record_add fills it in. */
struct record_string {
    uint16_t offset, length;
};

struct record_field {
    const char *name;
    enum record_dtype dtype;
    bool nullable;
    const char *unit; /* NULL: none */
    const char *meaning;
    size_t offset, bytes; /* in the C struct; record_open checks them */
};

/* The dtype follows from the type of the member. */
#define RECORD_DTYPE(member)                                                                                           \
    _Generic((member),                                                                                                 \
        uint32_t: RECORD_UINT32,                                                                                       \
        uint64_t: RECORD_UINT64,                                                                                       \
        int32_t: RECORD_INT32,                                                                                         \
        int64_t: RECORD_INT64,                                                                                         \
        struct record_string: RECORD_STRING)
#define RECORD_FIELD(type, member, nullable, unit, meaning)                                                            \
    {#member,                                                                                                          \
     RECORD_DTYPE(((struct type *)0)->member),                                                                         \
     nullable,                                                                                                         \
     unit,                                                                                                             \
     meaning,                                                                                                          \
     offsetof(struct type, member),                                                                                    \
     sizeof(((struct type *)0)->member)}

/* A record type and the C struct of its rows. The struct must begin with the same fields in the same order, without
 * padding between them. */
struct record_type {
    const char *name;
    const char *table; /* table of schemas/ for these records; NULL: none */
    const char *meaning;
    const struct record_field *fields;
    size_t nr_fields;
};

#define RECORD_TYPE(name, table, meaning, fields) {name, table, meaning, fields, sizeof(fields) / sizeof *(fields)}

struct record_probe {
    const char *name;
    const struct record_type *const *types;
    size_t nr_types;
};

/* A string to write; bytes NULL: null. */
struct record_text {
    const char *bytes;
    size_t length;
};

/* Return a text up to its NUL; NULL: null. */
static inline struct record_text record_text(const char *text)
{
    return (struct record_text){text, text ? strlen(text) : 0};
}

struct record;

/* Create or replace file `path` ("-": standard output) and write the header. Returns NULL after printing an error. */
struct record *record_open(const char *path, const struct record_probe *probe);

/* Keep everything in memory, and create the file only in record_close: writing would disturb a measurement. */
struct record *record_open_held(const char *path, const struct record_probe *probe);

/* Append a row of `type` with `texts`, one for each string field in the order of the fields. Returns 0, or -1 if the
 * file cannot be written. After an error every call fails, and record_close prints it. */
int record_add(struct record *out, const struct record_type *type, const void *row, const struct record_text *texts);

/* Count a loss: `count` items that should be in the file and are not. `kind` is one word, `message` describes it; both
 * must outlive the record. */
void record_lose(struct record *out, const char *kind, const char *message, uint64_t count);

/* Write the buffered records. */
int record_flush(struct record *out);

/* Write the remaining records and the trailer, and free `out`. Returns 0, or -1 after printing an error if the file is
 * incomplete. */
int record_close(struct record *out);

/* Write the record types of `probe` as JSON, as in a header. */
int record_describe(FILE *file, const struct record_probe *probe);
