// Text that comes in pieces and is read line by line: what the readers of text share.
#pragma once

#include "map.h"
#include "native.h"

#include <string.h>

// Lines that are longer are no events of any tool (the kernel's are at most 8 KiB): they are counted, not kept.
enum { MAX_LINE = 1 << 16 };

// How much of a line is kept for a message.
enum { QUOTED = 64 };

// More distinct names of events than any kernel has; what comes behind is refused.
enum { MAX_NAMES = 1 << 16 };

// What is left to read of a line, and any part of it.
struct text {
    const uint8_t *at;
    const uint8_t *end;
};

// Lines that were refused: how many, and the start of the first.
struct refused {
    uint64_t count;
    uint32_t length; // of the first, all of it
    uint8_t first[QUOTED];
};

// What a reader tells beside rows; ingest/text.py has the same structure.
struct told {
    int64_t first_ns; // INT64_MAX before the first event
    int64_t last_ns;  // INT64_MIN
    uint64_t events;
    uint64_t lost;              // events, as lines between the events say
    uint64_t gaps;              // of these lines
    uint64_t kept;              // events in the buffer, as the header says
    uint64_t written;           // events that were recorded, as the header says
    uint64_t before_start;      // events with times before the start of the trace
    uint64_t rounded;           // requests that do not begin and end at sectors
    int64_t realtime_offset_ns; // NO_INT64 where nothing tells it
    struct refused refused[5];
};

enum { REFUSED_LINE, REFUSED_BLOCK, REFUSED_FS, REFUSED_COMMAND, REFUSED_CALL };

// The tables that a reader fills; NULL: rows of that table are not wanted. Of `threads` (table tasks) a row tells in
// valid_from_ns when a thread was seen.
struct tables {
    struct table *block;
    struct table *fs;
    struct table *commands;
    struct table *threads;
    struct table *calls;
};

struct thread {
    int32_t tid;
    int32_t pid;   // NO_INT32: not told
    uint32_t comm; // number of a string; NO_STRING: not told
    int64_t first_ns;
    int64_t last_ns;
};

// Which thread bore which name when: a row at the start and at the end of each run of lines with the same name.
struct threads {
    struct thread *rows;
    size_t count;
    size_t room;
    size_t flushed;    // of these the last row was written
    struct map places; // index and one, by number of the thread
};

// Numbers of short strings that were put lately: a line repeats most of those before it.
enum { LATELY_SLOTS = 512, LATELY_BYTES = 24 };

struct lately {
    uint64_t words[3];
    uint32_t length; // and one; 0: nothing
    uint32_t number;
};

struct reader;

// Reads one line; there is room in all tables.
typedef void line_reader(struct reader *reader, struct text line);

// What all text readers begin with.
struct reader {
    line_reader *read_line;
    struct tables tables;
    struct told told;
    struct threads threads;
    struct strings *names;                    // of events
    uint64_t *counts;                         // by number of the name
    size_t carried;                           // bytes of a line that began in an earlier piece
    bool is_long;                             // and was longer than MAX_LINE
    struct lately lately[LATELY_SLOTS];       // of the tables' strings
    struct lately lately_names[LATELY_SLOTS]; // of `names`
    struct lately lately_comms[LATELY_SLOTS]; // of the strings of the table of threads
    uint8_t carry[MAX_LINE];
};

// Number of the string in `strings`, through what was put lately.
uint32_t string_number(struct lately lately[LATELY_SLOTS], struct strings *strings, struct text text);

// Prepares a reader whose names of events are kept in `names`; false where memory is short.
bool reader_start(struct reader *reader, line_reader *read_line, struct strings *names);
void reader_end(struct reader *reader);

// Counts an event of this time and name. Returns the number of the name; MAX_NAMES where there are too many.
uint32_t count_event(struct reader *reader, int64_t ts_ns, struct text name);

void refuse(struct refused *refused, struct text line);

// A line shows thread `tid` with this name (NULL: not told) and process.
void see_thread(struct reader *reader, int64_t ts_ns, int32_t tid, int32_t pid, struct text comm);

static inline size_t text_length(struct text text)
{
    return (size_t)(text.end - text.at);
}

// A string into table block_events, where most are repeated soon.
static inline void put_again(struct reader *reader, size_t column, size_t row, struct text text)
{
    struct table *table = reader->tables.block;

    ((uint32_t *)table->values[column])[row] = string_number(reader->lately, table->strings, text);
}

static inline void put_text(struct table *table, size_t column, size_t row, struct text text)
{
    put_string(table, column, row, text.at, text_length(text));
}

static inline bool text_is(struct text text, const char *wanted)
{
    size_t length = strlen(wanted);

    return text_length(text) == length && !memcmp(text.at, wanted, length);
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

// Any number of spaces, and whether there was one.
static inline bool take_spaces(struct text *text)
{
    const uint8_t *start = text->at;

    while (at_byte(text, ' '))
        text->at++;
    return text->at != start;
}

// A decimal number; UINT64_MAX for what is larger.
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
        // 2^64 has twenty digits; what has as many and is smaller than 10^19 went round.
        if (text->at - at > 20 || (text->at - at == 20 && (*at != '1' || value < 10000000000000000000u)))
            *number = UINT64_MAX;
    }
    return text->at != start;
}

// A signed decimal number; NO_INT64 for what does not fit.
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

// The kernel's dev_t has 12 bits of major and 20 of minor.
static inline bool is_device(uint64_t major, uint64_t minor)
{
    return major < 1 << 12 && minor < 1 << 20;
}

static inline uint32_t device_of(uint64_t major, uint64_t minor)
{
    return (uint32_t)(major << 20 | minor);
}

// Seconds and a fraction of so many digits (`or_digits`: or so many) as nanoseconds; up to the year 2255.
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

// `[name]`, perhaps a number behind it, at the end of a line: the name goes to the last bracket that fits.
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
