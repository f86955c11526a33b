// Reads the log of strace, line by line, into table syscalls.
//
// A line is [thread] [time] [number] [instruction pointer] and then a call with its result, the beginning or the end of
// one that another thread interrupted, a signal (---) or the end of a thread (+++). Which of the first four there are
// depends on strace's options; each line is read for itself.
#include "strace.h"
#include "syscalls.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 80, MAX_NOTES = 256, MAX_CALLS = 512, ROWS_OF_A_LINE = 4, COMM_BYTES = 32 };

static const size_t MAX_PENDING_BYTES = (size_t)256 << 20;
static const int64_t DAY_NS = INT64_C(86400) * 1000000000;
static const int64_t NO_TIME = NO_INT64;
static const int NO_TASK = -1;

// The beginning of a call until its end comes.
struct pending {
    uint8_t *text;
    size_t length;
    int64_t ts_ns;
    int64_t line;
    size_t row; // what is there of it, as long as the table is that of `table_number`
    uint64_t table_number;
};

enum task_kind { TASK_UNKNOWN, TASK_THREAD, TASK_PROCESS };

struct task {
    int32_t tid; // NO_INT32: that of a log that does not name its thread
    int32_t parent;
    uint8_t kind;
    bool is_alive;
    bool is_pending;
    uint8_t comm[COMM_BYTES];
    size_t comm_length;
    struct pending pending;
};

// What Python reads; `first` is the first line that could not be read.
struct strace_counts {
    uint64_t lines;
    uint64_t unreadable;
    uint64_t torn;
    uint64_t unfinished;
    uint64_t resumed;
    uint64_t forgotten;
    int64_t first_ns;
    int64_t last_ns;
    int64_t pending_ns; // when the oldest call that is not yet a row began
    uint8_t is_timed;
    uint8_t first[SHOWN_BYTES];
    uint32_t first_length;
};

struct strace {
    struct strace_counts counts;
    struct call_names *names;
    struct strings *notes; // names of signals and ends, and of threads
    uint64_t note_counts[MAX_NOTES];
    uint32_t call_numbers[MAX_CALLS]; // of the table's strings
    struct scratch scratch;
    struct scratch joined;
    struct scratch mended; // a torn line with the one it goes on in
    struct scratch torn;   // the beginning of a line into which the traced program has written
    size_t torn_length;
    size_t pending_bytes;
    struct task *tasks;
    int nr_tasks;
    int room;
    int *slots; // of tasks by tid; -1: free
    size_t mask;
    int last_task;
    int nr_alive;
    int32_t default_tid;
    int64_t order;         // of the line, in all files of a set
    uint64_t table_number; // how often the table was empty
    int64_t time_ns;
    int64_t days_ns;
    int64_t last_of_day;
    bool has_calls;
    bool in_summary;
};

struct line {
    struct span text;
    struct task *task;
    int64_t ts_ns;
};

// --- threads --------------------------------------------------------------------------------------------------------

enum { FIRST_TASKS = 64, TASKS_OF_LINE = 4 }; // no line names more

static size_t task_slot(const struct strace *strace, int32_t tid)
{
    size_t slot = ((uint32_t)tid * 2654435761u >> 7) & strace->mask;

    while (strace->slots[slot] != NO_TASK && strace->tasks[strace->slots[slot]].tid != tid)
        slot = (slot + 1) & strace->mask;
    return slot;
}

static bool grow_tasks(struct strace *strace)
{
    int room = strace->room ? 2 * strace->room : FIRST_TASKS;
    size_t places = 2 * (size_t)room;
    struct task *tasks = realloc(strace->tasks, (size_t)room * sizeof(*tasks));
    int *slots;

    if (!tasks)
        return false;
    strace->tasks = tasks;
    slots = malloc(places * sizeof(*slots));
    if (!slots)
        return false;
    free(strace->slots);
    strace->slots = slots;
    strace->mask = places - 1;
    strace->room = room;
    for (size_t slot = 0; slot < places; slot++)
        slots[slot] = NO_TASK;
    for (int number = 0; number < strace->nr_tasks; number++)
        slots[task_slot(strace, tasks[number].tid)] = number;
    return true;
}

