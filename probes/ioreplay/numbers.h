/* Numbers of operations and results. */
#ifndef ANDROSTEP_IOREPLAY_NUMBERS_H
#define ANDROSTEP_IOREPLAY_NUMBERS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/record.h"

static inline bool is_null(int64_t number)
{
    return number == RECORD_NULL_INT64;
}

/* What a system call returned, as results have it. */
static inline int64_t or_errno(int64_t result)
{
    return result < 0 ? -errno : result;
}

#endif
