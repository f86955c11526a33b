// Merges the ring buffer records of all CPUs in order of time. A first run counts them and collects the names of
// threads; a second run decodes them into rows.
#include "decode/ftrace/state.h"

#include <stdlib.h>

// Conversion of record times to nanoseconds, as trace-cmd does it.
struct clock {
    uint32_t multiplier; // 0: times are nanoseconds already
    uint32_t shift;
    int64_t offset_ns;
};

// A name of a thread, or the creation of one. Names are indices of strings.
struct task_event {
    int64_t ts_ns;
    int64_t order;
    uint64_t flags;
    int32_t tid;
    int32_t subject;
    uint32_t name;
    uint32_t new_name;
    uint32_t kind;
    uint32_t pad;
};

// A buffer that Python owns and drains.
struct task_events {
    struct task_event *rows;
    uint64_t count;
    uint64_t capacity;
};

// Names and processes of threads over time. Those of tids[n] are at starts[n] up to starts[n + 1].
struct versions {
    const int32_t *tids;
    const uint32_t *starts;
    uint64_t count;
    const int64_t *from_ns;
    const int32_t *pids;
    const uint32_t *names; // indices of names; NO_STRING for none
};

// A time range in which records of one CPU are missing: lost, or on damaged pages. INT64_MIN: before the first record.
// INT64_MAX: after the last.
struct gap {
    int64_t from_ns;
    int64_t to_ns;
};

// Pages of one CPU of one trace instance.
struct stream {
    struct pages pages;
    struct record record;
    int64_t ts_ns;
    uint64_t nr_missing; // lost records and damaged pages so far
    bool has_begun;
    int32_t cpu;
    uint32_t kind;
    int32_t tid;
    uint32_t thread; // index of tid
    bool is_ended;
};

enum { KINDS = 1 << 16, NO_PROGRAM = UINT16_MAX, NO_CPU = -1 };

struct ftrace {
    struct clock clock;
    struct field kind;
    struct field tid;
    struct stream *streams;
    struct page_totals *totals;
    size_t nr_streams;
    size_t nr_begun;
    uint32_t *heap;
    size_t nr_heap;
    bool needs_pages; // the first stream of the heap has no record
    uint16_t program_of[KINDS];
    uint64_t counts[KINDS];
    const struct program *programs;
    struct code code;
    struct task_events *task_events;
    struct strings *task_names;
    struct threads threads;
    struct versions versions;
    uint32_t *cursors;
    struct gap *gaps;
    size_t nr_gaps;
    bool is_census;
    int64_t order;
    int64_t first_ns;
    int64_t last_ns;
};

// Results of ftrace_run other than the index of a stream that needs more pages.
enum { DONE = -1, FULL = -2 };

API void ftrace_free(struct ftrace *ftrace)
{
    if (!ftrace)
        return;
    threads_free(&ftrace->threads);
    free(ftrace->streams);
    free(ftrace->totals);
    free(ftrace->heap);
    free(ftrace->cursors);
    free(ftrace->gaps);
    free(ftrace);
}

// Creates the decoder of a recording with `nr_streams` CPUs. `kind` and `tid` are the fields common to all events.
API struct ftrace *ftrace_new(size_t nr_streams, const struct field *kind, const struct field *tid,
                              const struct clock *clock)
{
    struct ftrace *ftrace = calloc(1, sizeof(*ftrace));

    if (!ftrace)
        return NULL;
    ftrace->nr_streams = nr_streams;
    ftrace->kind = *kind;
    ftrace->tid = *tid;
    ftrace->clock = *clock;
    ftrace->first_ns = INT64_MAX;
    ftrace->last_ns = INT64_MIN;
    memset(ftrace->program_of, 0xff, sizeof(ftrace->program_of));
    ftrace->streams = calloc(nr_streams + 1, sizeof(*ftrace->streams));
    ftrace->totals = calloc(nr_streams + 1, sizeof(*ftrace->totals));
    ftrace->heap = calloc(nr_streams + 1, sizeof(*ftrace->heap));
    if (ftrace->streams && ftrace->totals && ftrace->heap)
        return ftrace;
    ftrace_free(ftrace);
    return NULL;
}

