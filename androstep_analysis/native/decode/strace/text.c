// Parses the text of strace's lines: numbers, strings with escapes, nested lists.
#include "decode/strace/text.h"

#include <stdlib.h>
#include <string.h>

bool scratch_reserve(struct scratch *scratch, size_t capacity)
{
    uint8_t *bytes;

    if (capacity <= scratch->capacity)
        return true;
    bytes = realloc(scratch->bytes, 2 * capacity);
    if (!bytes)
        return false;
    scratch->bytes = bytes;
    scratch->capacity = 2 * capacity;
    return true;
}

bool scratch_join(struct scratch *joined, struct text first, struct text second, struct text *text)
{
    if (!scratch_reserve(joined, text_length(first) + text_length(second)))
        return false;
    memcpy(joined->bytes, first.at, text_length(first));
    memcpy(joined->bytes + text_length(first), second.at, text_length(second));
    *text = (struct text){joined->bytes, joined->bytes + text_length(first) + text_length(second)};
    return true;
}

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : 16;
}

bool take_integer(struct text *text, int64_t *value)
{
    const uint8_t *at = text->at;
    bool negative = at < text->end && *at == '-';
    uint64_t number = 0;
    int base = 10;
    const uint8_t *digits;

    at += negative;
    if (text->end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && digit_of(at[2]) < 16) {
        base = 16;
        at += 2;
    } else if (text->end - at > 1 && at[0] == '0' && digit_of(at[1]) < 8) {
        base = 8;
    }
    for (digits = at; at < text->end && digit_of(*at) < base; at++) {
        if (__builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit_of(*at), &number))
            return false;
    }
    if (at == digits)
        return false;
    *value = (int64_t)(negative ? 0 - number : number);
    text->at = at;
    return true;
}

bool take_seconds(struct text *text, int64_t *value, bool *has_point)
{
    enum { MAX_SECONDS_DIGITS = 10, FRACTION_DIGITS = 9 };
    const uint8_t *at = text->at, *start = at;
    int64_t number = 0;
    int decimals = 0;

    while (at < text->end && at - start < MAX_SECONDS_DIGITS && digit_of(*at) < 10)
        number = number * 10 + digit_of(*at++);
    if (at == start)
        return false;
    *has_point = at + 1 < text->end && *at == '.' && digit_of(at[1]) < 10;
    if (*has_point)
        for (at++; decimals < FRACTION_DIGITS && at < text->end && digit_of(*at) < 10; decimals++)
            number = number * 10 + digit_of(*at++);
    if (number > 8000000000 && !*has_point) // its nanoseconds would not fit (the year 2223)
        return false;
    for (; decimals < FRACTION_DIGITS; decimals++)
        if (__builtin_mul_overflow(number, 10, &number))
            return false;
    *value = number;
    text->at = at;
    return true;
}

// Returns the position after the closing quote of the string at `at`. An even number of backslashes precedes that
// quote.
static const uint8_t *string_end(const uint8_t *at, const uint8_t *end)
{
    for (const uint8_t *start = at + 1, *quote = start;
         quote < end && (quote = memchr(quote, '"', (size_t)(end - quote))); quote++) {
        const uint8_t *plain = quote;

        while (plain > start && plain[-1] == '\\')
            plain--;
        if ((quote - plain) % 2 == 0)
            return quote + 1;
    }
    return end;
}

// Checks whether `>` ends a decoration. A path can contain any byte, as not all versions of strace escape `>`, so the
// next character decides.
static bool ends_decoration(const uint8_t *at, const uint8_t *end)
{
    return at + 1 >= end || memchr(",) ]}(>:|\t\r;=", at[1], 14);
}

// Limits of the search, so that a line of `<` takes no quadratic time: a path of 4096 bytes, each escaped (\377).
enum { LONGEST_DECORATION = 4 * 4096 + 256, LONGEST_COMMENT = 4096 };

static const uint8_t *decoration_end(const uint8_t *at, const uint8_t *end)
{
    bool is_path = at + 1 < end && at[1] == '/';
    size_t brackets = 0, nested = 0;

    if (end - at > LONGEST_DECORATION)
        end = at + LONGEST_DECORATION;
    for (at++; at < end; at++) {
        switch (*at) {
        case '"':
            if (!is_path)
                at = string_end(at, end) - 1;
            break;
        case '[':
            brackets += !is_path;
            break;
        case ']':
            brackets -= brackets > 0;
            break;
        case '<':
            nested++;
            break;
        case '>':
            if (brackets)
                break;
            if (nested)
                nested--;
            else if (ends_decoration(at, end))
                return at + 1;
            break;
        default:
            break;
        }
    }
    return NULL;
}

bool take_decoration(struct text *text, struct text *inner)
{
    const uint8_t *end;

    if (text->at >= text->end || *text->at != '<')
        return false;
    end = decoration_end(text->at, text->end);
    if (!end)
        return false;
    *inner = (struct text){text->at + 1, end - 1};
    text->at = end;
    return true;
}

static const uint8_t *comment_end(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 4 || at[1] != '*')
        return at + 1;
    if (end - at > LONGEST_COMMENT)
        end = at + LONGEST_COMMENT;
    for (const uint8_t *star = at + 2; end - star > 1 && (star = memchr(star, '*', (size_t)(end - star - 1))); star++)
        if (star[1] == '/')
            return star + 2;
    return at + 1;
}

