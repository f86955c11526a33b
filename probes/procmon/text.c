#include "procmon/text.h"

#include <string.h>

bool span_is(struct span span, const char *text)
{
    return span_length(span) == strlen(text) && !memcmp(span.at, text, span_length(span));
}

bool span_begins(struct span span, const char *text)
{
    return span_length(span) >= strlen(text) && !memcmp(span.at, text, strlen(text));
}

bool text_line(struct span *rest, struct span *line)
{
    const char *end;

    if (rest->at == rest->end)
        return false;
    end = memchr(rest->at, '\n', span_length(*rest));
    *line = (struct span){rest->at, end ? end : rest->end};
    rest->at = end ? end + 1 : rest->end;
    return true;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n';
}

bool text_word(struct span *rest, struct span *word)
{
    while (rest->at < rest->end && is_blank(*rest->at))
        rest->at++;
    word->at = rest->at;
    while (rest->at < rest->end && !is_blank(*rest->at))
        rest->at++;
    word->end = rest->at;
    return word->at < word->end;
}

/* The value of a digit; 16 and more: it is none. */
static unsigned int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9')
        return (unsigned int)(byte - '0');
    if (byte >= 'a' && byte <= 'f')
        return (unsigned int)(byte - 'a') + 10;
    if (byte >= 'A' && byte <= 'F')
        return (unsigned int)(byte - 'A') + 10;
    return 16;
}

bool text_number(struct span *rest, int64_t *number)
{
    struct span after = *rest, word;
    unsigned int base = 10;
    int64_t value = 0;
    bool negative;

    if (!text_word(&after, &word))
        return false;
    negative = *word.at == '-';
    word.at += negative;
    if (span_length(word) > 2 && word.at[0] == '0' && word.at[1] == 'x') {
        base = 16;
        word.at += 2;
    }
    if (word.at == word.end)
        return false;
    for (; word.at < word.end; word.at++) {
        unsigned int digit = digit_of(*word.at);

        if (digit >= base || __builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, (int64_t)digit, &value))
            return false;
    }
    *number = negative ? -value : value;
    *rest = after;
    return true;
}

/* Fields are numbered as in proc_pid_stat(5); that behind the name, the state, is no number. */
enum { STATE_FIELD = 3, LAST_FIELD = 42 };

bool text_stat(struct span text, struct text_stat *stat)
{
    const struct {
        int field;
        int64_t *into;
    } wanted[] = {
        {12, &stat->major_faults},    {14, &stat->user},    {15, &stat->system},  {16, &stat->children_user},
        {17, &stat->children_system}, {20, &stat->threads}, {22, &stat->started}, {24, &stat->resident},
        {LAST_FIELD, &stat->io_wait},
    };
    const char *open = memchr(text.at, '(', span_length(text)), *close = text.end;
    struct span rest, word;
    size_t next = 0;

    while (open && close > open && *--close != ')')
        ;
    if (!open || close == open)
        return false;
    stat->name = (struct span){open + 1, close};
    rest = (struct span){close + 1, text.end};
    for (int field = STATE_FIELD; field <= LAST_FIELD; field++) {
        struct span here = rest;

        if (!text_word(&rest, &word))
            return false;
        if (field != wanted[next].field)
            continue;
        if (!text_number(&here, wanted[next++].into))
            return false;
    }
    return true;
}