API void ftrace_stream(struct ftrace *ftrace, size_t index, const struct layout *layout, int32_t cpu)
{
    struct stream *stream = &ftrace->streams[index];

    stream->pages = (struct pages){.layout = *layout, .totals = &ftrace->totals[index]};
    stream->cpu = cpu;
    stream->thread = NO_THREAD;
}

// Selects the program for the records of event `kind`.
API void ftrace_program(struct ftrace *ftrace, uint16_t kind, uint16_t program)
{
    ftrace->program_of[kind] = program;
}

// Sets the programs. The caller owns what the pointers refer to and must keep it alive.
API void ftrace_code(struct ftrace *ftrace, const struct program *programs, const struct code *code)
{
    ftrace->programs = programs;
    ftrace->code = *code;
}

// Selects the first run: count the records and collect names and creations of threads. Names are added to `names`.
API void ftrace_census(struct ftrace *ftrace, struct task_events *task_events, struct strings *names)
{
    ftrace->is_census = true;
    ftrace->task_events = task_events;
    ftrace->task_names = names;
}

// Sets the names of threads for events that do not record their own; false without memory.
API bool ftrace_versions(struct ftrace *ftrace, const struct versions *versions)
{
    ftrace->versions = *versions;
    ftrace->cursors = calloc(versions->count + 1, sizeof(*ftrace->cursors));
    if (!ftrace->cursors)
        return false;
    for (uint64_t n = 0; n < versions->count; n++) {
        if (threads_add(&ftrace->threads, versions->tids[n]) != n) // each tid occurs once
            return false;
        ftrace->cursors[n] = versions->starts[n];
    }
    return true;
}

// Passes pages of a stream, which must stay valid until it asks for more. `size` 0 ends the stream.
API void ftrace_feed(struct ftrace *ftrace, size_t index, const uint8_t *data, size_t size)
{
    struct stream *stream = &ftrace->streams[index];

    if (size)
        pages_feed(&stream->pages, data, size);
    else
        stream->is_ended = true;
}

API const struct page_totals *ftrace_totals(const struct ftrace *ftrace)
{
    return ftrace->totals;
}

API const uint64_t *ftrace_counts(const struct ftrace *ftrace)
{
    return ftrace->counts;
}

// Returns the last name that was seen of each thread of ftrace_threads, and when. NO_STRING: none, or a task event came
// later.
API void ftrace_last_seen(const struct ftrace *ftrace, const uint32_t **names, const int64_t **ts_ns)
{
    *names = ftrace->threads.names;
    *ts_ns = ftrace->threads.named_ns;
}

API size_t ftrace_threads(const struct ftrace *ftrace, const int32_t **tids)
{
    *tids = ftrace->threads.tids;
    return ftrace->threads.count;
}

// Returns the time ranges with missing records, CPU by CPU in no particular order.
API size_t ftrace_gaps(const struct ftrace *ftrace, const struct gap **gaps)
{
    *gaps = ftrace->gaps;
    return ftrace->nr_gaps;
}

// Returns the times of the first and last record.
API void ftrace_span(const struct ftrace *ftrace, int64_t *first_ns, int64_t *last_ns)
{
    *first_ns = ftrace->first_ns;
    *last_ns = ftrace->last_ns;
}

static int64_t nanoseconds(const struct clock *clock, uint64_t ts)
{
    if (clock->multiplier) {
        uint64_t upper = (ts >> 32) * clock->multiplier;
        uint64_t lower = (ts & UINT32_MAX) * clock->multiplier;

        ts =
            (upper << (clock->shift < 32 ? 32 - clock->shift : 0)) + (lower >> (clock->shift < 63 ? clock->shift : 63));
    }
    return (int64_t)(ts + (uint64_t)clock->offset_ns);
}

