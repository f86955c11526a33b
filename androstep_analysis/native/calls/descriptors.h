// Descriptors that calls use.
#pragma once

#include "calls/state.h"

// Returns the descriptor of the program; NO_INDEX if none is open. `path` and `kind` are what the recording says about
// it.
int32_t descriptor_at(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, uint8_t kind);

// Marks the fd as open although no recorded call opened it.
void descriptor_foreign(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, int64_t flags);

struct operation *operation_of(const struct calls *calls, const struct running *call);
