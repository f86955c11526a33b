// The cleaner: turns recorded system calls into operations on files (replay/clean.py).
#pragma once

#include "calls/input.h"

struct calls;

// Processes all rows and sets in `left` why each is omitted (enum left; 0: it is an operation). `pids` selects
// processes; without any, all are selected. Get the result with calls_tables (output.h). Returns NULL without memory.
API struct calls *calls_clean(const struct calls_input *in, struct strings *strings, uint8_t *left, const int32_t *pids,
                              size_t nr_pids, bool has_unknown);
API void calls_free(struct calls *calls);
