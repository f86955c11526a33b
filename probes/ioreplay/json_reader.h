/*
 * JSON (RFC 8259) from anywhere, as a tree. Depth, number of values and length of the text are bounded; strings are
 * UTF-8 without NUL, and the lone surrogates U+DC80 to U+DCFF in them are the bytes that common/json.h writes so.
 */
#ifndef ANDROSTEP_IOREPLAY_JSON_READER_H
#define ANDROSTEP_IOREPLAY_JSON_READER_H

#include <stddef.h>
#include <stdint.h>

#define JSONREAD_BYTES  (1 << 20)
#define JSONREAD_DEPTH  16
#define JSONREAD_VALUES 16384

enum jsonread_kind {
    JSONREAD_NULL,
    JSONREAD_FALSE,
    JSONREAD_TRUE,
    JSONREAD_INTEGER, /* written without fraction and exponent, and fits */
    JSONREAD_NUMBER,  /* any other */
    JSONREAD_STRING,
    JSONREAD_ARRAY,
    JSONREAD_OBJECT,
};

struct jsonread_value {
    enum jsonread_kind kind;
    const char *key; /* NULL: not a member of an object */
    int64_t integer;
    const char *string;
    const struct jsonread_value *first, *next; /* of what an array or an object holds; NULL at the end */
};

struct jsonread;

/*
 * Parses `text`, which need not end with a NUL and is not needed afterwards. Returns NULL where it is no JSON or beyond
 * the bounds, with what was expected in `*expected` and the offset in `*place`; two members of an object with the same
 * name are an error. For jsonread_free.
 */
struct jsonread *jsonread_parse(const char *text, size_t length, const char **expected, size_t *place);

const struct jsonread_value *jsonread_root(const struct jsonread *json);

/* Member `key`; NULL where `object` is NULL, no object, or has none. */
const struct jsonread_value *jsonread_member(const struct jsonread_value *object, const char *key);

/* What string member `key` says; NULL where there is none. */
const char *jsonread_string(const struct jsonread_value *object, const char *key);

/* Integer member `key`, which must lie in [least, most]; `otherwise` where there is none. */
int64_t jsonread_integer(const struct jsonread_value *object, const char *key, int64_t least, int64_t most,
                         int64_t otherwise);

void jsonread_free(struct jsonread *json);

#endif
