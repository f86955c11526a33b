// Reads a log of strace, line by line.
#include "decode/strace/strace.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_OF_A_LINE = 4 };

static const uint8_t NAMELESS[] = {'?', '?', '?'};

static void note(struct strace *strace, struct text text)
{
    uint32_t string = strings_add(strace->notes, text.at, text_length(text));

    if (string < MAX_NOTES)
        strace->note_counts[string]++;
}

// Counts --- SIGCHLD {si_signo=...} --- or +++ exited with 0 +++ by its first two words.
static void count_note(struct strace *strace, struct table *table, const struct line *line)
{
    struct text words = line->text;
    const uint8_t *space = NULL;

    if (text_length(words) > 4)
        space = memchr(words.at + 4, ' ', text_length(words) - 4);
    if (space)
        words.end = space;
    note(strace, words);
    if (strace->has_calls)
        row_time(strace, line->ts_ns);
    if (*words.at != '+')
        return;
    if (line->task->is_pending)
        pending_append(strace, table, line->task);
    task_end(strace, line->task);
}

// Checks for a call that strace could not name, because the task was killed before. It was never carried out.
static bool is_nameless(struct text text)
{
    bool is_end = text_starts(text, "<... ");
    size_t marks = 0;

    text.at += is_end ? strlen("<... ") : 0;
    while (text.at < text.end && *text.at == '?') {
        text.at++;
        marks++;
    }
    return marks >= 3 && text_starts(text, is_end ? " resumed>" : "(");
}

// Checks for strace's own messages: attached threads, limitations, stack traces (-k) and the summary (-c).
static bool is_remark(struct strace *strace, struct text text)
{
    bool in_summary = strace->in_summary;

    if (text_starts(text, "% time "))
        strace->in_summary = true;
    else if (text_ends(text, " total"))
        strace->in_summary = false;
    return text.at >= text.end || in_summary || strace->in_summary || text_starts(text, "strace: ") ||
           text_starts(text, " > ") ||
           (text_starts(text, "Process ") &&
            (text_ends(text, " attached") || text_ends(text, " detached") || text_ends(text, " resumed") ||
             text_ends(text, " suspended") || text_ends(text, " to quit"))) ||
           (text_starts(text, "[ Process PID=") && text_ends(text, " ]"));
}

static void count_unreadable(struct strace *strace, struct text text)
{
    if (!strace->counts.unreadable++) {
        strace->counts.first_length = (uint32_t)(text_length(text) < SHOWN_BYTES ? text_length(text) : SHOWN_BYTES);
        memcpy(strace->counts.first, text.at, strace->counts.first_length);
    }
}

// Finds the message on a new thread that strace wrote into the middle of a line.
static const uint8_t *attached_in(struct text text)
{
    const uint8_t *attached = NULL;

    if (text_ends(text, " attached")) {
        attached = text_find(text, "strace: Process ");
        if (!attached)
            attached = text_find(text, "Process ");
    }
    return attached;
}

// Saves a line interrupted by output of strace or the traced program. It may continue on the next line. Its prefix is
// read again then, so the time is reset to the one before it.
static bool save_interrupted(struct strace *strace, struct text text, int64_t time_before_ns)
{
    const uint8_t *attached = attached_in(text);

    strace->time_ns = time_before_ns;
    strace->is_interrupted_by_strace = attached;
    if (attached)
        text.end = attached;
    if (!scratch_reserve(&strace->interrupted, text_length(text)))
        return false;
    strace->interrupted_length = text_length(text);
    memcpy(strace->interrupted.bytes, text.at, strace->interrupted_length);
    return true;
}

static bool parse_line(struct strace *strace, struct table *table, struct text text, bool may_be_interrupted)
{
    struct text whole_line = text;
    int64_t time_before_ns = strace->time_ns;
    struct call_text call;
    struct line line;

    if (!tasks_reserve(strace) || !take_leader(strace, text, &line))
        return false;
    text = line.text;
    if (text_starts(text, "--- ") || (text_starts(text, "+++ ") && text_ends(text, "+++"))) {
        count_note(strace, table, &line);
        return true;
    }
    if (is_nameless(text)) {
        note(strace, (struct text){NAMELESS, NAMELESS + sizeof NAMELESS});
        return true;
    }
    if (may_be_interrupted && attached_in(text))
        return save_interrupted(strace, whole_line, time_before_ns);
    if (text_starts(text, "<... "))
        return pending_resume(strace, table, &line);
    if (take_unfinished(&text))
        return pending_keep(strace, table, line.task, text, row_time(strace, line.ts_ns));
    if (!split_call(text, &call))
        return false;
    if (!call.whole)
        return may_be_interrupted && save_interrupted(strace, whole_line, time_before_ns);
    if (!call_append(strace, table, &call, line.task, STATE_WHOLE, row_time(strace, line.ts_ns),
                     (int64_t)strace->counts.lines))
        return false;
    if (line.task->is_pending) // a thread has one call at a time
        pending_append(strace, table, line.task);
    return true;
}

// Checks whether a line continues a call that output of the program interrupted, by how the rest of a call begins.
static bool continues(struct text text)
{
    return text_starts(text, ")") || text_starts(text, ", ") || text_starts(text, " <unfinished ...>") ||
           text_starts(text, " => ");
}

