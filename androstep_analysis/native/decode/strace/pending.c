// Joins interrupted calls: from "<unfinished ...>" until the line that resumes them, in the same log.
#include "decode/strace/strace.h"

#include <stdlib.h>

static const size_t MAX_PENDING_BYTES = (size_t)256 << 20;

static void forget(struct strace *strace, struct task *task)
{
    strace->pending_bytes -= task->pending.length;
    free(task->pending.text);
    task->pending = (struct pending){0};
    task->is_pending = false;
}

static struct text text_of(const struct task *task)
{
    return (struct text){task->pending.text, task->pending.text + task->pending.length};
}

static bool has_row(const struct strace *strace, const struct task *task)
{
    return task->is_pending && task->pending.table_number == strace->table_number;
}

void pending_append(struct strace *strace, struct table *table, struct task *task)
{
    struct call_text call;

    if (!has_row(strace, task) && split_call(text_of(task), &call))
        call_append(strace, table, &call, task, STATE_UNFINISHED, task->pending.ts_ns, task->pending.line);
    strace->counts.unfinished++;
    forget(strace, task);
}

static bool keep_text(struct strace *strace, struct task *task, struct text text)
{
    uint8_t *copy = strace->pending_bytes + text_length(text) <= MAX_PENDING_BYTES ? malloc(text_length(text)) : NULL;

    if (!copy)
        return false;
    memcpy(copy, text.at, text_length(text));
    strace->pending_bytes += text_length(text) - task->pending.length;
    free(task->pending.text);
    task->pending.text = copy;
    task->pending.length = text_length(text);
    return true;
}

bool pending_keep(struct strace *strace, struct table *table, struct task *task, struct text text, int64_t ts_ns)
{
    struct call_text call;

    if (!split_call(text, &call))
        return false;
    if (task->is_pending)
        pending_append(strace, table, task);
    task->pending.ts_ns = ts_ns;
    task->pending.line = (int64_t)strace->counts.lines;
    task->pending.row = table->rows;
    task->pending.table_number = strace->table_number;
    task->is_pending = keep_text(strace, task, text);
    strace->counts.forgotten += !task->is_pending;
    return call_append(strace, table, &call, task, STATE_UNFINISHED, ts_ns, task->pending.line);
}

// Strips `words` from the end of a line.
static bool take_words(struct text *text, const char *words)
{
    if (!text_ends(*text, words))
        return false;
    text->end -= strlen(words);
    *text = text_trimmed(*text);
    return true;
}

bool take_unfinished(struct text *text)
{
    return take_words(text, "<unfinished ...>") || take_words(text, "<detached ...>") ||
           take_words(text, "<pid changed to ...>");
}

// Finds the task whose call is resumed. strace prints the id of a thread only once it traces several: a call may
// begin on a line without a thread and end on one with it.
static struct task *beginner(struct strace *strace, struct task *task)
{
    struct task *nameless;

    if (task->is_pending || task->tid == NO_INT32 || strace->default_tid != NO_INT32)
        return task;
    nameless = task_find(strace, NO_INT32);
    return nameless && nameless->is_pending ? nameless : task;
}

static bool is_call(const struct task *task, struct text name)
{
    struct text text = text_of(task);

    return text_length(text) > text_length(name) && !memcmp(text.at, name.at, text_length(name)) &&
           text.at[text_length(name)] == '(';
}

// Appends the end of a call that began before the log did, or under another name.
static bool append_end(struct strace *strace, struct table *table, const struct line *line, struct text name,
                       struct text tail, int64_t ts_ns)
{
    static const uint8_t OPENING[] = "(";
    struct call_text call;
    struct text text;

    strace->counts.resumed++;
    return scratch_join(&strace->scratch, name, (struct text){OPENING, OPENING + 1}, &text) &&
           scratch_join(&strace->joined, text, tail, &text) && split_call(text, &call) &&
           call_append(strace, table, &call, line->task, STATE_RESUMED, ts_ns, (int64_t)strace->counts.lines);
}

bool pending_resume(struct strace *strace, struct table *table, const struct line *line)
{
    static const char RESUMED[] = " resumed>", UNFINISHED[] = "<unfinished ...>";
    struct text name = {line->text.at + strlen("<... "), NULL}, text, tail;
    const uint8_t *resumed = text_find(line->text, RESUMED);
    struct call_text call;
    struct task *first;
    int64_t ts_ns = row_time(strace, line->ts_ns);
    enum syscall_state state;
    bool is_read, died;
    size_t row;

    if (!resumed || resumed < name.at)
        return false;
    name.end = resumed;
    tail = (struct text){resumed + strlen(RESUMED), line->text.end};
    while (tail.at < tail.end && *tail.at == ' ')
        tail.at++;
    died = text_starts(tail, UNFINISHED) && !text_is(tail, UNFINISHED);
    if (died) // <unfinished ...>) = ?
        tail.at += strlen(UNFINISHED);
    first = beginner(strace, line->task);
    if (!first->is_pending || !is_call(first, name))
        return append_end(strace, table, line, name, tail, ts_ns);
    if (!scratch_join(&strace->joined, text_of(first), tail, &text))
        return false;
    if (take_unfinished(&text)) // interrupted once more
        return keep_text(strace, first, text);
    state = died ? STATE_UNFINISHED : STATE_WHOLE;
    row = has_row(strace, first) ? first->pending.row : table->rows;
    is_read = split_call(text, &call) &&
              call_write(strace, table, row, &call, line->task, state, first->pending.ts_ns, first->pending.line);
    if (is_read && row == table->rows)
        table_row(table);
    if (is_read && !died && strace->counts.is_timed && ((int64_t *)table->values[SYSCALL_DURATION_NS])[row] == NO_INT64)
        put_int64(table, SYSCALL_DURATION_NS, row, ts_ns - first->pending.ts_ns);
    strace->counts.unfinished += died;
    forget(strace, first);
    return is_read;
}

void pending_find_oldest(struct strace *strace)
{
    int64_t oldest = NO_TIME;

    for (int i = 0; i < strace->nr_tasks; i++) {
        const struct task *task = &strace->tasks[i];

        if (task->is_pending && (oldest == NO_TIME || task->pending.ts_ns < oldest))
            oldest = task->pending.ts_ns;
    }
    strace->counts.pending_ns = oldest;
}

// Returns the number of calls in the table that may still return, and their rows, at most `capacity`. Skip these rows
// when draining the table: they are appended again when the calls return.
API size_t strace_pending(const struct strace *strace, size_t capacity, int64_t *rows)
{
    size_t count = 0;

    for (int i = 0; i < strace->nr_tasks; i++) {
        if (!has_row(strace, &strace->tasks[i]))
            continue;
        if (count < capacity)
            rows[count] = (int64_t)strace->tasks[i].pending.row;
        count++;
    }
    return count;
}