// Tasks do not move while a line is read: the task of the line is still needed after its call made others known.
static bool reserve_tasks(struct strace *strace)
{
    return strace->nr_tasks + TASKS_OF_LINE <= strace->room || grow_tasks(strace);
}

static struct task *task_of(struct strace *strace, int32_t tid)
{
    size_t slot;
    struct task *task;

    if (strace->last_task != NO_TASK && strace->tasks[strace->last_task].tid == tid)
        return &strace->tasks[strace->last_task];
    slot = task_slot(strace, tid);
    if (strace->slots[slot] == NO_TASK) {
        if (strace->nr_tasks == strace->room) {
            if (!grow_tasks(strace))
                return NULL;
            slot = task_slot(strace, tid);
        }
        task = &strace->tasks[strace->nr_tasks];
        *task = (struct task){.tid = tid, .parent = NO_INT32};
        strace->slots[slot] = strace->nr_tasks++;
    }
    strace->last_task = strace->slots[slot];
    return &strace->tasks[strace->last_task];
}

static struct task *live_task(struct strace *strace, int32_t tid)
{
    struct task *task = task_of(strace, tid);

    if (task && !task->is_alive) {
        task->is_alive = true;
        strace->nr_alive++;
    }
    return task;
}

// strace names threads on a terminal only where it traces several: a line without a name is of the only one.
static struct task *nameless_task(struct strace *strace)
{
    if (strace->nr_alive == 1 && strace->last_task != NO_TASK && strace->tasks[strace->last_task].is_alive)
        return &strace->tasks[strace->last_task];
    if (strace->nr_alive == 1)
        for (int number = strace->nr_tasks; number-- > 0;)
            if (strace->tasks[number].is_alive)
                return task_of(strace, strace->tasks[number].tid);
    return live_task(strace, strace->default_tid);
}

static void end_task(struct strace *strace, struct task *task)
{
    strace->nr_alive -= task->is_alive;
    task->is_alive = false;
}

// Once threads have names, the one without is one of them.
static void retire_nameless(struct strace *strace)
{
    int number = strace->slots[task_slot(strace, NO_INT32)];

    if (number != NO_TASK)
        end_task(strace, &strace->tasks[number]);
}

// --- the beginning of a line ----------------------------------------------------------------------------------------

