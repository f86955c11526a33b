/* Error messages of all probes: one sentence on standard error, after the program's name. */
#ifndef ANDROSTEP_COMMON_COMPLAIN_H
#define ANDROSTEP_COMMON_COMPLAIN_H

/* Print an error message. Always returns -1, so that a function can end with `return complain(...)`. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return this thread's last message without the program's name, truncated if very long; "" if there was none. */
const char *complained(void);

#endif
