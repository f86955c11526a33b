// The text of strace's lines, and a call as its line tells it.
#pragma once

#include "core/text.h"

enum { MAX_ARGUMENTS = 12 };

struct call_text {
    struct text name;
    struct text arguments[MAX_ARGUMENTS];
    size_t nr_arguments;
    struct text rest; // behind the closing bracket; empty where the line ends before it
    bool whole;
};

// Memory for texts whose escapes are resolved.
struct scratch {
    uint8_t *bytes;
    size_t room;
};

bool scratch_reserve(struct scratch *scratch, size_t room);

// The texts one after the other; false where memory is short.
bool scratch_join(struct scratch *joined, struct text first, struct text second, struct text *text);

static inline void skip_blanks(struct text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

// The number at the start of `text`, decimal, 0x or with a leading zero octal, which is taken away; false for none.
bool take_integer(struct text *text, int64_t *value);

// Seconds with up to nine digits behind the point, in ns; the same.
bool take_seconds(struct text *text, int64_t *value, bool *has_point);

// The next of the parts of a list that commas separate, where strings, brackets, comments and what strace says of
// descriptors (3</path>) are whole; false at the closing bracket, at which `list` then stands, or at the end.
bool take_element(struct text *list, struct text *element);

// What strace says of a descriptor, at whose `<` `text` begins, without the angle brackets; taken away.
bool take_decoration(struct text *text, struct text *inner);

// Splits `text`, which begins with the name of a call; false where no name and opening bracket are.
bool split_call(struct text text, struct call_text *call);

// Puts a text with its escapes resolved.
void put_unescaped(struct table *table, size_t column, size_t row, struct text text, struct scratch *scratch);
