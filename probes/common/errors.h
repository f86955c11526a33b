/* Messages of all probes: one sentence on standard error, after the program's name. */
#pragma once

/* Print an error. Always returns -1, so that a function can end with `return print_error(...)`. */
int print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print a warning or a result of a program that continues. */
void print_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return this thread's last error without the program's name, truncated if very long; "" if there was none. */
const char *last_error(void);
