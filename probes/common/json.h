/* A JSON writer that appends member by member to a stream. */
#pragma once

#include "common/base.h"

struct json {
    FILE *out;
    bool follows; /* whether the next member needs a comma before it */
};

/* Start and end an object or array. `key` is NULL for items of an array and for the outermost value. `bracket` is '{'
 * or '[' to open, '}' or ']' to close. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* Write a string; NULL becomes null. `text` may be any NUL-terminated bytes. Bytes that are not UTF-8 become the lone
 * surrogates U+DC80 to U+DCFF, as in Python's `os.fsdecode`, so that no name is lost and none breaks the file. */
void json_string(struct json *json, const char *key, const char *text);
void json_integer(struct json *json, const char *key, int64_t value);
void json_maybe(struct json *json, const char *key, int64_t value, bool known); /* null unless `known` */
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
