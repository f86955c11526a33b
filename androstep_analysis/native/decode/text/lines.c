// Splits chunks of a file into lines and collects what all lines have in common: event names, thread names, time range.
#include "decode/text/lines.h"
#include "decode/text/forms.h"

#include "core/array.h"

// Four times PID_MAX_LIMIT, as a limit for damaged files.
enum { MAX_THREADS = 1 << 24 };

enum tasks_column { TASKS_PID, TASKS_TID, TASKS_COMM, TASKS_VALID_FROM_NS = 7 };

bool reader_start(struct reader *reader, line_reader *read_line, struct strings *names)
{
    reader->read_line = read_line;
    reader->names = names;
    reader->counts = calloc(MAX_NAMES, sizeof(*reader->counts));
    reader->totals.first_ns = INT64_MAX;
    reader->totals.last_ns = INT64_MIN;
    reader->totals.realtime_offset_ns = NO_INT64;
    return reader->counts;
}

void reader_end(struct reader *reader)
{
    free(reader->counts);
    free(reader->threads.rows);
    map_free(&reader->threads.indices);
}

API void text_tables(struct reader *reader, struct table *block, struct table *fs, struct table *commands,
                     struct table *threads, struct table *calls, struct table *importance, struct table *samples)
{
    reader->tables = (struct tables){block, fs, commands, threads, calls, importance, samples};
    memset(reader->recent_strings, 0, sizeof(reader->recent_strings)); // a new table has its own strings
}

API const struct totals *text_totals(const struct reader *reader)
{
    return &reader->totals;
}

API const uint64_t *text_counts(const struct reader *reader)
{
    return reader->counts;
}

static uint64_t word_at(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;

    memcpy(&word, at, bytes);
    return word;
}

// Packs a text into words. Texts of the same length have equal words only if they are equal.
static void words_of(struct text text, size_t length, uint64_t words[3])
{
    if (length >= 8) {
        words[0] = word_at(text.at, 8);
        words[1] = length > 16 ? word_at(text.at + 8, 8) : 0;
        words[2] = word_at(text.end - 8, 8);
    } else if (length >= 4) {
        words[0] = word_at(text.at, 4) | word_at(text.end - 4, 4) << 32;
    } else if (length) {
        words[0] = text.at[0] | (uint64_t)text.at[length / 2] << 8 | (uint64_t)text.end[-1] << 16;
    }
}

uint32_t string_number(struct recent_string recent_strings[STRING_SLOTS], struct strings *strings, struct text text)
{
    size_t length = text_length(text);
    struct recent_string wanted = {{0}, (uint32_t)length + 1, 0};
    struct recent_string *slot;

    if (length > STRING_BYTES)
        return strings_add(strings, text.at, length);
    words_of(text, length, wanted.words);
    slot = &recent_strings[((wanted.words[0] ^ wanted.words[1] << 2 ^ wanted.words[2] << 1 ^ length) *
                                0x9e3779b97f4a7c15u >>
                            40) %
                           STRING_SLOTS];
    if (slot->length == wanted.length && !memcmp(slot->words, wanted.words, sizeof(wanted.words)))
        return slot->number;
    wanted.number = strings_add(strings, text.at, length);
    if (wanted.number != NO_STRING)
        *slot = wanted;
    return wanted.number;
}

static bool has_free_rows(const struct table *table, size_t rows)
{
    return !table || table->capacity - table->rows >= rows;
}

static bool have_free_rows(const struct tables *tables)
{
    // A line is at most the queueing, the issue and the completion of a request, a new name of a thread, and a counter
    // for each step of a form.
    return has_free_rows(tables->block, 3) && has_free_rows(tables->fs, 1) && has_free_rows(tables->commands, 1) &&
           has_free_rows(tables->threads, 2) && has_free_rows(tables->calls, 1) &&
           has_free_rows(tables->importance, 1) && has_free_rows(tables->samples, MAX_STEPS);
}

