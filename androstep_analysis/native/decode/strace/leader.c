// Reads the prefix of a line of strace: thread, time, number of the call and instruction pointer.
#include "decode/strace/strace.h"

static const int64_t DAY_NS = INT64_C(86400) * 1000000000;

static bool has_digit(const struct text *text, size_t offset)
{
    return text_length(*text) > offset && is_digit(text->at[offset]);
}

static int64_t wall_clock(struct strace *strace, int64_t of_day)
{
    if (strace->last_of_day != NO_TIME && of_day < strace->last_of_day - DAY_NS / 2)
        strace->days_ns += DAY_NS;
    strace->last_of_day = of_day;
    return strace->days_ns + of_day;
}

// Reads 12:34:56[.123456], 1700000000.123456, or the seconds since the last line (-r). An absolute time may be followed
// by the seconds since the last line.
static int64_t take_timestamp(struct strace *strace, struct text *text)
{
    enum { SMALLEST_UNIX_SECONDS = 100000000 };
    struct text at = *text;
    int64_t hours = -1, minutes = -1, ns;
    bool has_point;

    if (!has_digit(&at, 0))
        return NO_TIME;
    if (text_length(at) > 8 && at.at[2] == ':' && at.at[5] == ':' && has_digit(&at, 1) && has_digit(&at, 3) &&
        has_digit(&at, 4)) {
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
    if (text_starts(at, "(+")) {
        const uint8_t *closing = memchr(at.at, ')', text_length(at));

        if (closing)
            at.at = closing + 1;
    }
    skip_blanks(&at);
    *text = at;
    strace->time_ns = ns;
    return ns;
}

static void name_task(struct task *task, struct text *text)
{
    struct text inner;

    if (!task || !take_decoration(text, &inner))
        return;
    task->comm_length = text_length(inner) < COMM_BYTES ? text_length(inner) : COMM_BYTES;
    memcpy(task->comm, inner.at, task->comm_length);
}

// Reads "[pid 123] ", "[pid 123<name>] ", "123   " or "123<name> "; NULL for none.
static struct task *take_task(struct strace *strace, struct text *text)
{
    enum { LARGEST_TID = 1 << 22 };
    static const char PID[] = "[pid";
    struct text at = *text;
    bool in_brackets = text_starts(at, PID);
    struct task *task;
    int64_t tid;

    if (in_brackets) {
        at.at += strlen(PID);
        skip_blanks(&at);
    }
    if (!has_digit(&at, 0) || !take_integer(&at, &tid) || tid < 0 || tid > LARGEST_TID || at.at >= at.end)
        return NULL;
    if (*at.at != (in_brackets ? ']' : ' ') && *at.at != '<')
        return NULL;
    task = task_live(strace, (int32_t)tid);
    name_task(task, &at);
    if (in_brackets) {
        if (!text_starts(at, "]"))
            return NULL;
        at.at++;
        tasks_retire_nameless(strace);
    }
    skip_blanks(&at);
    *text = at;
    return task;
}

// Skips the number of the call (-n) and the instruction pointer (-i).
static void skip_brackets(struct text *text)
{
    while (text->at < text->end && *text->at == '[') {
        const uint8_t *closing = memchr(text->at, ']', text_length(*text));

        if (!closing)
            return;
        text->at = closing + 1;
        skip_blanks(text);
    }
}

bool take_leader(struct strace *strace, struct text text, struct line *line)
{
    *line = (struct line){.text = text};
    line->task = take_task(strace, &line->text);
    skip_blanks(&line->text);
    line->ts_ns = take_timestamp(strace, &line->text);
    if (!line->task)
        line->task = task_nameless(strace);
    skip_brackets(&line->text);
    return line->task != NULL;
}