static void skip_blanks(struct span *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

static bool is_digit(const struct span *text, size_t place)
{
    return span_length(*text) > place && text->at[place] >= '0' && text->at[place] <= '9';
}

static int64_t wall_clock(struct strace *strace, int64_t of_day)
{
    if (strace->last_of_day != NO_TIME && of_day < strace->last_of_day - DAY_NS / 2)
        strace->days_ns += DAY_NS;
    strace->last_of_day = of_day;
    return strace->days_ns + of_day;
}

// 12:34:56[.123456], 1700000000.123456, or the seconds since the last line (-r); a time and those since the last line.
static int64_t take_time(struct strace *strace, struct span *text)
{
    enum { SMALLEST_UNIX_SECONDS = 100000000 };
    struct span at = *text;
    int64_t hours = -1, minutes = -1, ns;
    bool has_point;

    if (!is_digit(&at, 0))
        return NO_TIME;
    if (span_length(at) > 8 && at.at[2] == ':' && at.at[5] == ':' && is_digit(&at, 1) && is_digit(&at, 3) &&
        is_digit(&at, 4)) {
        hours = (at.at[0] - '0') * 10 + (at.at[1] - '0');
        minutes = (at.at[3] - '0') * 10 + (at.at[4] - '0');
        at.at += 6;
    }
    if (!take_seconds(&at, &ns, &has_point) || at.at >= at.end || *at.at != ' ')
        return NO_TIME;
    if (hours >= 0)
        ns = wall_clock(strace, ns + (hours * 60 + minutes) * 60 * 1000000000);
    else if (ns / 1000000000 < SMALLEST_UNIX_SECONDS && !has_point)
        return NO_TIME;
    else if (ns / 1000000000 < SMALLEST_UNIX_SECONDS && __builtin_add_overflow(ns, strace->time_ns, &ns))
        return NO_TIME;
    skip_blanks(&at);
    if (span_starts(at, "(+")) {
        const uint8_t *closing = memchr(at.at, ')', span_length(at));

        if (closing)
            at.at = closing + 1;
    }
    skip_blanks(&at);
    *text = at;
    strace->time_ns = ns;
    return ns;
}

static void name_task(struct task *task, struct span *text)
{
    struct span inner;

    if (!task || !take_decoration(text, &inner))
        return;
    task->comm_length = span_length(inner) < COMM_BYTES ? span_length(inner) : COMM_BYTES;
    memcpy(task->comm, inner.at, task->comm_length);
}

// "[pid 123] ", "[pid 123<name>] ", "123   " or "123<name> "; NULL for none.
static struct task *take_task(struct strace *strace, struct span *text)
{
    enum { LARGEST_TID = 1 << 22 };
    static const char PID[] = "[pid";
    struct span at = *text;
    bool in_brackets = span_starts(at, PID);
    struct task *task;
    int64_t tid;

    if (in_brackets) {
        at.at += strlen(PID);
        skip_blanks(&at);
    }
    if (!is_digit(&at, 0) || !take_number(&at, &tid) || tid < 0 || tid > LARGEST_TID || at.at >= at.end)
        return NULL;
    if (*at.at != (in_brackets ? ']' : ' ') && *at.at != '<')
        return NULL;
    task = live_task(strace, (int32_t)tid);
    name_task(task, &at);
    if (in_brackets) {
        if (!span_starts(at, "]"))
            return NULL;
        at.at++;
        retire_nameless(strace);
    }
    skip_blanks(&at);
    *text = at;
    return task;
}

// The number of the call (-n) and the instruction pointer (-i).
static void skip_brackets(struct span *text)
{
    while (text->at < text->end && *text->at == '[') {
        const uint8_t *closing = memchr(text->at, ']', span_length(*text));

        if (!closing)
            return;
        text->at = closing + 1;
        skip_blanks(text);
    }
}

static bool take_beginning(struct strace *strace, struct span text, struct line *line)
{
    *line = (struct line){.text = text};
    line->task = take_task(strace, &line->text);
    skip_blanks(&line->text);
    line->ts_ns = take_time(strace, &line->text);
    if (!line->task)
        line->task = nameless_task(strace);
    skip_brackets(&line->text);
    return line->task != NULL;
}

// The time of a row: lines without one have that of the line before; in a log without times it is their order.
static int64_t time_of_row(struct strace *strace, int64_t ts_ns)
{
    if (!strace->has_calls) {
        strace->has_calls = true;
        strace->counts.is_timed = ts_ns != NO_TIME;
    }
    if (!strace->counts.is_timed)
        return strace->order;
    if (ts_ns == NO_TIME)
        ts_ns = strace->time_ns;
    if (strace->counts.first_ns == NO_TIME || ts_ns < strace->counts.first_ns)
        strace->counts.first_ns = ts_ns;
    if (strace->counts.last_ns == NO_TIME || ts_ns > strace->counts.last_ns)
        strace->counts.last_ns = ts_ns;
    return ts_ns;
}

// --- rows -----------------------------------------------------------------------------------------------------------

// = 3</path> (note), = -1 ENOENT (No such file or directory), = ? ERESTARTSYS (...), each with <seconds> behind it.
static bool put_result(struct strace *strace, struct table *table, size_t row, struct span text)
{
    struct span inner, word;
    bool has_number, has_point;
    int64_t result = 0, number;

    text = span_trimmed(text);
    if (text.at >= text.end || *text.at != '=')
        return false;
    if (text.end[-1] == '>') {
        struct span seconds = {text.end, text.end - 1};

        for (; seconds.at - text.at > 1 && *seconds.at != '<'; seconds.at--)
            ;
        seconds.at++;
        if (seconds.at[-1] == '<' && seconds.at[-2] == ' ' && take_seconds(&seconds, &number, &has_point) &&
            seconds.at == seconds.end) {
            put_int64(table, SYSCALL_DURATION_NS, row, number);
            while (*text.end != '<')
                text.end--;
        }
    }
    text.at++;
    skip_blanks(&text);
    has_number = take_number(&text, &result);
    if (!has_number && (text.at >= text.end || (*text.at != '?' && !span_starts(text, "<unavailable>"))))
        return false;
    if (!has_number)
        text.at++;
    if (take_decoration(&text, &inner)) {
        struct span decorated = {inner.at - 2, inner.end + 1};

        put_fd(table, row, decorated, SYSCALL_NONE, SYSCALL_RESULT_PATH, SYSCALL_NONE, &strace->scratch);
    }
    skip_blanks(&text);
    word = (struct span){text.at, text.at};
    while (word.end < text.end && *word.end != ' ' && *word.end != '\t')
        word.end++;
    if (word.at < word.end && *word.at == 'E' && (!has_number || result == -1)) {
        put_string(table, SYSCALL_ERROR, row, word.at, span_length(word));
        number = errno_find(strace->names, word);
        has_number = number != 0;
        result = -number;
    } else if (has_number && result == -1 && span_starts(text, "(errno ")) {
        text.at += strlen("(errno ");
        if (take_number(&text, &number) && number > 0)
            result = -number;
    }
    if (has_number)
        put_int64(table, SYSCALL_RESULT, row, result);
    return true;
}

static void put_name(struct strace *strace, struct table *table, size_t row, int number, struct span name)
{
    if (number >= 0 && strace->call_numbers[number] != NO_STRING) {
        put_uint32(table, SYSCALL_CALL, row, strace->call_numbers[number]);
        return;
    }
    put_string(table, SYSCALL_CALL, row, name.at, span_length(name));
    if (number >= 0)
        strace->call_numbers[number] = ((uint32_t *)table->values[SYSCALL_CALL])[row];
}

// What a clone, fork or execve that returned says of threads and processes.
static void learn(struct strace *strace, const struct table *table, size_t row, const struct call_text *call,
                  int32_t tid)
{
    int64_t result = ((const int64_t *)table->values[SYSCALL_RESULT])[row];
    struct span name = call->name;
    struct task *task;

    if (*name.at == 'e' && result == 0 && span_starts(name, "execve")) {
        task = task_of(strace, tid);
        if (task && task->kind == TASK_UNKNOWN)
            task->kind = TASK_PROCESS;
    } else if (result > 0 && result <= INT32_MAX && (span_starts(name, "clone") || span_ends(name, "fork"))) {
        task = task_of(strace, (int32_t)result);
        if (!task)
            return;
        task->parent = tid;
        task->kind = span_find((struct span){name.end, call->rest.at}, "CLONE_THREAD") ? TASK_THREAD : TASK_PROCESS;
    }
}

// Puts a call into row `row`, with what of it is there; false where that makes no call.
static bool put_call_at(struct strace *strace, struct table *table, size_t row, const struct call_text *call,
                        const struct task *task, enum syscall_state state, int64_t ts_ns, int64_t line)
{
    int number;

    if (state != STATE_UNFINISHED && (!call->whole || !put_result(strace, table, row, call->rest))) {
        put_int64(table, SYSCALL_DURATION_NS, row, NO_INT64);
        return false;
    }
    number = call_names_find(strace->names, call->name);
    put_int64(table, SYSCALL_TS_NS, row, ts_ns);
    put_int64(table, SYSCALL_LINE, row, line);
    put_int32(table, SYSCALL_TID, row, task->tid);
    if (task->comm_length)
        put_string(table, SYSCALL_COMM, row, task->comm, task->comm_length);
    put_name(strace, table, row, number, call->name);
    put_code(table, SYSCALL_STATE, row, (uint8_t)state);
    if (number >= 0 && state != STATE_RESUMED) // of one that resumes the first arguments are missing
        put_arguments(table, row, number, call, &strace->scratch);
    if (state == STATE_WHOLE)
        learn(strace, table, row, call, task->tid);
    return true;
}

// Puts a call into a new row. The table is as before where that makes no call.
static bool put_call(struct strace *strace, struct table *table, const struct call_text *call, const struct task *task,
                     enum syscall_state state, int64_t ts_ns, int64_t line)
{
    if (!put_call_at(strace, table, table->rows, call, task, state, ts_ns, line))
        return false;
    table_row(table);
    return true;
}

// --- calls that other threads interrupt -----------------------------------------------------------------------------

static void forget(struct strace *strace, struct task *task)
{
    strace->pending_bytes -= task->pending.length;
    free(task->pending.text);
    task->pending = (struct pending){0};
    task->is_pending = false;
}

static bool has_row(const struct strace *strace, const struct task *task)
{
    return task->is_pending && task->pending.table_number == strace->table_number;
}

// The beginning of a call whose end never came.
static void put_unfinished(struct strace *strace, struct table *table, struct task *task)
{
    struct span text = {task->pending.text, task->pending.text + task->pending.length};
    struct call_text call;

    if (!has_row(strace, task) && split_call(text, &call))
        put_call(strace, table, &call, task, STATE_UNFINISHED, task->pending.ts_ns, task->pending.line);
    strace->counts.unfinished++;
    forget(strace, task);
}

static bool keep_text(struct strace *strace, struct task *task, struct span text)
{
    uint8_t *copy = strace->pending_bytes + span_length(text) <= MAX_PENDING_BYTES ? malloc(span_length(text)) : NULL;

    if (!copy)
        return false;
    memcpy(copy, text.at, span_length(text));
    strace->pending_bytes += span_length(text) - task->pending.length;
    free(task->pending.text);
    task->pending.text = copy;
    task->pending.length = span_length(text);
    return true;
}

// Keeps the beginning of a call, which has a row already: most come back before the table is full, and rows stay in
// the order in which calls begin. Where there is no memory for it, the row is all there will be.
static bool keep(struct strace *strace, struct table *table, struct task *task, struct span text, int64_t ts_ns)
{
    struct call_text call;

    if (!split_call(text, &call))
        return false;
    if (task->is_pending)
        put_unfinished(strace, table, task);
    task->pending.ts_ns = ts_ns;
    task->pending.line = (int64_t)strace->counts.lines;
    task->pending.row = table->rows;
    task->pending.table_number = strace->table_number;
    task->is_pending = keep_text(strace, task, text);
    strace->counts.forgotten += !task->is_pending;
    return put_call(strace, table, &call, task, STATE_UNFINISHED, ts_ns, task->pending.line);
}

static bool join(struct scratch *joined, struct span first, struct span second, struct span *text)
{
    if (!scratch_reserve(joined, span_length(first) + span_length(second)))
        return false;
    memcpy(joined->bytes, first.at, span_length(first));
    memcpy(joined->bytes + span_length(first), second.at, span_length(second));
    *text = (struct span){joined->bytes, joined->bytes + span_length(first) + span_length(second)};
    return true;
}

// Takes "<unfinished ...>" from the end of a line.
static bool take_unfinished(struct span *text, const char *words)
{
    if (!span_ends(*text, words))
        return false;
    text->end -= strlen(words);
    *text = span_trimmed(*text);
    return true;
}

static bool ends_unfinished(struct span *text)
{
    return take_unfinished(text, "<unfinished ...>") || take_unfinished(text, "<detached ...>") ||
           take_unfinished(text, "<pid changed to ...>");
}

// strace follows the name of a thread that appears first on a line of its own with that of the thread that made it: a
// call that began on a line without a name can end on one with it.
static struct task *beginner(struct strace *strace, struct task *task)
{
    size_t slot;

    if (task->is_pending || task->tid == NO_INT32 || strace->default_tid != NO_INT32 || !strace->nr_tasks)
        return task;
    slot = task_slot(strace, NO_INT32);
    if (strace->slots[slot] == NO_TASK || !strace->tasks[strace->slots[slot]].is_pending)
        return task;
    return &strace->tasks[strace->slots[slot]];
}

static bool is_call(const struct task *task, struct span name)
{
    struct span text = {task->pending.text, task->pending.text + task->pending.length};

    return span_length(text) > span_length(name) && !memcmp(text.at, name.at, span_length(name)) &&
           text.at[span_length(name)] == '(';
}

// <... read resumed>"abc", 3) = 3
static bool put_resumed(struct strace *strace, struct table *table, struct line *line)
{
    static const char RESUMED[] = " resumed>", UNFINISHED[] = "<unfinished ...>";
    struct span name = {line->text.at + strlen("<... "), NULL}, text, tail;
    const uint8_t *resumed = span_find(line->text, RESUMED);
    struct call_text call;
    struct task *first;
    int64_t ts_ns = time_of_row(strace, line->ts_ns);
    enum syscall_state state;
    bool is_read, died;
    size_t row;

    if (!resumed || resumed < name.at)
        return false;
    name.end = resumed;
    tail = (struct span){resumed + strlen(RESUMED), line->text.end};
    while (tail.at < tail.end && *tail.at == ' ')
        tail.at++;
    died = span_starts(tail, UNFINISHED) && !span_is(tail, UNFINISHED);
    if (died) // <unfinished ...>) = ?
        tail.at += strlen(UNFINISHED);
    first = beginner(strace, line->task);
    if (!first->is_pending || !is_call(first, name)) { // it began before the log did, or under another name
        static const uint8_t OPENING[] = "(";

        strace->counts.resumed++;
        return join(&strace->scratch, name, (struct span){OPENING, OPENING + 1}, &text) &&
               join(&strace->joined, text, tail, &text) && split_call(text, &call) &&
               put_call(strace, table, &call, line->task, STATE_RESUMED, ts_ns, (int64_t)strace->counts.lines);
    }
    if (!join(&strace->joined, (struct span){first->pending.text, first->pending.text + first->pending.length}, tail,
              &text))
        return false;
    if (ends_unfinished(&text)) // and interrupted once more
        return keep_text(strace, first, text);
    state = died ? STATE_UNFINISHED : STATE_WHOLE;
    row = has_row(strace, first) ? first->pending.row : table->rows;
    is_read = split_call(text, &call) &&
              put_call_at(strace, table, row, &call, line->task, state, first->pending.ts_ns, first->pending.line);
    if (is_read && row == table->rows)
        table_row(table);
    if (is_read && !died && strace->counts.is_timed && ((int64_t *)table->values[SYSCALL_DURATION_NS])[row] == NO_INT64)
        put_int64(table, SYSCALL_DURATION_NS, row, ts_ns - first->pending.ts_ns);
    strace->counts.unfinished += died;
    forget(strace, first);
    return is_read;
}

// --- lines ----------------------------------------------------------------------------------------------------------

static void note(struct strace *strace, struct span text)
{
    uint32_t number = strings_add(strace->notes, text.at, span_length(text));

    if (number < MAX_NOTES)
        strace->note_counts[number]++;
}

// --- SIGCHLD {si_signo=...} --- or +++ exited with 0 +++: its first two words.
static void put_note(struct strace *strace, struct table *table, const struct line *line)
{
    struct span words = line->text;
    const uint8_t *space = NULL;

    if (span_length(words) > 4)
        space = memchr(words.at + 4, ' ', span_length(words) - 4);
    if (space)
        words.end = space;
    note(strace, words);
    if (strace->has_calls)
        time_of_row(strace, line->ts_ns);
    if (*words.at != '+')
        return;
    if (line->task->is_pending)
        put_unfinished(strace, table, line->task);
    end_task(strace, line->task);
}

// What strace itself says: of threads, of what it cannot do, where a call came from (-k), and its summary (-c).
static bool is_remark(struct strace *strace, struct span text)
{
    bool in_summary = strace->in_summary;

    if (span_starts(text, "% time "))
        strace->in_summary = true;
    else if (span_ends(text, " total"))
        strace->in_summary = false;
    return text.at >= text.end || in_summary || strace->in_summary || span_starts(text, "strace: ") ||
           span_starts(text, " > ") ||
           (span_starts(text, "Process ") &&
            (span_ends(text, " attached") || span_ends(text, " detached") || span_ends(text, " resumed") ||
             span_ends(text, " suspended") || span_ends(text, " to quit"))) ||
           (span_starts(text, "[ Process PID=") && span_ends(text, " ]"));
}

static void count_unreadable(struct strace *strace, struct span text)
{
    if (!strace->counts.unreadable++) {
        strace->counts.first_length = (uint32_t)(span_length(text) < SHOWN_BYTES ? span_length(text) : SHOWN_BYTES);
        memcpy(strace->counts.first, text.at, strace->counts.first_length);
    }
}

// Whether strace has told of a new thread in the middle of the line.
static const uint8_t *attached_in(struct span text)
{
    const uint8_t *attached = NULL;

    if (span_ends(text, " attached")) {
        attached = span_find(text, "strace: Process ");
        if (!attached)
            attached = span_find(text, "Process ");
    }
    return attached;
}

// Keeps a line into which the traced program or strace has written: it can go on in the next one.
static bool keep_torn(struct strace *strace, struct span text)
{
    const uint8_t *attached = attached_in(text);

    if (attached)
        text.end = attached;
    if (!scratch_reserve(&strace->torn, span_length(text)))
        return false;
    strace->torn_length = span_length(text);
    memcpy(strace->torn.bytes, text.at, strace->torn_length);
    return true;
}

static bool put_line(struct strace *strace, struct table *table, struct span text, bool can_be_torn)
{
    struct span whole_line = text;
    struct call_text call;
    struct line line;

    if (!reserve_tasks(strace) || !take_beginning(strace, text, &line))
        return false;
    text = line.text;
    if (span_starts(text, "--- ") || (span_starts(text, "+++ ") && span_ends(text, "+++"))) {
        put_note(strace, table, &line);
        return true;
    }
    if (can_be_torn && attached_in(text))
        return keep_torn(strace, whole_line);
    if (span_starts(text, "<... "))
        return put_resumed(strace, table, &line);
    if (ends_unfinished(&text))
        return keep(strace, table, line.task, text, time_of_row(strace, line.ts_ns));
    if (!split_call(text, &call))
        return false;
    if (!call.whole)
        return can_be_torn && keep_torn(strace, whole_line);
    if (!put_call(strace, table, &call, line.task, STATE_WHOLE, time_of_row(strace, line.ts_ns),
                  (int64_t)strace->counts.lines))
        return false;
    if (line.task->is_pending) // a thread has one call at a time
        put_unfinished(strace, table, line.task);
    return true;
}

// Whether the line goes on with one that was torn.
static bool continues(struct span text)
{
    return span_starts(text, ")") || span_starts(text, ", ") || span_starts(text, " <unfinished ...>") ||
           span_starts(text, " => ");
}

static void read_line(struct strace *strace, struct table *table, struct span text)
{
    struct span joined;

    strace->counts.lines++;
    strace->order++;
    if (strace->torn_length) {
        struct span torn = {strace->torn.bytes, strace->torn.bytes + strace->torn_length};
        bool goes_on = continues(text);

        strace->torn_length = 0;
        if (goes_on && join(&strace->mended, torn, text, &joined) && put_line(strace, table, joined, false))
            return;
        count_unreadable(strace, torn);
    }
    text = (struct span){text.at, text.end - (text.at < text.end && text.end[-1] == '\r')};
    if (!is_remark(strace, text) && !put_line(strace, table, text, true))
        count_unreadable(strace, text);
}

// --- for Python -----------------------------------------------------------------------------------------------------

API struct strace *strace_new(int32_t tid, int64_t order, struct strings *notes);
API void strace_free(struct strace *strace);
API size_t strace_decode(struct strace *strace, const uint8_t *data, size_t length, bool is_last, struct table *table);
API size_t strace_pending(const struct strace *strace, size_t room, int64_t *rows);
API bool strace_finish(struct strace *strace, struct table *table);
API const struct strace_counts *strace_counts(const struct strace *strace);
API uint64_t strace_note_count(const struct strace *strace, size_t note);
API size_t strace_tasks(const struct strace *strace, size_t room, int32_t *tids, int32_t *parents, uint8_t *kinds,
                        uint32_t *comms);

// A reader of the log of thread `tid` (NO_INT32: not known), whose first line is the one after `order` in its set.
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
    if (strace->names && grow_tasks(strace))
        return strace;
    strace_free(strace);
    return NULL;
}