// Passes a line on without CR, the end of line of Windows, and without a byte-order mark, with which a joined file
// began.
static void read_line(struct reader *reader, const uint8_t *start, const uint8_t *end, bool is_long)
{
    struct text line = {start, end > start && end[-1] == '\r' ? end - 1 : end};

    take_word(&line, "\xef\xbb\xbf");
    if (is_long || end - start > MAX_LINE)
        refuse(&reader->totals.refused[REFUSED_LINE], line);
    else
        reader->read_line(reader, line);
}

// Saves the start of a line whose end is in the next chunk.
static void carry(struct reader *reader, const uint8_t *start, const uint8_t *end)
{
    size_t length = (size_t)(end - start);
    size_t free_bytes = MAX_LINE - reader->carried;

    reader->is_long |= length > free_bytes;
    if (length > free_bytes)
        length = free_bytes;
    if (length)
        memcpy(reader->carry + reader->carried, start, length);
    reader->carried += length;
}

// Reads the line that began in an earlier chunk.
static void read_carried(struct reader *reader)
{
    read_line(reader, reader->carry, reader->carry + reader->carried, reader->is_long);
    reader->carried = 0;
    reader->is_long = false;
}

// Reads the lines of a chunk until a table is full. Returns how many bytes were consumed.
API size_t text_read(struct reader *reader, const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;

    while (at < end && have_free_rows(&reader->tables)) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));

        if (!newline || reader->carried || reader->is_long)
            carry(reader, at, newline ? newline : end);
        if (!newline)
            return size;
        if (reader->carried || reader->is_long)
            read_carried(reader);
        else
            read_line(reader, at, newline, false);
        at = newline + 1;
    }
    return (size_t)(at - data);
}

bool read_last_line(struct reader *reader, size_t nr_brackets)
{
    size_t opened = 0, closed = 0;

    for (size_t at = 0; at < reader->carried; at++) {
        opened += reader->carry[at] == '[';
        closed += reader->carry[at] == ']';
    }
    if (!reader->carried || reader->is_long || opened != nr_brackets || closed != nr_brackets ||
        reader->carry[reader->carried - 1] != ']' || !have_free_rows(&reader->tables))
        return false;
    read_carried(reader);
    return true;
}

// Drops an incomplete last line. Its start is copied to `first` for a message, as that of refused lines.
API size_t text_torn(struct reader *reader, uint8_t first[QUOTED])
{
    size_t length = reader->carried;

    memcpy(first, reader->carry, length < QUOTED ? length : QUOTED);
    reader->carried = 0;
    reader->is_long = false;
    return length;
}

void refuse(struct refused *refused, struct text line)
{
    if (!refused->count++) {
        size_t length = text_length(line);

        refused->length = (uint32_t)(length < UINT32_MAX ? length : UINT32_MAX);
        memcpy(refused->first, line.at, length < QUOTED ? length : QUOTED);
    }
}

bool see_setback(struct reader *reader, uint64_t key, int64_t ts_ns, int64_t least_ns)
{
    struct stream *stream = &reader->streams[(key * 0x9e3779b97f4a7c15u >> 40) % STREAM_SLOTS];
    bool is_first = stream->key != key + 1;
    bool is_setback = !is_first && stream->latest_ns >= INT64_MIN + least_ns && ts_ns < stream->latest_ns - least_ns;

    if (is_first || is_setback || ts_ns > stream->latest_ns)
        *stream = (struct stream){key + 1, ts_ns};
    reader->totals.setbacks += is_setback;
    return is_setback;
}

