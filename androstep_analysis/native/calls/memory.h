// Calls on memory mappings.
#pragma once

#include "calls/state.h"

void mmap_end(struct calls *calls, const struct running *call);
void memory_begin(struct calls *calls, const struct running *call);
void memory_move(struct calls *calls, const struct running *call); // mremap
