// Writes in flight, and the dirty intervals that wait for them. Functions that return bool return false if memory runs
// out.
#pragma once

#include "pagecache/state.h"

// The thread begins to write or to store, which ends its previous write.
bool begin_write(struct pagecache *cache, const struct event *event, int64_t begin, int64_t end);

// Evaluate the intervals that only wait for this write.
bool end_write(struct pagecache *cache, struct in_flight_write *write);

// Return the write of this touch if it is in flight, or NULL.
struct in_flight_write *find_in_flight(const struct pagecache *cache, const struct touch *touch);

// Evaluate the interval only after the write has ended.
bool wait_for_write(struct in_flight_write *write, struct pending_interval *pending);

// Retain the block's touch by this write, although the block is added to the cache or dropped meanwhile.
bool retain_block(struct in_flight_write *write, uint64_t lifetime, int64_t file_block);

// Move the write that the block's pending interval waits for to the next interval: it was in flight at the writeback.
bool move_to_next_interval(struct block *block);

bool append_interval(struct pagecache *cache, const struct dirty_interval *interval);
