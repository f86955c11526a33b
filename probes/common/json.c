#include "common/json.h"

#include "common/utf8.h"

static void quoted(FILE *out, const char *text)
{
    const unsigned char *next = (const unsigned char *)text;
    putc('"', out);
    while (*next) {
        size_t length = utf8_length(next);
        if (length == 0)
            fprintf(out, "\\udc%02x", *next++);
        else if (*next == '"' || *next == '\\')
            fprintf(out, "\\%c", *next++);
        else if (*next < 0x20 || *next == 0x7f)
            fprintf(out, "\\u%04x", *next++);
        else
            while (length--)
                putc(*next++, out);
    }
    putc('"', out);
}

static void member(struct json *json, const char *key)
{
    if (json->follows)
        putc(',', json->out);
    if (key) {
        putc('\n', json->out);
        quoted(json->out, key);
        fputs(": ", json->out);
    }
    json->follows = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
    member(json, key);
    putc(bracket, json->out);
    json->follows = false;
}

void json_close(struct json *json, char bracket)
{
    putc(bracket, json->out);
    json->follows = true;
}

void json_string(struct json *json, const char *key, const char *text)
{
    if (!text) {
        json_null(json, key);
        return;
    }
    member(json, key);
    quoted(json->out, text);
}

void json_integer(struct json *json, const char *key, int64_t value)
{
    member(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_maybe(struct json *json, const char *key, int64_t value, bool known)
{
    if (known)
        json_integer(json, key, value);
    else
        json_null(json, key);
}

void json_bool(struct json *json, const char *key, bool value)
{
    member(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    member(json, key);
    fputs("null", json->out);
}
