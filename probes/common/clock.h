/* Times of the kernel's clocks in nanoseconds, and how two clocks stand to each other. */
#ifndef ANDROSTEP_COMMON_CLOCK_H
#define ANDROSTEP_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The clock of every time in a record stream: it counts from boot, goes on in suspend and is never set. */
#define CLOCK_RECORD CLOCK_BOOTTIME

int64_t clock_now(clockid_t clock);

/* What `other` shows minus what CLOCK_RECORD shows at the same moment: the closest of a few bracketed readings. */
int64_t clock_offset(clockid_t other);

#endif
