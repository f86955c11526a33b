/* Words and numbers of the kernel's text files. */
#ifndef ANDROSTEP_PROCMON_TEXT_H
#define ANDROSTEP_PROCMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that need no NUL behind them. */
struct span {
    const char *at, *end;
};

static inline size_t span_length(struct span span)
{
    return (size_t)(span.end - span.at);
}

bool span_is(struct span span, const char *text);
bool span_begins(struct span span, const char *text);

/* Take the first line (without its end), or the first word, off `rest`; false: there is none. */
bool text_line(struct span *rest, struct span *line);
bool text_word(struct span *rest, struct span *word);

/* Takes the first word off `rest` as a whole number, decimal or hexadecimal behind 0x; false: it is none that fits, and
 * `rest` is as it was. */
bool text_number(struct span *rest, int64_t *number);

/* What procmon needs of /proc/PID/stat (proc_pid_stat(5)); times in ticks of the clock, memory in pages. */
struct text_stat {
    struct span name; /* between the outer parentheses: it may hold anything */
    int64_t major_faults, user, system, children_user, children_system, threads, started, resident, io_wait;
};

/* False: the text is cut, or is something else. */
bool text_stat(struct span text, struct text_stat *stat);

#endif
