// Reads text line by line from chunks of any size. All readers of text share this.
#pragma once

#include "core/map.h"
#include "core/text.h"

// Longer lines are not events of any tool (the kernel's have at most 8 KiB). They are counted only.
enum { MAX_LINE = 1 << 16 };

// Bytes of a line that a message quotes.
enum { QUOTED = 64 };

// A limit of distinct event names, above that of any kernel. Further names are refused.
enum { MAX_NAMES = 1 << 16 };

// Refused lines: their number, and the start of the first.
struct refused {
    uint64_t count;
    uint32_t length; // length of the whole first line
    uint8_t first[QUOTED];
};

// Limit of setbacks of a file's clock. A file with more of them mixes several clocks.
enum { MAX_SETBACKS = 8, STREAM_SLOTS = 4096 };

// Totals of a reader; ingest/lines.py has the same structure.
struct totals {
    int64_t first_ns; // INT64_MAX before the first event
    int64_t last_ns;  // INT64_MIN
    uint64_t events;
    uint64_t lost;                       // lost events, by lines between the events
    uint64_t gaps;                       // number of these lines
    uint64_t buffered;                   // events in the buffer, by the header
    uint64_t written;                    // recorded events, by the header
    uint64_t before_start;               // events before the start of the trace
    uint64_t rounded;                    // requests not aligned to sectors
    int64_t realtime_offset_ns;          // NO_INT64: unknown
    uint64_t setbacks;                   // lines long before an earlier line of the same stream
    int64_t setback_ns[MAX_SETBACKS][2]; // for each corrected one: the time before it and its new time
    struct refused refused[7];
};

enum { REFUSED_LINE, REFUSED_BLOCK, REFUSED_FS, REFUSED_COMMAND, REFUSED_CALL, REFUSED_IMPORTANCE, REFUSED_COUNTERS };

// Tables that a reader fills; NULL to skip one. In `threads` (table tasks) valid_from_ns is a time when a thread was
// seen.
struct tables {
    struct table *block;
    struct table *fs;
    struct table *commands;
    struct table *threads;
    struct table *calls;
    struct table *importance;
    struct table *samples;
};

struct thread {
    int32_t tid;
    int32_t pid;   // NO_INT32: unknown
    uint32_t comm; // a string; NO_STRING: unknown
    int64_t first_ns;
    int64_t last_ns;
};

// Names and processes of threads over time: a row at the start and end of each run of lines with the same ones.
struct threads {
    struct thread *rows;
    size_t count;
    size_t capacity;
    size_t flushed;     // threads whose last row is written
    struct map indices; // index plus one, by tid
};

// Cache of recently used short strings: most lines repeat strings of those before them.
enum { STRING_SLOTS = 512, STRING_BYTES = 24 };

struct recent_string {
    uint64_t words[3];
    uint32_t length; // plus one; 0: empty
    uint32_t number;
};

// Lines with ascending times: those of a CPU or of a device.
struct stream {
    uint64_t key; // plus one; 0: none
    int64_t latest_ns;
};

struct reader;

// Reads one line. All tables have free rows.
typedef void line_reader(struct reader *reader, struct text line);

// Common part of all text readers.
struct reader {
    line_reader *read_line;
    struct tables tables;
    struct totals totals;
    struct threads threads;
    struct strings *names;                             // of events
    uint64_t *counts;                                  // by index of the name
    size_t carried;                                    // bytes of a line that began in an earlier chunk
    bool is_long;                                      // the line is longer than MAX_LINE
    struct recent_string recent_strings[STRING_SLOTS]; // of the tables' strings
    struct recent_string recent_names[STRING_SLOTS];   // of `names`
    struct recent_string recent_comms[STRING_SLOTS];   // of the strings of the table of threads
    int64_t shift_ns;                    // added to times so that they continue after a setback of the clock
    struct stream streams[STREAM_SLOTS]; // by key
    uint8_t carry[MAX_LINE];
};

// Returns the index of the text in `strings`, by way of a cache.
uint32_t string_number(struct recent_string recent_strings[STRING_SLOTS], struct strings *strings, struct text text);

// Prepares a reader that adds event names to `names`; false without memory.
bool reader_start(struct reader *reader, line_reader *read_line, struct strings *names);
void reader_end(struct reader *reader);

// Reads the last line if it has no newline but is complete: it ends in the last of its pairs of brackets, of which
// there are `nr_brackets`. A name with brackets could be truncated at one of them.
bool read_last_line(struct reader *reader, size_t nr_brackets);

// A time that goes back by more is a setback of the clock. Lines of one CPU are in order, but for milliseconds
// (blkparse of events around its start). Other lines may be printed when they end.
#define SETBACK_OF_CPU_NS INT64_C(100000000)
#define SETBACK_NS        INT64_C(60000000000)

// Returns the time of a line of stream `key`. If the clock was set back before the line by more than `least_ns`, it is
// moved after all others. Tools that print one CPU or device after the other go back only between them.
int64_t continued_time(struct reader *reader, uint64_t key, int64_t ts_ns, int64_t least_ns);

// Checks whether a line is more than `least_ns` before an earlier one of its stream, and counts it.
bool see_setback(struct reader *reader, uint64_t key, int64_t ts_ns, int64_t least_ns);

// Counts an event. Returns the index of its name; MAX_NAMES at the limit.
uint32_t count_event(struct reader *reader, int64_t ts_ns, struct text name);

void refuse(struct refused *refused, struct text line);

// Records the name (NULL: not printed) and process of thread `tid` at a line.
void see_thread(struct reader *reader, int64_t ts_ns, int32_t tid, int32_t pid, struct text comm);

// Stores a string in table block_events through the cache.
static inline void put_cached(struct reader *reader, size_t column, size_t row, struct text text)
{
    struct table *table = reader->tables.block;

    ((uint32_t *)table->values[column])[row] = string_number(reader->recent_strings, table->strings, text);
}
