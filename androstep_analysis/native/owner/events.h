// Events, and what is written out.
#pragma once

#include "owner/state.h"

// The event in that row, of the thread of that number. False where memory is short, here and below.
bool events_take(struct owners *owners, const struct page_events *events, size_t row, uint32_t thread);

// What that row says to be written out, or read.
bool outs_take(struct owners *owners, const struct outs *outs, size_t row);
