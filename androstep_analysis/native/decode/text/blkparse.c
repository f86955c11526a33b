// Reads the default text output of blkparse (blktrace: blkparse_fmt.c, process_default).
#include "decode/text/blkparse.h"

#include <stdlib.h>

// The printed time of 2^64 ns, as blkparse truncates the seconds to 32 bits.
static const int64_t WRAP_NS = 1266874889709551616;
static const int64_t DAY_NS = 86400 * INT64_C(1000000000);

enum { SECTOR_BYTES = 512 };

struct tail {
    bool has_number, has_sign, is_cut, has_elapsed, has_name, is_remap;
    uint64_t number, length, old_major, old_minor, old_sector;
    struct text name;
};

// Returns the index of one or two capital letters in a table of actions; -1 for other characters.
static int index_of(struct text letters)
{
    int letter_indices[2] = {0, -1};

    for (size_t i = 0; i < 2 && i < text_length(letters); i++)
        letter_indices[i] = letters.at[i] >= 'A' && letters.at[i] <= 'Z' ? letters.at[i] - 'A' : -2;
    if (!text_length(letters) || text_length(letters) > 2 || letter_indices[0] < 0 || letter_indices[1] < -1)
        return -1;
    return letter_indices[0] * 27 + letter_indices[1] + 1;
}

void actions_clear(struct actions *actions)
{
    memset(actions->of, NO_CODE, sizeof(actions->of));
}

void actions_add(struct actions *actions, const uint8_t *letters, size_t length, uint8_t action)
{
    int index = index_of((struct text){letters, letters + length});

    if (index >= 0)
        actions->of[index] = action;
}

uint8_t action_of(const struct actions *actions, struct text letters)
{
    int index = index_of(letters);

    return index < 0 ? NO_CODE : actions->of[index];
}

struct blkparse_text {
    struct reader reader;
    struct actions actions;
    bool is_summary; // the lines after the events have begun
};

static void read_line(struct reader *reader, struct text line);

API struct blkparse_text *blkparse_text_new(struct strings *names)
{
    struct blkparse_text *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    actions_clear(&trace->actions);
    if (reader_start(&trace->reader, read_line, names))
        return trace;
    reader_end(&trace->reader);
    free(trace);
    return NULL;
}

API void blkparse_text_free(struct blkparse_text *trace)
{
    reader_end(&trace->reader);
    free(trace);
}

// Registers an action by its letters, before the first line.
API void blkparse_text_action(struct blkparse_text *trace, const uint8_t *letters, size_t length, uint8_t action)
{
    actions_add(&trace->actions, letters, length, action);
}

