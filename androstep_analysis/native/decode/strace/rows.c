// Makes rows of table syscalls from calls and their results.
#include "decode/strace/strace.h"

int64_t row_time(struct strace *strace, int64_t ts_ns)
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

// Strips the duration " <0.000123>" from the end of a result; false without one.
static bool take_duration(struct text *text, int64_t *duration)
{
    struct text seconds = {text->end - 1, text->end - 1};
    const uint8_t *opening;
    bool has_point;

    if (*seconds.end != '>')
        return false;
    while (seconds.at - text->at > 1 && *seconds.at != '<')
        seconds.at--;
    opening = seconds.at++;
    if (*opening != '<' || opening[-1] != ' ' || !take_seconds(&seconds, duration, &has_point) ||
        seconds.at != seconds.end)
        return false;
    text->end = opening;
    return true;
}

// Stores a result: = 3</path> (note), = -1 ENOENT (No such file or directory), = ? ERESTARTSYS (...), each with an
// optional <seconds> at the end.
static bool put_result(struct strace *strace, struct table *table, size_t row, struct text text)
{
    struct text inner, word;
    bool has_number;
    int64_t result = 0, number;

    text = text_trimmed(text);
    if (text.at >= text.end || *text.at != '=')
        return false;
    if (take_duration(&text, &number))
        put_int64(table, SYSCALL_DURATION_NS, row, number);
    text.at++;
    skip_blanks(&text);
    has_number = take_integer(&text, &result);
    if (!has_number && (text.at >= text.end || (*text.at != '?' && !text_starts(text, "<unavailable>"))))
        return false;
    if (!has_number)
        text.at++;
    if (take_decoration(&text, &inner)) {
        struct text decorated = {inner.at - 2, inner.end + 1};

        put_fd(table, row, decorated, SYSCALL_NONE, SYSCALL_RESULT_PATH, SYSCALL_NONE, &strace->scratch);
    }
    skip_blanks(&text);
    word = (struct text){text.at, text.at};
    while (word.end < text.end && *word.end != ' ' && *word.end != '\t')
        word.end++;
    if (word.at < word.end && *word.at == 'E' && (!has_number || result == -1)) {
        put_string(table, SYSCALL_ERROR, row, word.at, text_length(word));
        number = errno_find(strace->names, word);
        has_number = number != 0;
        result = -number;
    } else if (has_number && result == -1 && text_starts(text, "(errno ")) {
        text.at += strlen("(errno ");
        if (take_integer(&text, &number) && number > 0)
            result = -number;
    }
    if (has_number)
        put_int64(table, SYSCALL_RESULT, row, result);
    return true;
}

static void put_name(struct strace *strace, struct table *table, size_t row, int number, struct text name)
{
    if (number >= 0 && strace->call_numbers[number] != NO_STRING) {
        put_uint32(table, SYSCALL_CALL, row, strace->call_numbers[number]);
        return;
    }
    put_string(table, SYSCALL_CALL, row, name.at, text_length(name));
    if (number >= 0)
        strace->call_numbers[number] = ((uint32_t *)table->values[SYSCALL_CALL])[row];
}

// Learns threads and processes from a successful clone, fork or execve.
static void learn_tasks(struct strace *strace, const struct table *table, size_t row, const struct call_text *call,
                        int32_t tid)
{
    int64_t result = ((const int64_t *)table->values[SYSCALL_RESULT])[row];
    struct text name = call->name;
    struct task *task;

    if (*name.at == 'e' && result == 0 && text_starts(name, "execve")) {
        task = task_of(strace, tid);
        if (task && task->kind == TASK_UNKNOWN)
            task->kind = TASK_PROCESS;
    } else if (result > 0 && result <= INT32_MAX && (text_starts(name, "clone") || text_ends(name, "fork"))) {
        task = task_of(strace, (int32_t)result);
        if (!task)
            return;
        task->parent = tid;
        task->kind = text_find((struct text){name.end, call->rest.at}, "CLONE_THREAD") ? TASK_THREAD : TASK_PROCESS;
    }
}

bool call_write(struct strace *strace, struct table *table, size_t row, const struct call_text *call,
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
    if (number >= 0 && state != STATE_RESUMED) // the first arguments of a resumed call are missing
        put_arguments(table, row, call_roles(strace->names, number), call, &strace->scratch);
    if (state == STATE_WHOLE)
        learn_tasks(strace, table, row, call, task->tid);
    return true;
}

bool call_append(struct strace *strace, struct table *table, const struct call_text *call, const struct task *task,
                 enum syscall_state state, int64_t ts_ns, int64_t line)
{
    if (!call_write(strace, table, table->rows, call, task, state, ts_ns, line))
        return false;
    table_row(table);
    return true;
}