void strace_free(struct strace *strace)
{
    if (!strace)
        return;
    for (int number = 0; number < strace->nr_tasks; number++)
        free(strace->tasks[number].pending.text);
    free(strace->tasks);
    free(strace->slots);
    free(strace->names);
    free(strace->scratch.bytes);
    free(strace->joined.bytes);
    free(strace->mended.bytes);
    free(strace->torn.bytes);
    free(strace);
}

static void find_oldest(struct strace *strace)
{
    int64_t oldest = NO_TIME;

    for (int number = 0; number < strace->nr_tasks; number++) {
        const struct task *task = &strace->tasks[number];

        if (task->is_pending && (oldest == NO_TIME || task->pending.ts_ns < oldest))
            oldest = task->pending.ts_ns;
    }
    strace->counts.pending_ns = oldest;
}

// A last line without an end is whole where its own end shows that.
static bool is_whole(struct span text)
{
    return span_ends(text, "+++") || span_ends(text, " ---") || span_ends(text, "<unfinished ...>");
}

// Reads lines until the input or the table is full and returns how many bytes those have.
size_t strace_decode(struct strace *strace, const uint8_t *data, size_t length, bool is_last, struct table *table)
{
    const uint8_t *at = data, *end = data + length;

    for (size_t number = 0; number < MAX_CALLS; number++)
        strace->call_numbers[number] = NO_STRING;
    strace->table_number += table->rows == 0;
    while (at < end && table->capacity - table->rows >= ROWS_OF_A_LINE) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        struct span text = {at, newline ? newline : end};

        if (!newline && !is_last)
            break;
        at = newline ? newline + 1 : end;
        if (newline || is_whole(text))
            read_line(strace, table, text);
        else
            strace->counts.torn++;
    }
    find_oldest(strace);
    return (size_t)(at - data);
}

