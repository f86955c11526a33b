// A range of text and functions that parse from its start.
#pragma once

#include "core/table.h"

#include <string.h>

// The unread rest of a line, or any part of it.
struct text {
    const uint8_t *at;
    const uint8_t *end;
};

static inline size_t text_length(struct text text)
{
    return (size_t)(text.end - text.at);
}

static inline bool text_is(struct text text, const char *wanted)
{
    size_t length = strlen(wanted);

    return text_length(text) == length && !memcmp(text.at, wanted, length);
}

static inline bool text_starts(struct text text, const char *wanted)
{
    size_t length = strlen(wanted);

    return text_length(text) >= length && !memcmp(text.at, wanted, length);
}

static inline bool text_ends(struct text text, const char *wanted)
{
    size_t length = strlen(wanted);

    return text_length(text) >= length && !memcmp(text.end - length, wanted, length);
}

// Return the first occurrence of `wanted` in `text`, or NULL.
const uint8_t *text_find(struct text text, const char *wanted);

// Return the text without blanks and carriage returns at its ends.
struct text text_trimmed(struct text text);

static inline void put_text(struct table *table, size_t column, size_t row, struct text text)
{
    put_string(table, column, row, text.at, text_length(text));
}

static inline bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool at_byte(const struct text *text, uint8_t byte)
{
    return text->at < text->end && *text->at == byte;
}

static inline bool at_digit(const struct text *text)
{
    return text->at < text->end && is_digit(*text->at);
}

static inline bool take_byte(struct text *text, uint8_t byte)
{
    if (!at_byte(text, byte))
        return false;
    text->at++;
    return true;
}

static inline bool take_bytes(struct text *text, const void *bytes, size_t length)
{
    if (text_length(*text) < length || memcmp(text->at, bytes, length) != 0)
        return false;
    text->at += length;
    return true;
}

static inline bool take_word(struct text *text, const char *word)
{
    return take_bytes(text, word, strlen(word));
}

// Skip everything up to the end of the first `word`. Returns false and skips nothing if it does not occur.
static inline bool take_past(struct text *text, const char *word)
{
    const uint8_t *at = text_find(*text, word);

    if (at)
        text->at = at + strlen(word);
    return at;
}

// Skip spaces. Returns whether there were any.
static inline bool take_spaces(struct text *text)
{
    const uint8_t *start = text->at;

    while (at_byte(text, ' '))
        text->at++;
    return text->at != start;
}

// Parse a decimal number; UINT64_MAX if it is larger.
static inline bool take_number(struct text *text, uint64_t *number)
{
    const uint8_t *start = text->at;
    uint64_t value = 0;

    while (at_digit(text))
        value = value * 10 + (*text->at++ - '0');
    *number = value;
    if (text->at - start >= 20) {
        const uint8_t *at = start;

        while (at < text->at - 1 && *at == '0')
            at++;
        // 2^64 has twenty digits; a value of twenty digits below 10^19 has overflowed.
        if (text->at - at > 20 || (text->at - at == 20 && (*at != '1' || value < 10000000000000000000u)))
            *number = UINT64_MAX;
    }
    return text->at != start;
}

// Parse a signed decimal number; NO_INT64 if it does not fit.
static inline bool take_signed(struct text *text, int64_t *number)
{
    struct text at = *text;
    bool is_negative = take_byte(&at, '-');
    uint64_t value;

    if (!take_number(&at, &value))
        return false;
    *number = value > INT64_MAX ? NO_INT64 : is_negative ? -(int64_t)value : (int64_t)value;
    *text = at;
    return true;
}

static inline int64_t int64_of(uint64_t number)
{
    return number > INT64_MAX ? NO_INT64 : (int64_t)number;
}

static inline int32_t int32_of(uint64_t number)
{
    return number > INT32_MAX ? NO_INT32 : (int32_t)number;
}

static inline int32_t int32_of_signed(int64_t number)
{
    return number < INT32_MIN || number > INT32_MAX ? NO_INT32 : (int32_t)number;
}

// The kernel's dev_t has a 12-bit major and a 20-bit minor.
static inline bool is_device(uint64_t major, uint64_t minor)
{
    return major < 1 << 12 && minor < 1 << 20;
}

static inline uint32_t device_of(uint64_t major, uint64_t minor)
{
    return (uint32_t)(major << 20 | minor);
}

// Return the index of the path built from names, which are ordered from the last to the root "/". Without the root,
// return that of the first name alone. Returns NO_STRING if a name is empty because a probe could not read it, or if
// the path is too long.
uint32_t path_of_names(struct strings *strings, const struct text *names, size_t levels);

// Return the device of a name such as 8:0, or NO_UINT32 for another name.
uint32_t device_of_name(struct text name);

// Parse seconds with a fraction of `digits` or `or_digits` digits as nanoseconds, up to the year 2255.
static inline bool take_time(struct text *text, size_t digits, size_t or_digits, int64_t *ns)
{
    struct text at = *text;
    const uint8_t *start = at.at;
    uint64_t seconds, fraction;
    size_t length;

    if (!take_number(&at, &seconds) || at.at - start > 10 || (at.at - start == 10 && *start == '9'))
        return false;
    if (!take_byte(&at, '.'))
        return false;
    start = at.at;
    if (!take_number(&at, &fraction))
        return false;
    length = (size_t)(at.at - start);
    if (length != digits && length != or_digits)
        return false;
    *ns = (int64_t)(seconds * 1000000000 + (length == 6 ? fraction * 1000 : fraction));
    *text = at;
    return true;
}

// Parse `[name]`, optionally followed by a number, at the end of a line. The name extends to the last matching bracket.
static inline bool take_bracketed(struct text *text, struct text *name)
{
    const uint8_t *at = text->end;

    if (!at_byte(text, '['))
        return false;
    while (at > text->at && is_digit(at[-1]))
        at--;
    if (at != text->end) {
        if (at == text->at || at[-1] != ' ')
            return false;
        at--;
    }
    if (at - text->at < 2 || at[-1] != ']')
        return false;
    *name = (struct text){text->at + 1, at - 1};
    text->at = text->end;
    return true;
}
