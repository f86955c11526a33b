/* Test results in the Test Anything Protocol. */
#pragma once

#include "common/base.h"
#include <stdarg.h>

static int tap_points, tap_failures;

/* Print one test point, named by `format`. Returns `passed`. */
__attribute__((format(printf, 2, 3))) static inline bool tap_ok(bool passed, const char *format, ...)
{
    va_list arguments;

    printf("%sok %d - ", passed ? "" : "not ", ++tap_points);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    tap_failures += !passed;
    return passed;
}

/* Print the plan after the test points. Returns the exit status. */
static inline int tap_done(void)
{
    printf("1..%d\n", tap_points);
    return tap_failures ? 1 : 0;
}
