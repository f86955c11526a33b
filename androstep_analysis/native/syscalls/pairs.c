// Builds system calls from the events at their beginning and end, and from the events of paths, files and tasks in
// between.
//
// Events must have the order in which their thread caused them.
#include "core/array.h"
#include "core/map.h"
#include "core/table.h"
#include "syscalls/call_events.h"
#include "syscalls/rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { STRINGS_ROOM = 64 << 20 };

struct pair_counts {
    uint64_t forgotten; // calls with a missing result that must have ended, because another one followed
    uint64_t nameless;  // events with an unknown call number
    uint64_t narrow;    // events with a call number of a 32-bit program, which are ignored
    int64_t pending_ns; // start of the oldest running call; NO_INT64: none
    struct {
        int64_t ts_ns;
        uint32_t call;
        int32_t tid;
    } first_forgotten;
};

struct pairs {
    struct call_rows rows;
    struct pending *threads;
    size_t nr_threads;
    size_t room;
    size_t finished; // threads whose last calls have rows
    struct map thread_of;
    struct map calls;    // by index of the name in the input
    struct map texts_in; // by index in the input
    struct map narrow;   // processes with 32-bit programs on a 64-bit machine
    struct pair_counts counts;
    const struct table *in;
};

API void pairs_free(struct pairs *pairs)
{
    map_free(&pairs->thread_of);
    map_free(&pairs->calls);
    map_free(&pairs->texts_in);
    map_free(&pairs->narrow);
    rows_free(&pairs->rows);
    free(pairs->threads);
    free(pairs);
}

API struct pairs *pairs_new(const struct knowledge *knowledge)
{
    struct pairs *pairs = calloc(1, sizeof(*pairs));

    if (!pairs)
        return NULL;
    pairs->rows.knowledge = *knowledge;
    pairs->rows.texts = strings_new();
    if (pairs->rows.texts)
        return pairs;
    pairs_free(pairs);
    return NULL;
}

// Set the input table, whose strings are new.
API void pairs_input(struct pairs *pairs, const struct table *events)
{
    pairs->in = events;
    map_free(&pairs->calls);
    map_free(&pairs->texts_in);
}

// Set the output table, whose strings are new.
API void pairs_output(struct pairs *pairs, struct table *calls)
{
    rows_output(&pairs->rows, calls);
}

// --- reading an event ------------------------------------------------------------------------------------------------

static int64_t int64_at(const struct table *table, size_t column, size_t row)
{
    return ((const int64_t *)table->values[column])[row];
}

static int32_t int32_at(const struct table *table, size_t column, size_t row)
{
    return ((const int32_t *)table->values[column])[row];
}

static uint32_t uint32_at(const struct table *table, size_t column, size_t row)
{
    return ((const uint32_t *)table->values[column])[row];
}

// Return the index in `texts` of a text of the input.
static uint32_t text_in(struct pairs *pairs, uint32_t number)
{
    const uint8_t *text;
    uint64_t *place;
    size_t length;

    if (number == NO_STRING)
        return NO_STRING;
    place = map_add(&pairs->texts_in, 0, number);
    if (!place)
        return NO_STRING;
    if (!*place) {
        text = strings_text(pairs->in->strings, number, &length);
        *place = (uint64_t)strings_add(pairs->rows.texts, text, length) + 1;
    }
    return (uint32_t)(*place - 1);
}

// Return the index of the call with an event's name; NO_STRING if memory runs out.
static uint32_t call_of_name(struct pairs *pairs, uint32_t number)
{
    uint64_t *place = map_add(&pairs->calls, 0, number);
    const uint8_t *text;
    uint32_t call;
    size_t length;

    if (!place)
        return NO_STRING;
    if (!*place) {
        text = strings_text(pairs->in->strings, number, &length);
        call = strings_add(pairs->rows.knowledge.names, text, length);
        *place = (uint64_t)(call < pairs->rows.knowledge.nr_calls ? pairs->rows.knowledge.calls[call].name : call) + 1;
    }
    return (uint32_t)(*place - 1);
}

