/* JSON, member by member, to a stream. */
#ifndef ANDROSTEP_COMMON_JSON_H
#define ANDROSTEP_COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool follows; /* whether the next member needs a comma before it */
};

/* `key` is NULL for items of an array and for the outermost value. `bracket` is '{' or '[', and '}' or ']'. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* `text` is NUL-terminated bytes from anywhere; NULL is written as null. Bytes that are no UTF-8 become the lone
 * surrogates U+DC80 to U+DCFF, as Python's `os.fsdecode` has them, so that no name is lost or breaks the file. */
void json_string(struct json *json, const char *key, const char *text);
void json_integer(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

#endif