// Classes of bytes for parsing a list; all other bytes are skipped.
enum { PLAIN, QUOTE, OPENING, CLOSING, COMMA, ANGLE, SLASH };

static const uint8_t CLASSES[256] = {
    ['"'] = QUOTE,   ['('] = OPENING, ['['] = OPENING, ['{'] = OPENING, [')'] = CLOSING,
    [']'] = CLOSING, ['}'] = CLOSING, [','] = COMMA,   ['<'] = ANGLE,   ['/'] = SLASH,
};

static const uint8_t *element_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *start = at, *past;
    size_t depth = 0;

    while (at < end) {
        switch (CLASSES[*at]) {
        case QUOTE:
            at = string_end(at, end);
            break;
        case OPENING:
            depth++;
            at++;
            break;
        case CLOSING:
            if (!depth)
                return at;
            depth--;
            at++;
            break;
        case COMMA:
            if (!depth)
                return at;
            at++;
            break;
        case ANGLE: // preceded by a descriptor or AT_FDCWD
            past = at > start && (digit_of(at[-1]) < 10 || at[-1] == 'D') ? decoration_end(at, end) : NULL;
            at = past ? past : at + 1;
            break;
        case SLASH:
            at = comment_end(at, end);
            break;
        default:
            at++;
        }
    }
    return at;
}

bool take_element(struct text *list, struct text *element)
{
    const uint8_t *end;

    while (list->at < list->end && *list->at == ' ')
        list->at++;
    if (list->at >= list->end || CLASSES[*list->at] == CLOSING)
        return false;
    end = element_end(list->at, list->end);
    *element = (struct text){list->at, end};
    while (element->end > element->at && element->end[-1] == ' ')
        element->end--;
    list->at = end < list->end && *end == ',' ? end + 1 : end;
    return true;
}

static bool is_name(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' || (byte >= 'A' && byte <= 'Z');
}

// Finds the closing bracket of a call with unbalanced brackets or quotes in its arguments: the last one before " = ".
static const uint8_t *last_result(struct text text)
{
    for (const uint8_t *at = text.end - 1; at - text.at > 1; at--) {
        const uint8_t *before = at - 1;

        if (*at != '=' || (*before != ' ' && *before != '\t'))
            continue;
        while (before > text.at && (*before == ' ' || *before == '\t'))
            before--;
        if (*before == ')')
            return before;
    }
    return NULL;
}

static void split_arguments(struct text list, struct call_text *call, struct text *left)
{
    size_t count = 0;
    struct text more;

    while (take_element(&list, count < MAX_ARGUMENTS ? &call->arguments[count] : &more))
        count++;
    call->nr_arguments = count < MAX_ARGUMENTS ? count : MAX_ARGUMENTS;
    *left = list;
}

bool split_call(struct text text, struct call_text *call)
{
    const uint8_t *at = text.at, *closing;
    struct text left;

    while (at < text.end && is_name(*at))
        at++;
    if (at == text.at || at >= text.end || *at != '(' || *text.at < '_') // names begin with a small letter or _
        return false;
    call->name = (struct text){text.at, at};
    split_arguments((struct text){at + 1, text.end}, call, &left);
    call->whole = left.at < left.end && *left.at == ')';
    if (!call->whole && (closing = last_result((struct text){at, text.end}))) {
        split_arguments((struct text){at + 1, closing}, call, &left);
        left.at = closing;
        call->whole = true;
    }
    call->rest = call->whole ? (struct text){left.at + 1, text.end} : (struct text){text.end, text.end};
    return true;
}

// --- escapes --------------------------------------------------------------------------------------------------------

static size_t unescape(struct text text, uint8_t *to)
{
    static const char LETTERS[] = "n\nt\tr\rv\vf\fb\ba\a\"\"\\\\";
    uint8_t *start = to;

    while (text.at < text.end) {
        uint8_t byte = *text.at++;
        unsigned int value = 0;
        const char *letter;

        if (byte != '\\' || text.at >= text.end) {
            *to++ = byte;
            continue;
        }
        byte = *text.at++;
        if (byte >= '0' && byte <= '7') {
            value = byte - '0';
            for (int n = 0; n < 2 && text.at < text.end && digit_of(*text.at) < 8; n++)
                value = value * 8 + (unsigned int)digit_of(*text.at++);
            *to++ = (uint8_t)value;
        } else if (byte == 'x' && text.end - text.at > 1 && digit_of(text.at[0]) < 16 && digit_of(text.at[1]) < 16) {
            *to++ = (uint8_t)(digit_of(text.at[0]) * 16 + digit_of(text.at[1]));
            text.at += 2;
        } else {
            for (letter = LETTERS; *letter && *letter != byte; letter += 2)
                ;
            *to++ = *letter ? (uint8_t)letter[1] : byte;
        }
    }
    return (size_t)(to - start);
}

void put_unescaped(struct table *table, size_t column, size_t row, struct text text, struct scratch *scratch)
{
    if (!memchr(text.at, '\\', text_length(text)))
        put_string(table, column, row, text.at, text_length(text));
    else if (scratch_reserve(scratch, text_length(text)))
        put_string(table, column, row, scratch->bytes, unescape(text, scratch->bytes));
}