static uint32_t call_at(struct pairs *pairs, size_t row)
{
    enum { NAME_ROOM = 40 };
    uint32_t name = uint32_at(pairs->in, CALL_EVENT_CALL, row);
    int64_t number = int64_at(pairs->in, CALL_EVENT_NUMBER, row);
    char text[NAME_ROOM];
    int length;

    if (name != NO_STRING)
        return call_of_name(pairs, name);
    if (number >= 0 && (uint64_t)number < pairs->rows.knowledge.nr_numbers &&
        pairs->rows.knowledge.numbers[number] != NO_STRING)
        return pairs->rows.knowledge.numbers[number];
    pairs->counts.nameless++;
    length = number == NO_INT64 ? snprintf(text, sizeof(text), "syscall")
                                : snprintf(text, sizeof(text), "syscall_0x%llx", (unsigned long long)number);
    return strings_add(pairs->rows.knowledge.names, (const uint8_t *)text, (size_t)length);
}

static struct pending *thread_at(struct pairs *pairs, size_t row)
{
    int32_t tid = int32_at(pairs->in, CALL_EVENT_TID, row);
    uint64_t *place;

    if (!array_reserve(&pairs->threads, pairs->nr_threads, &pairs->room, sizeof(*pairs->threads)))
        return NULL;
    place = map_add(&pairs->thread_of, 0, (uint32_t)tid);
    if (!place)
        return NULL;
    if (!*place) {
        pairs->threads[pairs->nr_threads] = (struct pending){.tid = tid};
        *place = ++pairs->nr_threads;
    }
    return &pairs->threads[*place - 1];
}

// --- events ---------------------------------------------------------------------------------------------------------

static void add_path(struct pairs *pairs, struct pending *thread, int64_t place, uint32_t number)
{
    if (thread->nr_paths < MAX_PATHS)
        thread->paths[thread->nr_paths++] = (struct path_argument){place, text_in(pairs, number)};
}

// Add the paths in an event itself; if `place` is NO_INT64, they have the order of the arguments.
static void add_paths(struct pairs *pairs, struct pending *thread, size_t row, int64_t place)
{
    uint32_t first = uint32_at(pairs->in, CALL_EVENT_PATH, row), second = uint32_at(pairs->in, CALL_EVENT_PATH2, row);

    if (first != NO_STRING || second != NO_STRING)
        add_path(pairs, thread, place, first);
    if (second != NO_STRING)
        add_path(pairs, thread, place, second);
}

static void count_forgotten(struct pair_counts *counts, const struct pending *thread)
{
    if (!counts->forgotten++) {
        counts->first_forgotten.ts_ns = thread->ts_ns;
        counts->first_forgotten.call = thread->call;
        counts->first_forgotten.tid = thread->tid;
    }
}

// Give up a call without an end event when another one begins: its end was not recorded.
static void give_up(struct pairs *pairs, struct pending *thread)
{
    if (!thread->is_begun)
        return;
    if (!(call_numbered(&pairs->rows.knowledge, thread->call)->flags & CALL_NO_RETURN))
        count_forgotten(&pairs->counts, thread);
    put_unfinished(&pairs->rows, thread);
    thread->is_begun = false;
}

static void begin(struct pairs *pairs, struct pending *thread, size_t row, uint32_t call)
{
    const struct table *in = pairs->in;

    give_up(pairs, thread);
    *thread = (struct pending){
        .ts_ns = int64_at(in, CALL_EVENT_TS_NS, row),
        .task_flags = NO_INT64,
        .call = call,
        .comm = text_in(pairs, uint32_at(in, CALL_EVENT_COMM, row)),
        .tid = thread->tid,
        .pid = int32_at(in, CALL_EVENT_PID, row),
        .is_begun = true,
    };
    for (size_t n = 0; n < CALL_ARGUMENTS; n++)
        thread->arguments[n] = int64_at(in, CALL_EVENT_ARGUMENT0 + n, row);
    add_paths(pairs, thread, row, NO_INT64);
}