// Checks whether the array of gaps must grow: its capacity is the next power of two.
static bool is_full(size_t nr_gaps)
{
    return !(nr_gaps & (nr_gaps - 1));
}

// Records a gap if records were lost since the last record of the stream.
static void note_gap(struct ftrace *ftrace, struct stream *stream, int64_t to_ns)
{
    const struct page_totals *totals = stream->pages.totals;
    struct gap gap = {stream->has_begun ? stream->ts_ns : INT64_MIN, to_ns};

    if (!ftrace->is_census || totals->lost + totals->broken == stream->nr_missing)
        return;
    stream->nr_missing = totals->lost + totals->broken;
    if (is_full(ftrace->nr_gaps)) {
        size_t capacity = ftrace->nr_gaps ? 2 * ftrace->nr_gaps : 1;
        struct gap *gaps = realloc(ftrace->gaps, capacity * sizeof(*gaps));

        if (!gaps) { // without memory one gap covers the whole recording
            if (ftrace->nr_gaps)
                ftrace->gaps[0] = (struct gap){INT64_MIN, INT64_MAX};
            return;
        }
        ftrace->gaps = gaps;
    }
    ftrace->gaps[ftrace->nr_gaps++] = gap;
}

// Reads the next record of a stream; false if it needs pages.
static bool stream_next(struct ftrace *ftrace, struct stream *stream)
{
    uint64_t kind, tid;
    bool big = stream->pages.layout.big_endian;

    int64_t ts_ns;

    if (!pages_next(&stream->pages, &stream->record)) {
        if (stream->is_ended)
            note_gap(ftrace, stream, INT64_MAX);
        return false;
    }
    ts_ns = nanoseconds(&ftrace->clock, stream->record.ts);
    note_gap(ftrace, stream, ts_ns);
    stream->ts_ns = ts_ns;
    stream->has_begun = true;
    stream->kind = field_unsigned(&stream->record, &ftrace->kind, big, &kind) ? (uint32_t)kind & (KINDS - 1) : 0;
    if (!field_unsigned(&stream->record, &ftrace->tid, big, &tid))
        tid = 0;
    if ((int32_t)tid != stream->tid || stream->thread == NO_THREAD) {
        stream->tid = (int32_t)tid;
        stream->thread = ftrace->is_census ? threads_add(&ftrace->threads, stream->tid)
                                           : threads_find(&ftrace->threads, stream->tid);
    }
    return true;
}

// --- in order of time -----------------------------------------------------------------------------------------------

static bool is_before(const struct ftrace *ftrace, uint32_t one, uint32_t other)
{
    int64_t a = ftrace->streams[one].ts_ns, b = ftrace->streams[other].ts_ns;

    return a < b || (a == b && one < other);
}

static void sift_down(struct ftrace *ftrace, size_t slot)
{
    uint32_t *heap = ftrace->heap;
    uint32_t moved = heap[slot];

    for (;;) {
        size_t child = 2 * slot + 1;

        if (child >= ftrace->nr_heap)
            break;
        if (child + 1 < ftrace->nr_heap && is_before(ftrace, heap[child + 1], heap[child]))
            child++;
        if (!is_before(ftrace, heap[child], moved))
            break;
        heap[slot] = heap[child];
        slot = child;
    }
    heap[slot] = moved;
}

static void heap_add(struct ftrace *ftrace, uint32_t stream)
{
    uint32_t *heap = ftrace->heap;
    size_t slot = ftrace->nr_heap++;

    while (slot && is_before(ftrace, stream, heap[(slot - 1) / 2])) {
        heap[slot] = heap[(slot - 1) / 2];
        slot = (slot - 1) / 2;
    }
    heap[slot] = stream;
}