int64_t continued_time(struct reader *reader, uint64_t key, int64_t ts_ns, int64_t least_ns)
{
    struct totals *totals = &reader->totals;
    int64_t shift_ns, moved;

    if (__builtin_add_overflow(ts_ns, reader->shift_ns, &moved))
        moved = ts_ns;
    if (!see_setback(reader, key, moved, least_ns) || totals->setbacks > MAX_SETBACKS || totals->last_ns == INT64_MAX ||
        __builtin_sub_overflow(totals->last_ns + 1, ts_ns, &shift_ns))
        return moved;
    moved = totals->last_ns + 1;
    reader->shift_ns = shift_ns;
    totals->setback_ns[totals->setbacks - 1][0] = totals->last_ns;
    totals->setback_ns[totals->setbacks - 1][1] = moved;
    see_setback(reader, key, moved, least_ns);
    return moved;
}

uint32_t count_event(struct reader *reader, int64_t ts_ns, struct text name)
{
    uint32_t index;

    if (strings_count(reader->names) >= MAX_NAMES - 1 || text_length(name) > 1024)
        return MAX_NAMES;
    index = string_number(reader->recent_names, reader->names, name);
    if (index >= MAX_NAMES)
        return MAX_NAMES;
    reader->counts[index]++;
    reader->totals.events++;
    if (ts_ns < reader->totals.first_ns)
        reader->totals.first_ns = ts_ns;
    if (ts_ns > reader->totals.last_ns)
        reader->totals.last_ns = ts_ns;
    return index;
}

// Returns the thread and adds it if it is new; NULL at the limit or without memory.
static struct thread *thread_of(struct threads *threads, int32_t tid, bool *is_new)
{
    uint64_t *slot = map_find(&threads->indices, 0, (uint32_t)tid);

    *is_new = !slot;
    if (slot)
        return &threads->rows[*slot - 1];
    if (threads->count == MAX_THREADS)
        return NULL;
    if (!array_reserve(&threads->rows, threads->count, &threads->capacity, sizeof(*threads->rows)))
        return NULL;
    slot = map_add(&threads->indices, 0, (uint32_t)tid);
    if (!slot)
        return NULL;
    *slot = ++threads->count;
    return &threads->rows[threads->count - 1];
}

static void write_thread(struct table *table, const struct thread *thread, int64_t ts_ns)
{
    size_t row = table_row(table);

    put_int32(table, TASKS_TID, row, thread->tid);
    put_int32(table, TASKS_PID, row, thread->pid);
    ((uint32_t *)table->values[TASKS_COMM])[row] = thread->comm;
    put_int64(table, TASKS_VALID_FROM_NS, row, ts_ns);
}

void see_thread(struct reader *reader, int64_t ts_ns, int32_t tid, int32_t pid, struct text comm)
{
    struct table *table = reader->tables.threads;
    struct thread *thread;
    uint32_t name;
    bool is_new;

    if (!table || tid == NO_INT32)
        return;
    thread = thread_of(&reader->threads, tid, &is_new);
    if (!thread)
        return;
    // A line without a name adds information only to a thread without a name.
    if (!comm.at && !is_new && (thread->comm != NO_STRING || pid == NO_INT32 || pid == thread->pid))
        return;
    name = comm.at ? string_number(reader->recent_comms, table->strings, comm) : NO_STRING;
    if (!is_new && thread->comm == name && ts_ns >= thread->last_ns && (pid == NO_INT32 || pid == thread->pid)) {
        thread->last_ns = ts_ns;
        return;
    }
    if (!is_new && thread->last_ns != thread->first_ns)
        write_thread(table, thread, thread->last_ns);
    *thread = (struct thread){tid, pid, name, ts_ns, ts_ns};
    write_thread(table, thread, ts_ns);
}

// Writes the last row of each thread until the table is full; true when all are written.
API bool text_threads(struct reader *reader)
{
    struct threads *threads = &reader->threads;

    for (; threads->flushed < threads->count; threads->flushed++) {
        const struct thread *thread = &threads->rows[threads->flushed];

        if (thread->last_ns == thread->first_ns)
            continue;
        if (table_is_full(reader->tables.threads))
            return false;
        write_thread(reader->tables.threads, thread, thread->last_ns);
    }
    return true;
}