// Add the end of a call without a beginning. In a task created by the call, only its end occurs; this is not a row.
static void end_alone(struct pairs *pairs, const struct pending *thread, size_t row, uint32_t call)
{
    const struct table *in = pairs->in;
    int64_t result = int64_at(in, CALL_EVENT_RESULT, row);
    struct pending resumed = {
        .ts_ns = int64_at(in, CALL_EVENT_TS_NS, row),
        .call = call,
        .comm = text_in(pairs, uint32_at(in, CALL_EVENT_COMM, row)),
        .tid = thread->tid,
        .pid = int32_at(in, CALL_EVENT_PID, row),
    };

    if (call_numbered(&pairs->rows.knowledge, call)->flags & CALL_MAKES && !result)
        return;
    put_resumed(&pairs->rows, &resumed, result);
}

static void end(struct pairs *pairs, struct pending *thread, size_t row, uint32_t call)
{
    const struct table *in = pairs->in;

    if (thread->call != call)
        give_up(pairs, thread);
    if (!thread->is_begun) {
        end_alone(pairs, thread, row, call);
        return;
    }
    put_whole(&pairs->rows, thread, int64_at(in, CALL_EVENT_TS_NS, row), int64_at(in, CALL_EVENT_RESULT, row));
    thread->is_begun = false;
}

// Add a file that was opened. Of several files without descriptors, the last one is that of the call.
static void add_file(struct pairs *pairs, struct pending *thread, size_t row, bool has_descriptor)
{
    const struct table *in = pairs->in;
    struct opened_file file = {
        .ino = int64_at(in, CALL_EVENT_INO, row),
        .size = NO_INT64,
        .fd = NO_INT32,
        .mode = NO_INT32,
        .dev = uint32_at(in, CALL_EVENT_DEV, row),
        .path = text_in(pairs, uint32_at(in, CALL_EVENT_PATH, row)),
    };

    if (has_descriptor) {
        file.fd = (int32_t)(uint32_t)(uint64_t)int64_at(in, CALL_EVENT_ARGUMENT0, row);
        if (int64_at(in, CALL_EVENT_ARGUMENT1, row) != NO_INT64)
            file.mode = (int32_t)(uint32_t)(uint64_t)int64_at(in, CALL_EVENT_ARGUMENT1, row);
        file.size = int64_at(in, CALL_EVENT_ARGUMENT2, row);
        if (thread->nr_files && thread->files[0].fd == NO_INT32)
            thread->nr_files = 0;
        if (thread->nr_files < MAX_FILES)
            thread->files[thread->nr_files++] = file;
    } else if (!thread->nr_files || thread->files[0].fd == NO_INT32) {
        thread->files[0] = file;
        thread->nr_files = 1;
    }
}

// Mark a process as using call numbers of 32-bit programs, as long as it runs this program.
API bool pairs_narrow(struct pairs *pairs, int32_t pid)
{
    uint64_t *place = map_add(&pairs->narrow, 0, (uint32_t)pid);

    if (place)
        *place = 1;
    return place;
}

static bool is_narrow(const struct pairs *pairs, size_t row)
{
    int32_t pid = int32_at(pairs->in, CALL_EVENT_PID, row);

    return pairs->narrow.count && map_value(&pairs->narrow, 0, (uint32_t)pid);
}

// Track 32-bit programs: a new process runs the program of its parent until it executes another one.
static void follow_program(struct pairs *pairs, size_t row, enum call_phase phase)
{
    enum { CLONE_THREAD = 0x10000 };
    const struct table *in = pairs->in;

    if (!is_narrow(pairs, row))
        return;
    if (phase == PHASE_EXEC)
        map_remove(&pairs->narrow, 0, (uint32_t)int32_at(in, CALL_EVENT_PID, row));
    else if (!(int64_at(in, CALL_EVENT_ARGUMENT0, row) & CLONE_THREAD))
        pairs_narrow(pairs, (int32_t)int64_at(in, CALL_EVENT_ARGUMENT1, row));
}

