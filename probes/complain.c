#define _GNU_SOURCE
#include "complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int complain(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return -1;
}
