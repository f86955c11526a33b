// Result and flags of the call in a row.
#pragma once

#include "calls/input.h"

bool row_succeeded(const struct calls_input *in, uint32_t row);
bool row_failed_with(const struct calls_input *in, uint32_t row, int64_t error);
int64_t row_flags(const struct calls_input *in, uint32_t row); // includes flags that the call implies