// Add information about a running call.
static void learn(struct pairs *pairs, struct pending *thread, size_t row, enum call_phase phase)
{
    const struct table *in = pairs->in;
    int64_t first = int64_at(in, CALL_EVENT_ARGUMENT0, row);

    if (!thread->is_begun)
        return;
    if (phase == PHASE_TASK) {
        thread->task_flags = first;
    } else if (phase == PHASE_FILE || phase == PHASE_DESCRIPTOR) {
        add_file(pairs, thread, row, phase == PHASE_DESCRIPTOR && first != NO_INT64);
    } else if (phase == PHASE_PATH) {
        add_paths(pairs, thread, row, first);
    }
}

static uint32_t moved(struct strings *to, const struct strings *from, uint32_t number)
{
    const uint8_t *text;
    size_t length;

    if (number == NO_STRING)
        return NO_STRING;
    text = strings_text(from, number, &length);
    return strings_add(to, text, length);
}

// Rebuild the strings with only the texts of running calls, because new texts may arrive forever.
static void renew_texts(struct pairs *pairs)
{
    struct strings *texts = strings_new();

    if (!texts)
        return;
    for (size_t n = 0; n < pairs->nr_threads; n++) {
        struct pending *thread = &pairs->threads[n];

        if (!thread->is_begun)
            continue;
        thread->comm = moved(texts, pairs->rows.texts, thread->comm);
        for (uint32_t path = 0; path < thread->nr_paths; path++)
            thread->paths[path].text = moved(texts, pairs->rows.texts, thread->paths[path].text);
        for (uint32_t file = 0; file < thread->nr_files; file++)
            thread->files[file].path = moved(texts, pairs->rows.texts, thread->files[file].path);
    }
    rows_texts(&pairs->rows, texts);
    map_free(&pairs->texts_in);
}

static void take_event(struct pairs *pairs, struct pending *thread, size_t row)
{
    enum call_phase phase = ((const uint8_t *)pairs->in->values[CALL_EVENT_PHASE])[row];
    uint32_t call;

    if (phase == PHASE_TASK || phase == PHASE_EXEC)
        follow_program(pairs, row, phase);
    if (phase != PHASE_ENTER && phase != PHASE_EXIT) {
        learn(pairs, thread, row, phase);
        return;
    }
    if (uint32_at(pairs->in, CALL_EVENT_CALL, row) == NO_STRING && is_narrow(pairs, row)) {
        pairs->counts.narrow++;
        return;
    }
    call = call_at(pairs, row);
    if (call == NO_STRING)
        return;
    if (phase == PHASE_ENTER)
        begin(pairs, thread, row, call);
    else
        end(pairs, thread, row, call);
}

// Process the events from row `row` of the input until its end, or until the output is full. Returns the next row.
API size_t pairs_take(struct pairs *pairs, size_t row)
{
    enum { ROWS_OF_AN_EVENT = 2 };

    if (strings_bytes(pairs->rows.texts) > STRINGS_ROOM)
        renew_texts(pairs);
    for (; row < pairs->in->rows && pairs->rows.out->capacity - pairs->rows.out->rows >= ROWS_OF_AN_EVENT; row++) {
        struct pending *thread = thread_at(pairs, row);

        if (thread)
            take_event(pairs, thread, row);
    }
    return row;
}

// Write rows of the calls that did not return, after the last event. Returns false if the output is full.
API bool pairs_finish(struct pairs *pairs)
{
    for (; pairs->finished < pairs->nr_threads; pairs->finished++) {
        if (!pairs->threads[pairs->finished].is_begun)
            continue;
        if (table_is_full(pairs->rows.out))
            return false;
        put_unfinished(&pairs->rows, &pairs->threads[pairs->finished]);
        pairs->threads[pairs->finished].is_begun = false;
    }
    return true;
}

API const struct pair_counts *pairs_counts(struct pairs *pairs)
{
    pairs->counts.pending_ns = NO_INT64;
    for (size_t n = 0; n < pairs->nr_threads; n++) {
        const struct pending *thread = &pairs->threads[n];

        if (thread->is_begun && (pairs->counts.pending_ns == NO_INT64 || thread->ts_ns < pairs->counts.pending_ns))
            pairs->counts.pending_ns = thread->ts_ns;
    }
    return &pairs->counts;
}
