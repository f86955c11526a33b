// The cleaner: recorded system calls in, operations on files out (replay/clean.py).
#pragma once

#include "calls/input.h"

struct calls;

// Follows all rows, and tells for each in `left` why it is left out (enum left; 0: it is an operation). `pids` are the
// processes to keep, all where there are none. What is found is taken with calls_tables (output.h). NULL where memory
// is short.
API struct calls *calls_clean(const struct calls_input *in, struct strings *strings, uint8_t *left, const int32_t *pids,
                              size_t nr_pids, bool has_unknown);
API void calls_free(struct calls *calls);
