// The descriptors that calls are given.
#pragma once

#include "calls/state.h"

// The descriptor of the program; `path` and `kind` are what the recording says of it. NO_INDEX where none is open.
int32_t descriptor_at(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, uint8_t kind);

// The number is open from now on, and how it came to be is not recorded.
void descriptor_foreign(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, int64_t flags);

struct operation *operation_of(const struct calls *calls, const struct running *call);
