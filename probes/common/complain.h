/* How every probe says what went wrong: one sentence on standard error, with the program's name before it. */
#ifndef ANDROSTEP_COMMON_COMPLAIN_H
#define ANDROSTEP_COMMON_COMPLAIN_H

/* Always returns -1, so that a function can end with `return complain(...)`. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last sentence of this thread without the program's name, cut where it is very long; "" if there was none. */
const char *complained(void);

#endif
