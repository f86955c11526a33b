// A call failed if its result is an error. A call without a recorded result counts as successful.
#include "calls/rows.h"

#include "calls/types.h"

bool row_succeeded(const struct calls_input *in, uint32_t row)
{
    return in->failed[row] != 1;
}

bool row_failed_with(const struct calls_input *in, uint32_t row, int64_t error)
{
    return in->failed[row] == 1 && in->result[row] == -error;
}

int64_t row_flags(const struct calls_input *in, uint32_t row)
{
    int64_t flags = in->flags[row];

    return (flags == NO_INT64 ? 0 : flags) | call_type(in->call[row])->flags;
}
