// Events and writebacks, which change the state of blocks. Functions return false if memory runs out.
#pragma once

#include "pagecache/state.h"

// Process the event in this row, by the thread with this index.
bool take_event(struct pagecache *cache, const struct page_events *events, size_t row, uint32_t thread);

// Process the writeback or direct read in this row: a writeback ends the dirty interval of each of its blocks.
bool take_writeback(struct pagecache *cache, const struct writebacks *writebacks, size_t row);
