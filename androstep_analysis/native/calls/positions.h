// Positions of open files, as far as the calls tell them.
#pragma once

#include "calls/state.h"

void position_begin(struct calls *calls, int32_t descriptor, bool *is_alone, uint32_t *version);

// A call has moved the position by `bytes`; returns where it stood, or NO_INT64.
int64_t position_move(struct calls *calls, int32_t descriptor, bool is_alone, uint32_t version, int64_t bytes);
void position_seek(struct calls *calls, const struct running *call);

// Bytes were read up to where the position is now.
void position_reach(struct calls *calls, int32_t descriptor);

// From here on the position is not known.
void position_lose(struct calls *calls, int32_t descriptor);