static void heap_take_first(struct ftrace *ftrace)
{
    ftrace->heap[0] = ftrace->heap[--ftrace->nr_heap];
    if (ftrace->nr_heap)
        sift_down(ftrace, 0);
}

// --- what is done with a record -------------------------------------------------------------------------------------

static uint32_t task_name(struct ftrace *ftrace, const struct stream *stream, const struct field *field)
{
    struct text text;

    if (!field_text(&stream->record, field, stream->pages.layout.big_endian, &text))
        return NO_STRING;
    return strings_add(ftrace->task_names, text.at, text_length(text));
}

// Records the thread names in the record; false if the buffer is full.
static bool collect_names(struct ftrace *ftrace, const struct stream *stream, const struct program *program)
{
    struct task_events *list = ftrace->task_events;
    bool big = stream->pages.layout.big_endian;
    struct task_event event = {
        .ts_ns = stream->ts_ns, .order = ftrace->order, .tid = stream->tid, .kind = program->kind};
    uint32_t *names = ftrace->threads.names;
    int64_t *named_ns = ftrace->threads.named_ns;
    uint64_t subject = 0;
    uint32_t thread = stream->thread;

    if (list->capacity - list->count < 2)
        return false;
    event.name = task_name(ftrace, stream, &program->name);
    if (program->kind == TASK_EVENT_NONE) {
        if (event.name == NO_STRING || thread == NO_THREAD)
            return true;
        if (names[thread] == event.name) {
            named_ns[thread] = event.ts_ns;
            return true; // the name is already recorded
        }
        if (names[thread] != NO_STRING) {
            struct task_event last = event;

            last.name = names[thread];
            last.ts_ns = named_ns[thread];
            list->rows[list->count++] = last;
        }
        names[thread] = event.name;
        named_ns[thread] = event.ts_ns;
    } else {
        if (!field_unsigned(&stream->record, &program->subject, big, &subject))
            subject = 0;
        field_unsigned(&stream->record, &program->flags, big, &event.flags);
        event.subject = (int32_t)subject;
        event.new_name = task_name(ftrace, stream, &program->new_name);
        thread = threads_find(&ftrace->threads, event.subject);
        if (thread != NO_THREAD)
            names[thread] = NO_STRING;
    }
    list->rows[list->count++] = event;
    return true;
}

// Returns the version of a thread at a time, or NO_THREAD.
static uint32_t version_at(struct ftrace *ftrace, uint32_t thread, int64_t ts_ns)
{
    const struct versions *versions = &ftrace->versions;
    uint32_t start, end, at;

    if (thread == NO_THREAD || thread >= versions->count)
        return NO_THREAD;
    start = versions->starts[thread];
    end = versions->starts[thread + 1];
    if (start == end)
        return NO_THREAD;
    at = ftrace->cursors[thread];
    while (at + 1 < end && versions->from_ns[at + 1] <= ts_ns)
        at++;
    while (at > start && versions->from_ns[at] > ts_ns)
        at--;
    ftrace->cursors[thread] = at;
    return versions->from_ns[at] <= ts_ns ? at : NO_THREAD;
}

// Checks for `rows` free rows in the table of the program.
static bool has_free_rows(const struct ftrace *ftrace, const struct program *program, size_t rows)
{
    enum { MAX_STRINGS_BYTES = 64 << 20 };
    const struct table *table = ftrace->code.targets[program->target].table;

    return table->capacity - table->rows >= rows && strings_bytes(table->strings) <= MAX_STRINGS_BYTES;
}

static const struct program *next_program(const struct ftrace *ftrace, const struct program *program)
{
    return program->next ? &ftrace->programs[program->next] : NULL;
}

