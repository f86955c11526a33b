// Positions of open files, as far as the calls show them.
#pragma once

#include "calls/state.h"

void position_begin(struct calls *calls, int32_t descriptor, bool *is_alone, uint32_t *version);

// Moves the position by `bytes` after a call. Returns the position before it, or NO_INT64.
int64_t position_move(struct calls *calls, int32_t descriptor, bool is_alone, uint32_t version, int64_t bytes);
void position_seek(struct calls *calls, const struct running *call);

// Records that bytes were read up to the current position.
void position_reach(struct calls *calls, int32_t descriptor);

// Sets the position to unknown.
void position_lose(struct calls *calls, int32_t descriptor);
