// Reads system calls as ftrace prints them. The begin and end of a call have one of three forms:
//
//     sys_openat(dfd: ffffff9c, filename: 7ffd1, flags: 0, mode: 0)   the kernel's own text (kernel/trace/
//     sys_openat -> 0x3                                               trace_syscalls.c)
//     sys_enter_openat: dfd: 0xffffff9c, filename: 0x7ffd1, ...       the event's fields, as trace-cmd prints them
//     sys_exit_openat: 0x3
//     sys_enter: NR 257 (ffffff9c, 7ffd1, 0, 0, 0, 0)                 raw_syscalls
//     sys_exit: NR 257 = 3
//
// A new task is printed as "task_newtask: pid=78 comm=x clone_flags=3d0f00 oom_score_adj=0".
#include "decode/text/calls.h"

#include "syscalls/call_events.h"

// Reads a hexadecimal number of at most 64 bits, with or without 0x.
static bool take_hex(struct text *text, int64_t *value)
{
    enum { DIGITS = 16 };
    const uint8_t *start;
    uint64_t number = 0;

    take_word(text, "0x");
    for (start = text->at; text->at < text->end && text->at - start < DIGITS; text->at++) {
        uint8_t byte = *text->at;

        if (is_digit(byte))
            number = number << 4 | (uint64_t)(byte - '0');
        else if (byte >= 'a' && byte <= 'f')
            number = number << 4 | (uint64_t)(byte - 'a' + 10);
        else
            break;
    }
    *value = (int64_t)number;
    return text->at != start;
}

static void skip_past(struct text *text, const char *end)
{
    if (!take_past(text, end))
        text->at = text->end;
}

// Reads the arguments up to the end or a bracket. If `named`, a name and a colon precede each.
static void take_arguments(struct text text, bool named, int64_t *arguments)
{
    for (size_t n = 0; n < CALL_ARGUMENTS && text.at < text.end && *text.at != ')'; n++) {
        if (named)
            skip_past(&text, ": ");
        if (!take_hex(&text, &arguments[n]) || (text.at < text.end && !memchr(",) \r", *text.at, 4)))
            arguments[n] = NO_INT64;
        skip_past(&text, ", ");
    }
}

struct part {
    enum call_phase phase;
    struct text call; // empty if only the number is printed
    int64_t number;
    int64_t arguments[CALL_ARGUMENTS];
    int64_t result;
};

static bool take_raw(struct text text, struct part *part)
{
    uint64_t number;

    if (!take_word(&text, ": ") || (take_spaces(&text), !take_word(&text, "NR ")) || !take_number(&text, &number))
        return false;
    part->number = int64_of(number);
    if (part->phase == PHASE_EXIT)
        return take_word(&text, " = ") && take_signed(&text, &part->result);
    if (!take_word(&text, " ("))
        return false;
    take_arguments(text, false, part->arguments);
    return true;
}

static bool take_event(struct text text, struct part *part)
{
    if (!take_byte(&text, ':'))
        return false;
    take_spaces(&text);
    if (part->phase == PHASE_EXIT)
        return take_hex(&text, &part->result);
    take_arguments(text, true, part->arguments);
    return true;
}

static bool take_kernel_text(struct text text, struct part *part)
{
    if (take_word(&text, " -> ")) {
        part->phase = PHASE_EXIT;
        return take_hex(&text, &part->result);
    }
    part->phase = PHASE_ENTER;
    if (!take_byte(&text, '('))
        return false;
    take_arguments(text, true, part->arguments);
    return true;
}

// Reads the flags at the end of the line. The name of a thread before them may hold any characters.
static bool take_task(struct text text, struct part *part)
{
    static const char FLAGS[] = " clone_flags=";
    struct text at = text;
    bool is_there = false;

    part->phase = PHASE_TASK;
    for (; at.at < at.end; at.at++) {
        struct text rest = at;

        if (*at.at == ' ' && take_word(&rest, FLAGS))
            is_there = take_hex(&rest, &part->arguments[0]);
    }
    return is_there;
}

static bool take_part(struct text event, struct text fields, struct part *part)
{
    struct text name = event;
    bool is_enter = take_word(&name, "sys_enter"), is_exit = !is_enter && take_word(&name, "sys_exit");

    if (text_is(event, "task_newtask"))
        return take_task(fields, part);
    part->phase = is_exit ? PHASE_EXIT : PHASE_ENTER;
    if ((is_enter || is_exit) && name.at == name.end && at_byte(&fields, ':'))
        return take_raw(fields, part);
    if ((is_enter || is_exit) && take_byte(&name, '_') && at_byte(&fields, ':')) {
        part->call = name;
        return take_event(fields, part);
    }
    part->call = (struct text){event.at + strlen("sys_"), event.end};
    return take_kernel_text(fields, part);
}

bool append_call(struct table *table, struct text event, struct text fields, size_t *row)
{
    struct part part = {.number = NO_INT64, .result = NO_INT64};

    for (size_t n = 0; n < CALL_ARGUMENTS; n++)
        part.arguments[n] = NO_INT64;
    if (!take_part(event, fields, &part))
        return false;
    *row = table_row(table);
    put_code(table, CALL_EVENT_PHASE, *row, (uint8_t)part.phase);
    if (part.call.at)
        put_text(table, CALL_EVENT_CALL, *row, part.call);
    put_int64(table, CALL_EVENT_NUMBER, *row, part.number);
    for (size_t n = 0; n < CALL_ARGUMENTS; n++)
        put_int64(table, CALL_EVENT_ARGUMENT0 + n, *row, part.arguments[n]);
    put_int64(table, CALL_EVENT_RESULT, *row, part.result);
    return true;
}
