#define _GNU_SOURCE
#include "common/complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/utf8.h"

/* Capacity for two paths and a sentence about them. */
#define SENTENCE_BYTES 10240

static _Thread_local char last[SENTENCE_BYTES];

int complain(const char *format, ...)
{
    char shown[SENTENCE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(last, sizeof last, format, arguments);
    va_end(arguments);
    utf8_show(shown, sizeof shown, last);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, shown);
    return -1;
}

const char *complained(void)
{
    return last;
}
