// Text that comes in pieces and is read line by line: what the readers of text share.
#pragma once

#include "core/map.h"
#include "core/text.h"

// Lines that are longer are no events of any tool (the kernel's are at most 8 KiB): they are counted, not kept.
enum { MAX_LINE = 1 << 16 };

// How much of a line is kept for a message.
enum { QUOTED = 64 };

// More distinct names of events than any kernel has; what comes behind is refused.
enum { MAX_NAMES = 1 << 16 };

// Lines that were refused: how many, and the start of the first.
struct refused {
    uint64_t count;
    uint32_t length; // of the first, all of it
    uint8_t first[QUOTED];
};

// How often a file's clock may be set back; of one that goes back more often the times are of several clocks.
enum { MAX_SETBACKS = 8, STREAM_SLOTS = 4096 };

// What a reader counts, and the times that it saw; ingest/lines.py has the same structure.
struct totals {
    int64_t first_ns; // INT64_MAX before the first event
    int64_t last_ns;  // INT64_MIN
    uint64_t events;
    uint64_t lost;                       // events, as lines between the events say
    uint64_t gaps;                       // of these lines
    uint64_t buffered;                   // events in the buffer, as the header says
    uint64_t written;                    // events that were recorded, as the header says
    uint64_t before_start;               // events with times before the start of the trace
    uint64_t rounded;                    // requests that do not begin and end at sectors
    int64_t realtime_offset_ns;          // NO_INT64: unknown
    uint64_t setbacks;                   // lines whose time is long before that of an earlier line of the same stream
    int64_t setback_ns[MAX_SETBACKS][2]; // of those that were moved: the time before, and the time they got
    struct refused refused[6];
};

enum { REFUSED_LINE, REFUSED_BLOCK, REFUSED_FS, REFUSED_COMMAND, REFUSED_CALL, REFUSED_IMPORTANCE };

// The tables that a reader fills; NULL: rows of that table are not wanted. Of `threads` (table tasks) a row tells in
// valid_from_ns when a thread was seen.
struct tables {
    struct table *block;
    struct table *fs;
    struct table *commands;
    struct table *threads;
    struct table *calls;
    struct table *importance;
};

struct thread {
    int32_t tid;
    int32_t pid;   // NO_INT32: unknown
    uint32_t comm; // number of a string; NO_STRING: unknown
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

// Numbers of short strings that were put recently: a line repeats most of those before it.
enum { STRING_SLOTS = 512, STRING_BYTES = 24 };

struct recent_string {
    uint64_t words[3];
    uint32_t length; // and one; 0: nothing
    uint32_t number;
};

// Lines whose times only rise: those of a CPU, or of a device.
struct stream {
    uint64_t key; // and one; 0: none
    int64_t latest_ns;
};

struct reader;

// Reads one line; there is room in all tables.
typedef void line_reader(struct reader *reader, struct text line);

// What all text readers begin with.
struct reader {
    line_reader *read_line;
    struct tables tables;
    struct totals totals;
    struct threads threads;
    struct strings *names;                             // of events
    uint64_t *counts;                                  // by number of the name
    size_t carried;                                    // bytes of a line that began in an earlier piece
    bool is_long;                                      // and was longer than MAX_LINE
    struct recent_string recent_strings[STRING_SLOTS]; // of the tables' strings
    struct recent_string recent_names[STRING_SLOTS];   // of `names`
    struct recent_string recent_comms[STRING_SLOTS];   // of the strings of the table of threads
    int64_t shift_ns;                    // what times are moved by, so that they go on where the clock was set back
    struct stream streams[STREAM_SLOTS]; // by key
    uint8_t carry[MAX_LINE];
};

// Number of the string in `strings`, through what was put recently.
uint32_t string_number(struct recent_string recent_strings[STRING_SLOTS], struct strings *strings, struct text text);

// Prepares a reader whose names of events are kept in `names`; false where memory is short.
bool reader_start(struct reader *reader, line_reader *read_line, struct strings *names);
void reader_end(struct reader *reader);

// The time of a line of the stream `key`, moved behind all others where the clock was set back before it: tools that
// print CPUs or devices in turn go back as well, but never within one.
int64_t continued_time(struct reader *reader, uint64_t key, int64_t ts_ns);

// Whether this time is long before that of an earlier line of the stream, and takes note of it: rows of a table need
// not be in order, so that they are counted only.
bool see_setback(struct reader *reader, uint64_t key, int64_t ts_ns);

// Counts an event of this time and name. Returns the number of the name; MAX_NAMES where there are too many.
uint32_t count_event(struct reader *reader, int64_t ts_ns, struct text name);

void refuse(struct refused *refused, struct text line);

// A line shows thread `tid` with this name (NULL: not told) and process.
void see_thread(struct reader *reader, int64_t ts_ns, int32_t tid, int32_t pid, struct text comm);

// A string into table block_events, where most are repeated soon.
static inline void put_again(struct reader *reader, size_t column, size_t row, struct text text)
{
    struct table *table = reader->tables.block;

    ((uint32_t *)table->values[column])[row] = string_number(reader->recent_strings, table->strings, text);
}