static bool is_capital(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool take_capitals(struct text *text, struct text *capitals, size_t most)
{
    capitals->at = text->at;
    while (text->at < text->end && is_capital(*text->at) && most--)
        text->at++;
    capitals->end = text->at;
    return capitals->end != capitals->at;
}

bool blkparse_letters(struct text *line, struct blk_event *event)
{
    if (at_byte(line, 'm')) {
        event->letters = (struct text){line->at, line->at + 1};
        line->at++;
    } else if (!take_capitals(line, &event->letters, 2)) {
        return false;
    }
    return take_spaces(line) && take_capitals(line, &event->rwbs, SIZE_MAX);
}

static bool take_event(struct text *line, struct blk_event *event)
{
    uint64_t number;

    take_spaces(line);
    if (!take_number(line, &event->major) || !take_byte(line, ',') || !take_number(line, &event->minor) ||
        !take_spaces(line) || !take_number(line, &number) || !take_spaces(line))
        return false;
    event->cpu = int32_of(number);
    if (!take_number(line, &number) || !take_spaces(line) || !take_time(line, 9, 9, &event->ts_ns) ||
        !take_spaces(line) || !take_number(line, &number) || !take_spaces(line))
        return false;
    event->tid = int32_of(number);
    return blkparse_letters(line, event);
}

static bool is_command(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || byte == ' ' || byte == '.';
}

// Skips "(elapsed) " or "(command) ". Returns false only if a bracket has another form.
static bool take_brackets(struct text *text, bool *is_elapsed)
{
    struct text at = *text;
    uint64_t number;

    if (!take_byte(&at, '('))
        return true;
    take_spaces(&at);
    if (take_number(&at, &number) && take_word(&at, ") ")) {
        *is_elapsed = true;
        *text = at;
        return true;
    }
    at.at = text->at + 1;
    while (at.at < at.end && is_command(*at.at))
        at.at++;
    if (!take_word(&at, ") "))
        return false;
    *text = at;
    return true;
}

static bool take_tail(struct text text, struct tail *tail)
{
    take_spaces(&text);
    tail->has_number = take_number(&text, &tail->number);
    if (tail->has_number) {
        if (take_word(&text, " + ")) {
            tail->has_sign = true;
        } else if (take_word(&text, " / ")) {
            tail->has_sign = tail->is_cut = true;
        }
        if ((tail->has_sign && !take_number(&text, &tail->length)) || !take_byte(&text, ' '))
            return false;
    }
    if (!take_brackets(&text, &tail->has_elapsed))
        return false;
    if (take_word(&text, "<- (")) {
        tail->is_remap = true;
        return take_number(&text, &tail->old_major) && take_byte(&text, ',') && take_number(&text, &tail->old_minor) &&
               take_word(&text, ") ") && take_number(&text, &tail->old_sector) && text.at == text.end;
    }
    tail->has_name = take_bracketed(&text, &tail->name);
    return tail->has_name;
}

// Returns the result of a completion. blkparse 1.2 prints the lower 16 bits without a sign.
static int32_t error_of(struct text name)
{
    int64_t error;

    if (!take_signed(&name, &error) || name.at != name.end)
        return NO_INT32;
    return int32_of_signed(error >= 1 << 15 && error < 1 << 16 ? error - (1 << 16) : error);
}

static int64_t length_of(const struct tail *tail, bool is_bytes, bool is_completed)
{
    if (tail->has_sign && !tail->is_cut)
        return int64_of(tail->length);
    // A split prints the sector of the second part, modulo 2^32. The length is that of the first part.
    if (tail->is_cut)
        return (int64_t)((tail->length - tail->number) & UINT32_MAX);
    if (is_bytes)
        return int64_of(tail->number) == NO_INT64 ? NO_INT64 : (int64_t)(tail->number / SECTOR_BYTES);
    // The length of a completed passthrough request is not printed.
    return is_completed && !tail->has_number ? NO_INT64 : 0;
}

bool blkparse_block(struct reader *reader, const struct blk_event *event, uint8_t action, struct text text)
{
    struct table *table = reader->tables.block;
    struct tail tail = {0};
    bool is_completed = action == ACTION_COMPLETE || action == ACTION_REQUEUE;
    bool is_plug = action == ACTION_PLUG || action == ACTION_UNPLUG;
    bool is_bytes;
    size_t row;

    if (action == NO_CODE || !take_tail(text, &tail) || !is_device(event->major, event->minor) ||
        (tail.is_remap && !is_device(tail.old_major, tail.old_minor)))
        return false;
    // In a completion (or with -t) a number alone is the sector of an empty flush, else the bytes of a passthrough
    // request.
    is_bytes = tail.has_number && !tail.has_sign && !is_completed && !tail.has_elapsed;
    row = table_row(table);
    put_int64(table, BLOCK_TS_NS, row, event->ts_ns);
    put_int32(table, BLOCK_CPU, row, event->cpu);
    put_int32(table, BLOCK_TID, row, event->tid);
    put_cached(reader, BLOCK_EVENT, row, event->letters);
    put_code(table, BLOCK_ACTION, row, action);
    put_uint32(table, BLOCK_DEV, row, device_of(event->major, event->minor));
    if (tail.has_number && !is_bytes)
        put_int64(table, BLOCK_SECTOR, row, int64_of(tail.number));
    if (!is_plug)
        put_int64(table, BLOCK_NR_SECTORS, row, length_of(&tail, is_bytes, is_completed));
    put_cached(reader, BLOCK_RWBS, row, event->rwbs);
    if (action == ACTION_COMPLETE)
        put_int32(table, BLOCK_ERROR, row, error_of(tail.name));
    if (tail.has_name && !is_completed && !text_is(tail.name, "(null)")) // the name of the thread was not recorded
        put_cached(reader, BLOCK_COMM, row, tail.name);
    if (tail.is_remap) {
        put_uint32(table, BLOCK_OLD_DEV, row, device_of(tail.old_major, tail.old_minor));
        put_int64(table, BLOCK_OLD_SECTOR, row, int64_of(tail.old_sector));
    }
    return true;
}

// Reads "Skips: 2 forward (1,234 -  99.8%)": gaps in the sequence numbers, and the events in them.
static void read_skips(struct totals *totals, struct text line)
{
    uint64_t count = 0;
    bool has_digit = false;

    if (!take_word(&line, "Skips: "))
        return;
    while (line.at < line.end && *line.at != ' ')
        line.at++;
    if (!take_word(&line, " forward ("))
        return;
    for (; line.at < line.end && (is_digit(*line.at) || (*line.at && strchr(",.'", *line.at))); line.at++)
        if (is_digit(*line.at)) {
            has_digit = true;
            count = count > INT64_MAX / 16 ? count : count * 10 + (*line.at - '0');
        }
    if (has_digit && take_word(&line, " - "))
        totals->lost += count;
}

static bool begins_summary(struct text line)
{
    uint64_t number;

    if (!(take_word(&line, "CPU") && take_number(&line, &number)) && !take_word(&line, "Total"))
        return false;
    return take_word(&line, " (") && text_ends(line, "):");
}

static bool is_comment(struct text line)
{
    struct text at = line;

    if (take_word(&at, "Input file ") && text_ends(at, " added"))
        return true;
    while (line.at < line.end && (*line.at == ' ' || (*line.at >= '\t' && *line.at <= '\r')))
        line.at++;
    return line.at == line.end;
}

void blkparse_note(struct totals *totals, bool *is_summary, struct text line)
{
    read_skips(totals, line);
    *is_summary |= begins_summary(line);
    if (!*is_summary && !is_comment(line))
        refuse(&totals->refused[REFUSED_LINE], line);
}

int64_t blkparse_time(struct totals *totals, int64_t ns)
{
    if (ns >= WRAP_NS || ns < WRAP_NS - DAY_NS)
        return ns;
    totals->before_start++;
    return ns - WRAP_NS;
}

int64_t blkparse_continued(struct reader *reader, uint64_t stream, int64_t ns, int64_t least_ns)
{
    int64_t ts_ns = blkparse_time(&reader->totals, ns);

    // blkparse sorts negative times behind all others.
    return ts_ns < 0 ? ts_ns : continued_time(reader, stream, ts_ns, least_ns);
}

static void read_line(struct reader *reader, struct text line)
{
    struct blkparse_text *trace = (struct blkparse_text *)reader;
    struct totals *totals = &reader->totals;
    struct blk_event event;
    struct text at = text_trimmed(line);
    uint64_t stream;

    if (!take_event(&at, &event)) {
        blkparse_note(totals, &trace->is_summary, line);
        return;
    }
    stream = (uint64_t)device_of(event.major, event.minor) << 16 ^ (uint64_t)event.cpu;
    event.ts_ns = blkparse_continued(reader, stream, event.ts_ns, SETBACK_OF_CPU_NS);
    if (count_event(reader, event.ts_ns, event.letters) == MAX_NAMES)
        refuse(&totals->refused[REFUSED_LINE], line);
    if (*event.letters.at == 'm')
        return;
    if (!blkparse_block(reader, &event, action_of(&trace->actions, event.letters), at))
        refuse(&totals->refused[REFUSED_BLOCK], line);
}

API bool blkparse_text_end(struct blkparse_text *trace)
{
    return read_last_line(&trace->reader, 1);
}