// Checks whether a line, after any prefix, begins with a call, the end of one or a note. The rest of a call can look
// like anything else.
static bool is_begun(struct text text)
{
    struct call_text call;

    while (text.at < text.end && (is_digit(*text.at) || strchr("[:.+() ", *text.at))) {
        const uint8_t *closing = *text.at == '[' ? memchr(text.at, ']', text_length(text)) : NULL;

        text.at = (closing ? closing : text.at) + 1;
    }
    return split_call(text, &call) || text_starts(text, "<... ") || text_starts(text, "--- ") ||
           text_starts(text, "+++ ");
}

static void read_line(struct strace *strace, struct table *table, struct text text)
{
    struct text joined;

    strace->counts.lines++;
    strace->order++;
    text = (struct text){text.at, text.end - (text.at < text.end && text.end[-1] == '\r')};
    if (strace->interrupted_length) {
        struct text interrupted = {strace->interrupted.bytes, strace->interrupted.bytes + strace->interrupted_length};
        bool is_continued = strace->is_interrupted_by_strace ? !is_begun(text) : continues(text);

        if (attached_in(text) == text.at) // another message in the middle of the same line
            return;
        strace->interrupted_length = 0;
        if (is_continued && scratch_join(&strace->continued, interrupted, text, &joined) &&
            parse_line(strace, table, joined, false))
            return;
        count_unreadable(strace, interrupted);
    }
    if (!is_remark(strace, text) && !parse_line(strace, table, text, true))
        count_unreadable(strace, text);
}

// --- for Python -----------------------------------------------------------------------------------------------------

API struct strace *strace_new(int32_t tid, int64_t order, struct strings *notes);
API void strace_free(struct strace *strace);
API size_t strace_decode(struct strace *strace, const uint8_t *data, size_t length, bool is_last, struct table *table);
API bool strace_finish(struct strace *strace, struct table *table);
API const struct strace_counts *strace_counts(const struct strace *strace);
API uint64_t strace_note_count(const struct strace *strace, size_t note);

// Creates the reader of a log of thread `tid` (NO_INT32: unknown). `order` counts the lines of the set before it.
struct strace *strace_new(int32_t tid, int64_t order, struct strings *notes)
{
    struct strace *strace = calloc(1, sizeof(*strace));

    _Static_assert(MAX_CALLS >= 256, "a table of names can have as many");
    if (!strace)
        return NULL;
    strace->names = call_names_new();
    strace->notes = notes;
    strace->default_tid = tid;
    strace->order = order;
    strace->last_task = NO_TASK;
    strace->last_of_day = NO_TIME;
    strace->counts.first_ns = strace->counts.last_ns = strace->counts.pending_ns = NO_TIME;
    if (strace->names && tasks_grow(strace))
        return strace;
    strace_free(strace);
    return NULL;
}

void strace_free(struct strace *strace)
{
    if (!strace)
        return;
    for (int i = 0; i < strace->nr_tasks; i++)
        free(strace->tasks[i].pending.text);
    free(strace->tasks);
    free(strace->slots);
    free(strace->names);
    free(strace->scratch.bytes);
    free(strace->joined.bytes);
    free(strace->continued.bytes);
    free(strace->interrupted.bytes);
    free(strace);
}

// Checks whether a last line without a newline is complete.
static bool is_whole(struct text text)
{
    return text_ends(text, "+++") || text_ends(text, " ---") || text_ends(text, "<unfinished ...>");
}

// Resets per-table state: Python may have drained the table since the last call, and changed its strings.
static void take_table(struct strace *strace, const struct table *table)
{
    for (size_t i = 0; i < MAX_CALLS; i++)
        strace->call_numbers[i] = NO_STRING;
    strace->table_number += table->rows == 0;
}

// Reads lines until the input ends or the table is full. Returns how many bytes were read.
size_t strace_decode(struct strace *strace, const uint8_t *data, size_t length, bool is_last, struct table *table)
{
    const uint8_t *at = data, *end = data + length;

    take_table(strace, table);
    while (at < end && table->capacity - table->rows >= ROWS_OF_A_LINE) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        struct text text = {at, newline ? newline : end};

        if (!newline && !is_last)
            break;
        at = newline ? newline + 1 : end;
        if (newline || is_whole(text))
            read_line(strace, table, text);
        else
            strace->counts.torn++;
    }
    pending_find_oldest(strace);
    return (size_t)(at - data);
}

// Appends the calls that never returned; false if the table is full.
bool strace_finish(struct strace *strace, struct table *table)
{
    if (strace->interrupted_length)
        count_unreadable(
            strace, (struct text){strace->interrupted.bytes, strace->interrupted.bytes + strace->interrupted_length});
    strace->interrupted_length = 0;
    take_table(strace, table);
    for (int i = 0; i < strace->nr_tasks; i++) {
        if (!strace->tasks[i].is_pending)
            continue;
        if (table_is_full(table))
            return false;
        pending_append(strace, table, &strace->tasks[i]);
    }
    return true;
}

const struct strace_counts *strace_counts(const struct strace *strace)
{
    return &strace->counts;
}

uint64_t strace_note_count(const struct strace *strace, size_t note)
{
    return note < MAX_NOTES ? strace->note_counts[note] : 0;
}
