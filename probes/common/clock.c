#include "common/base.h"

#define READINGS 16

int64_t clock_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_offset(clockid_t other)
{
    int64_t narrowest = INT64_MAX, offset = 0;
    for (int reading = 0; reading < READINGS; reading++) {
        int64_t before = clock_now(CLOCK_RECORD);
        int64_t between = clock_now(other);
        int64_t width = clock_now(CLOCK_RECORD) - before;
        if (width < narrowest) {
            narrowest = width;
            offset = between - (before + width / 2);
        }
    }
    return offset;
}
