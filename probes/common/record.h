/*
 * The writer of record streams (FORMAT.md): records of fixed width with their strings, in framed and checksummed
 * blocks, behind a header that describes them.
 *
 * A probe states its record types as tables of fields; the header of the file, `--describe` and the layout of the
 * blocks all follow from these tables.
 */
#ifndef ANDROSTEP_COMMON_RECORD_H
#define ANDROSTEP_COMMON_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROBE_VERSION "0.1.0"

#define RECORD_BLOCK_BYTES 65536
#define RECORD_TEXT_BYTES  16384 /* a longer string is written as null and counted as a loss */
#define RECORD_TYPES       16

/* Null of the signed types, in fields that may be null; unsigned fields never are. */
#define RECORD_NULL_INT32 INT32_MIN
#define RECORD_NULL_INT64 INT64_MIN

enum record_dtype { RECORD_UINT32, RECORD_UINT64, RECORD_INT32, RECORD_INT64, RECORD_STRING };

/* Where a string lies among the strings of its block. record_add fills it in. */
struct record_string {
    uint16_t offset, length;
};

struct record_field {
    const char *name;
    enum record_dtype dtype;
    bool nullable;
    const char *unit; /* NULL: none */
    const char *meaning;
    size_t offset, bytes; /* in the C struct, for record_open to check */
};

#define RECORD_FIELD(type, member, dtype, nullable, unit, meaning)                                                     \
    {#member, dtype, nullable, unit, meaning, offsetof(struct type, member), sizeof(((struct type *)0)->member)}

/*
 * A record type and the C struct of its rows, which must begin with the same fields in the same order, without
 * padding between them.
 */
struct record_type {
    const char *name;
    const char *table; /* the table of schemas/ that the records become; NULL: none */
    const char *meaning;
    const struct record_field *fields;
    size_t nr_fields;
};

struct record_probe {
    const char *name;
    const struct record_type *const *types;
    size_t nr_types;
};

/* A string to be written; bytes NULL: null. */
struct record_text {
    const char *bytes;
    size_t length;
};

struct record;

/* Makes or replaces file `path` ("-": standard output) and writes the header; NULL when it cannot, and complains. */
struct record *record_open(const char *path, const struct record_probe *probe);

/*
 * Adds a row of `type` with `texts`, one for each string field in the order of the fields. Returns 0, or -1 when the
 * file cannot be written; from then on every call fails and record_close complains.
 */
int record_add(struct record *out, const struct record_type *type, const void *row, const struct record_text *texts);

/* Counts `count` things that should be in the file and are not. `kind` is one word, `message` says more; both must
 * outlive the record. */
void record_lose(struct record *out, const char *kind, const char *message, uint64_t count);

/* Writes what is still in memory. */
int record_flush(struct record *out);

/* Writes the rest and the trailer, and frees `out`. Returns 0, or -1 when the file is not whole, and complains. */
int record_close(struct record *out);

/* Writes the record types of `probe` as JSON, as they stand in a header. */
int record_describe(FILE *file, const struct record_probe *probe);

#endif
