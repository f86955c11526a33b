// Text of strace's lines, and a call split into its parts.
#pragma once

#include "core/text.h"

enum { MAX_ARGUMENTS = 12 };

struct call_text {
    struct text name;
    struct text arguments[MAX_ARGUMENTS];
    size_t nr_arguments;
    struct text rest; // after the closing bracket; empty if the line ends before it
    bool whole;
};

// Memory for unescaped text.
struct scratch {
    uint8_t *bytes;
    size_t capacity;
};

bool scratch_reserve(struct scratch *scratch, size_t capacity);

// Concatenates two texts; false without memory.
bool scratch_join(struct scratch *joined, struct text first, struct text second, struct text *text);

static inline void skip_blanks(struct text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

// Strips a number from the start of `text`: decimal, 0x, or octal with a leading zero. Returns false if there is none.
bool take_integer(struct text *text, int64_t *value);

// Strips seconds with up to nine decimals, as nanoseconds; false if there are none.
bool take_seconds(struct text *text, int64_t *value, bool *has_point);

// Strips the next element of a comma separated list. Strings, brackets, comments and decorated descriptors (3</path>)
// are not split. Returns false at the closing bracket, where `list` then begins, or at the end.
bool take_element(struct text *list, struct text *element);

// Strips the decoration of a descriptor from the start of `text` (`<...>`). `inner` is without the angle brackets.
bool take_decoration(struct text *text, struct text *inner);

// Splits a call into name, arguments and result; false if `text` does not begin with a name and a bracket.
bool split_call(struct text text, struct call_text *call);

// Stores a text with its escapes resolved.
void put_unescaped(struct table *table, size_t column, size_t row, struct text text, struct scratch *scratch);
