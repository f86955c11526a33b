#include "common/utf8.h"

/* Bytes for the longest sequence with each byte written as \xNN. */
#define UTF8_SHOWN 17

size_t utf8_length(const unsigned char *text)
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

static uint32_t code_point(const unsigned char *text, size_t length)
{
    uint32_t point = length == 1 ? text[0] : text[0] & (0xffU >> (length + 1));
    for (size_t index = 1; index < length; index++)
        point = point << 6 | (text[index] & 0x3f);
    return point;
}

/* Return whether it is C0, DEL or C1, a line or paragraph separator, or embeds, overrides, isolates or marks a
 * direction. */
static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/* Write the sequence at `*next`, escaped if it is unsafe for a terminal, and advance `*next` past it. */
static void show(char into[UTF8_SHOWN], const unsigned char **next)
{
    size_t length = utf8_length(*next);
    if (length && !is_control(code_point(*next, length))) {
        memcpy(into, *next, length);
        into[length] = 0;
        *next += length;
        return;
    }
    for (size_t left = length ? length : 1; left; left--, into += 4)
        snprintf(into, 5, "\\x%02x", *(*next)++);
}

void utf8_show(char *into, size_t size, const char *text)
{
    const unsigned char *next = (const unsigned char *)text;
    char shown[UTF8_SHOWN];
    *into = 0;
    while (*next) {
        show(shown, &next);
        size_t length = strlen(shown);
        if (length >= size)
            return;
        memcpy(into, shown, length + 1);
        into += length;
        size -= length;
    }
}

void utf8_print(FILE *out, const char *text)
{
    const unsigned char *next = (const unsigned char *)text;
    char shown[UTF8_SHOWN];
    while (*next) {
        show(shown, &next);
        fputs(shown, out);
    }
}
