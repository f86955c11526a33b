// What the row of a call says.
#pragma once

#include "calls/input.h"

bool row_succeeded(const struct calls_input *in, uint32_t row);
bool row_failed_with(const struct calls_input *in, uint32_t row, int64_t error);
int64_t row_flags(const struct calls_input *in, uint32_t row); // also those that the call has without being given them
