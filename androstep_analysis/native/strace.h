// What the parts of the reader of strace logs share: pieces of text, and a call as its line tells it.
#pragma once

#include "native.h"

struct span {
    const uint8_t *at;
    const uint8_t *end;
};

enum { MAX_ARGUMENTS = 12 };

struct call_text {
    struct span name;
    struct span arguments[MAX_ARGUMENTS];
    size_t nr_arguments;
    struct span rest; // behind the closing bracket; empty where the line ends before it
    bool whole;
};

// Memory for texts whose escapes are resolved.
struct scratch {
    uint8_t *bytes;
    size_t room;
};

bool scratch_reserve(struct scratch *scratch, size_t room);

// strace_text.c ------------------------------------------------------------------------------------------------------

static inline size_t span_length(struct span span)
{
    return (size_t)(span.end - span.at);
}

bool span_is(struct span span, const char *text);
bool span_starts(struct span span, const char *text);
bool span_ends(struct span span, const char *text);
struct span span_trimmed(struct span span);

// Where `wanted` is in `text`; NULL for nowhere.
const uint8_t *span_find(struct span text, const char *wanted);

// The number at the start of `span`, decimal, 0x or with a leading zero octal, which is taken away; false for none.
bool take_number(struct span *span, int64_t *value);

// Seconds with up to nine digits behind the point, in ns; the same.
bool take_seconds(struct span *span, int64_t *value, bool *has_point);

// The next of the parts of a list that commas separate, where strings, brackets, comments and what strace says of
// descriptors (3</path>) are whole; false at the closing bracket, at which `list` then stands, or at the end.
bool take_element(struct span *list, struct span *element);

// What strace says of a descriptor, at whose `<` `span` begins, without the angle brackets; taken away.
bool take_decoration(struct span *span, struct span *inner);

// Splits `text`, which begins with the name of a call; false where no name and opening bracket are.
bool split_call(struct span text, struct call_text *call);

// Puts a text with its escapes resolved.
void put_text(struct table *table, size_t column, size_t row, struct span text, struct scratch *scratch);

// strace_calls.c -----------------------------------------------------------------------------------------------------

struct call_names;

struct call_names *call_names_new(void);

// Number of the call (of `call_names_count`), or -1 for one that has no roles for its arguments.
int call_names_find(const struct call_names *names, struct span name);
size_t call_names_count(void);

// errno of a name such as ENOENT; 0 for none.
int errno_find(const struct call_names *names, struct span name);

// Name of an errno; empty where it has none.
struct span errno_name(int number);

void put_arguments(struct table *table, size_t row, int number, const struct call_text *call, struct scratch *scratch);

// A descriptor and what strace says of it; columns that are not wanted are SYSCALL_NONE.
enum { SYSCALL_NONE = MAX_COLUMNS };
bool put_fd(struct table *table, size_t row, struct span text, size_t fd_column, size_t path_column, size_t kind_column,
            struct scratch *scratch);
