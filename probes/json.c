#include "json.h"

#include <inttypes.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence that `text` begins with; 0 where it begins with none (RFC 3629). */
static size_t utf8_length(const unsigned char *text)
{
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
    bool surrogate = first == 0xed && text[1] > 0x9f;
    bool beyond = first == 0xf4 && text[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

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
