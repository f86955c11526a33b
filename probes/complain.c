#define _GNU_SOURCE
#include "complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last[1024];

int complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(last, sizeof last, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return -1;
}

const char *complained(void)
{
    return last;
}