// How many rows of the table are calls that may still return, and, where there is room for them, which: they are to be
// left out where the table is emptied, and come again.
size_t strace_pending(const struct strace *strace, size_t room, int64_t *rows)
{
    size_t count = 0;

    for (int number = 0; number < strace->nr_tasks; number++) {
        if (!has_row(strace, &strace->tasks[number]))
            continue;
        if (count < room)
            rows[count] = (int64_t)strace->tasks[number].pending.row;
        count++;
    }
    return count;
}

// Puts the calls that never returned; false where there are more than the table has room for.
bool strace_finish(struct strace *strace, struct table *table)
{
    if (strace->torn_length)
        count_unreadable(strace, (struct span){strace->torn.bytes, strace->torn.bytes + strace->torn_length});
    strace->torn_length = 0;
    strace->table_number += table->rows == 0;
    for (int number = 0; number < strace->nr_tasks; number++) {
        if (!strace->tasks[number].is_pending)
            continue;
        if (table_is_full(table))
            return false;
        put_unfinished(strace, table, &strace->tasks[number]);
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

// How many threads there are, and, where there is room for them, what the log says of them.
size_t strace_tasks(const struct strace *strace, size_t room, int32_t *tids, int32_t *parents, uint8_t *kinds,
                    uint32_t *comms)
{
    for (size_t number = 0; number < (size_t)strace->nr_tasks && number < room; number++) {
        const struct task *task = &strace->tasks[number];

        tids[number] = task->tid;
        parents[number] = task->parent;
        kinds[number] = task->kind;
        comms[number] = task->comm_length ? strings_add(strace->notes, task->comm, task->comm_length) : NO_STRING;
    }
    return (size_t)strace->nr_tasks;
}