static void make_row(struct ftrace *ftrace, const struct stream *stream, const struct program *program)
{
    const struct target *target = &ftrace->code.targets[program->target];
    struct table *table = target->table;
    size_t row = table_row(table);
    uint32_t version;

    put_int64(table, target->ts_ns, row, stream->ts_ns);
    if (target->cpu != NO_COLUMN && stream->cpu != NO_CPU)
        put_int32(table, target->cpu, row, stream->cpu);
    if (target->tid != NO_COLUMN)
        put_int32(table, target->tid, row, stream->tid);
    row_fill(&ftrace->code, program, &stream->record, stream->pages.layout.big_endian, row);
    version = target->tid == NO_COLUMN ? NO_THREAD : version_at(ftrace, stream->thread, stream->ts_ns);
    if (version == NO_THREAD)
        return;
    put_int32(table, target->pid, row, ftrace->versions.pids[version]);
    if (((uint32_t *)table->values[target->comm])[row] == NO_STRING && ftrace->versions.names[version] != NO_STRING)
        put_uint32(table, target->comm, row, target->numbers[ftrace->versions.names[version]]);
}

// Appends the rows of the record; false if one of the tables is full.
static bool decode(struct ftrace *ftrace, const struct stream *stream, const struct program *program)
{
    size_t rows = 0;

    for (const struct program *each = program; each; each = next_program(ftrace, each))
        if (!has_free_rows(ftrace, each, ++rows))
            return false;
    for (; program; program = next_program(ftrace, program))
        make_row(ftrace, stream, program);
    return true;
}

// Processes the record of a stream; false without a free row.
static bool take(struct ftrace *ftrace, struct stream *stream)
{
    uint16_t program_index = ftrace->program_of[stream->kind];

    if (program_index != NO_PROGRAM) {
        const struct program *program = &ftrace->programs[program_index];

        if (!(ftrace->is_census ? collect_names(ftrace, stream, program) : decode(ftrace, stream, program)))
            return false;
    }
    if (ftrace->is_census) {
        ftrace->counts[stream->kind]++;
        stream->pages.totals->records++;
        if (stream->ts_ns < ftrace->first_ns)
            ftrace->first_ns = stream->ts_ns;
        if (stream->ts_ns > ftrace->last_ns)
            ftrace->last_ns = stream->ts_ns;
    }
    ftrace->order++;
    return true;
}

// Processes records in order of time; equal times are in the order of the streams. Returns the index of a stream that
// needs pages, FULL when a table or buffer is full, or DONE when all streams have ended.
API int64_t ftrace_run(struct ftrace *ftrace)
{
    for (; ftrace->nr_begun < ftrace->nr_streams; ftrace->nr_begun++) {
        struct stream *stream = &ftrace->streams[ftrace->nr_begun];

        if (stream_next(ftrace, stream))
            heap_add(ftrace, (uint32_t)ftrace->nr_begun);
        else if (!stream->is_ended)
            return (int64_t)ftrace->nr_begun;
    }
    while (ftrace->nr_heap) {
        uint32_t first = ftrace->heap[0];
        struct stream *stream = &ftrace->streams[first];

        if (!ftrace->needs_pages && !take(ftrace, stream))
            return FULL;
        ftrace->needs_pages = !stream_next(ftrace, stream);
        if (!ftrace->needs_pages) {
            sift_down(ftrace, 0);
        } else if (stream->is_ended) {
            ftrace->needs_pages = false;
            heap_take_first(ftrace);
        } else {
            return first;
        }
    }
    return DONE;
}

// Finds the records in `data`, at most `capacity`, with offsets, sizes and times. Returns their number.
API size_t ftrace_records(const struct layout *layout, const uint8_t *data, size_t size, uint64_t *starts,
                          uint64_t *sizes, uint64_t *times, size_t capacity, struct page_totals *totals)
{
    struct pages pages = {.layout = *layout, .totals = totals};
    struct record record;
    size_t count = 0;

    pages_feed(&pages, data, size);
    while (count < capacity && pages_next(&pages, &record)) {
        starts[count] = (uint64_t)(record.data - data);
        sizes[count] = record.size;
        times[count++] = record.ts;
    }
    return count;
}
