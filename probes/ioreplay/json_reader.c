#include "ioreplay/json_reader.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

struct jsonread {
    struct jsonread_value *values;
    size_t nr_values, room;
    char *strings; /* each with a NUL; never longer than the text, whose quotes they do without */
    size_t strings_bytes;
    const unsigned char *start, *at, *end;
    const char *expected;
};

static bool fail(struct jsonread *json, const char *expected)
{
    if (!json->expected)
        json->expected = expected;
    return false;
}

static void skip_space(struct jsonread *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
}

/* Takes `character` if it comes next. */
static bool take(struct jsonread *json, char character)
{
    if (json->at == json->end || *json->at != (unsigned char)character)
        return false;
    json->at++;
    return true;
}

static bool take_word(struct jsonread *json, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return fail(json, "a value");
    json->at += length;
    return true;
}

/* -- strings ------------------------------------------------------------------------------------------------------- */

static void add_byte(struct jsonread *json, uint32_t byte)
{
    json->strings[json->strings_bytes++] = (char)byte;
}

static void add_character(struct jsonread *json, uint32_t code)
{
    if (code < 0x80) {
        add_byte(json, code);
    } else if (code < 0x800) {
        add_byte(json, 0xC0 | code >> 6);
        add_byte(json, 0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        add_byte(json, 0xE0 | code >> 12);
        add_byte(json, 0x80 | (code >> 6 & 0x3F));
        add_byte(json, 0x80 | (code & 0x3F));
    } else {
        add_byte(json, 0xF0 | code >> 18);
        add_byte(json, 0x80 | (code >> 12 & 0x3F));
        add_byte(json, 0x80 | (code >> 6 & 0x3F));
        add_byte(json, 0x80 | (code & 0x3F));
    }
}

static bool take_hex(struct jsonread *json, uint32_t *code)
{
    *code = 0;
    for (int digit = 0; digit < 4; digit++) {
        unsigned char next = json->at < json->end ? *json->at : 0;

        if (next >= '0' && next <= '9')
            *code = *code << 4 | (uint32_t)(next - '0');
        else if ((next | 0x20) >= 'a' && (next | 0x20) <= 'f')
            *code = *code << 4 | (uint32_t)((next | 0x20) - 'a' + 10);
        else
            return fail(json, "four hexadecimal digits");
        json->at++;
    }
    return true;
}

/* What follows \u. */
static bool take_code(struct jsonread *json)
{
    uint32_t code, low;

    if (!take_hex(json, &code))
        return false;
    if (code == 0)
        return fail(json, "a string without NUL");
    if (code >= 0xDC80 && code <= 0xDCFF) {
        add_byte(json, code & 0xFF);
        return true;
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!take(json, '\\') || !take(json, 'u') || !take_hex(json, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail(json, "the second half of a character");
        code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return fail(json, "the first half of a character");
    }
    add_character(json, code);
    return true;
}

static bool take_escape(struct jsonread *json)
{
    static const char names[] = "\"\\/bfnrt", stands_for[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (take(json, 'u'))
        return take_code(json);
    found = json->at < json->end && *json->at ? strchr(names, *json->at) : NULL;
    if (!found)
        return fail(json, "an escape");
    json->at++;
    add_byte(json, (unsigned char)stands_for[found - names]);
    return true;
}

/* A sequence may not reach beyond the end of the text, where no NUL stops utf8_length. */
static bool take_utf8(struct jsonread *json)
{
    unsigned char sequence[5] = {0};
    size_t left = (size_t)(json->end - json->at), length;

    memcpy(sequence, json->at, left < 4 ? left : 4);
    length = utf8_length(sequence);
    if (*json->at < 0x20 || length == 0)
        return fail(json, "UTF-8 without control characters");
    while (length--)
        add_byte(json, *json->at++);
    return true;
}

static bool take_string(struct jsonread *json, const char **string)
{
    *string = json->strings + json->strings_bytes;
    if (!take(json, '"'))
        return fail(json, "a string");
    while (!take(json, '"')) {
        if (json->at == json->end)
            return fail(json, "the end of a string");
        if (take(json, '\\') ? !take_escape(json) : !take_utf8(json))
            return false;
    }
    add_byte(json, 0);
    return true;
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

static size_t take_digits(struct jsonread *json)
{
    const unsigned char *start = json->at;

    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return (size_t)(json->at - start);
}

/* The number that the digits make; false: it does not fit. */
static bool integer_of(const unsigned char *digits, size_t count, bool is_negative, int64_t *integer)
{
    int64_t value = 0;

    for (size_t index = 0; index < count; index++) {
        int digit = digits[index] - '0';

        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
            return false;
    }
    if (!is_negative && value == INT64_MIN)
        return false;
    *integer = is_negative ? value : -value;
    return true;
}

static bool take_number(struct jsonread *json, struct jsonread_value *value)
{
    bool is_negative = take(json, '-'), is_whole = true;
    const unsigned char *digits = json->at;
    size_t count = take_digits(json);

    if (count == 0 || (count > 1 && *digits == '0'))
        return fail(json, "a value");
    if (take(json, '.')) {
        is_whole = false;
        if (take_digits(json) == 0)
            return fail(json, "digits behind the point");
    }
    if (take(json, 'e') || take(json, 'E')) {
        is_whole = false;
        if (!take(json, '-'))
            take(json, '+');
        if (take_digits(json) == 0)
            return fail(json, "an exponent");
    }
    value->kind =
        is_whole && integer_of(digits, count, is_negative, &value->integer) ? JSONREAD_INTEGER : JSONREAD_NUMBER;
    return true;
}

/* -- values -------------------------------------------------------------------------------------------------------- */

static struct jsonread_value *add_value(struct jsonread *json)
{
    if (json->nr_values == json->room) {
        fail(json, "fewer values");
        return NULL;
    }
    return &json->values[json->nr_values++];
}

static bool take_value(struct jsonread *json, struct jsonread_value *value, int depth);

static bool take_key(struct jsonread *json, const struct jsonread_value *object, struct jsonread_value *member)
{
    const char *key;

    skip_space(json);
    if (!take_string(json, &key))
        return false;
    if (jsonread_member(object, key))
        return fail(json, "each name once");
    skip_space(json);
    member->key = key;
    return take(json, ':') || fail(json, "a colon");
}

/* What is between the brackets of an array or an object, and the closing one. */
static bool take_items(struct jsonread *json, struct jsonread_value *value, int depth)
{
    char closing = value->kind == JSONREAD_OBJECT ? '}' : ']';
    const struct jsonread_value **link = &value->first;

    if (depth == JSONREAD_DEPTH)
        return fail(json, "fewer brackets within brackets");
    skip_space(json);
    if (take(json, closing))
        return true;
    do {
        struct jsonread_value *item = add_value(json);

        if (!item || (value->kind == JSONREAD_OBJECT && !take_key(json, value, item)))
            return false;
        if (!take_value(json, item, depth + 1))
            return false;
        *link = item;
        link = &item->next;
        skip_space(json);
    } while (take(json, ','));
    return take(json, closing) || fail(json, "a comma or a closing bracket");
}

static bool take_value(struct jsonread *json, struct jsonread_value *value, int depth)
{
    skip_space(json);
    switch (json->at < json->end ? *json->at : 0) {
    case '{':
    case '[':
        value->kind = *json->at++ == '{' ? JSONREAD_OBJECT : JSONREAD_ARRAY;
        return take_items(json, value, depth);
    case '"':
        value->kind = JSONREAD_STRING;
        return take_string(json, &value->string);
    case 'n':
        value->kind = JSONREAD_NULL;
        return take_word(json, "null");
    case 'f':
        value->kind = JSONREAD_FALSE;
        return take_word(json, "false");
    case 't':
        value->kind = JSONREAD_TRUE;
        return take_word(json, "true");
    default:
        return take_number(json, value);
    }
}

static bool parse(struct jsonread *json)
{
    struct jsonread_value *root = add_value(json);

    if (!root || !take_value(json, root, 0))
        return false;
    skip_space(json);
    return json->at == json->end || fail(json, "nothing behind the value");
}

struct jsonread *jsonread_parse(const char *text, size_t length, const char **expected, size_t *place)
{
    struct jsonread *json = length <= JSONREAD_BYTES ? calloc(1, sizeof *json) : NULL;

    *expected = length <= JSONREAD_BYTES ? "enough memory" : "a shorter text";
    *place = 0;
    if (!json)
        return NULL;
    /* A value takes a byte at least. */
    json->room = length < JSONREAD_VALUES ? length + 1 : JSONREAD_VALUES;
    json->values = calloc(json->room, sizeof *json->values);
    json->strings = malloc(length + 1);
    json->start = json->at = (const unsigned char *)text;
    json->end = json->start + length;
    if (json->values && json->strings && parse(json))
        return json;
    *expected = json->expected ? json->expected : *expected;
    *place = (size_t)(json->at - json->start);
    jsonread_free(json);
    return NULL;
}

const struct jsonread_value *jsonread_root(const struct jsonread *json)
{
    return json->values;
}

const struct jsonread_value *jsonread_member(const struct jsonread_value *object, const char *key)
{
    const struct jsonread_value *member = object && object->kind == JSONREAD_OBJECT ? object->first : NULL;

    while (member && strcmp(member->key, key) != 0)
        member = member->next;
    return member;
}

const char *jsonread_string(const struct jsonread_value *object, const char *key)
{
    const struct jsonread_value *member = jsonread_member(object, key);

    return member && member->kind == JSONREAD_STRING ? member->string : NULL;
}

int64_t jsonread_integer(const struct jsonread_value *object, const char *key, int64_t least, int64_t most,
                         int64_t otherwise)
{
    const struct jsonread_value *member = jsonread_member(object, key);

    if (!member || member->kind != JSONREAD_INTEGER || member->integer < least || member->integer > most)
        return otherwise;
    return member->integer;
}

void jsonread_free(struct jsonread *json)
{
    if (!json)
        return;
    free(json->values);
    free(json->strings);
    free(json);
}
