// Effects of a call at its begin and at its end.
#pragma once

#include "calls/state.h"

// The fd column of a row that leads to a descriptor of the call.
enum fd_choice { NO_FD, FIRST_FD, SECOND_FD };

// Selects the fds of the two descriptors of a call, which are looked up before it begins.
void call_fds(const struct calls *calls, uint32_t row, enum fd_choice fds[2]);

// Checks whether the begin or the end of the call is not recorded, or the call is restarted (internal errors from 512
// on).
bool call_is_partial(const struct calls *calls, uint32_t row);

// Handles a partial call: it is omitted, but descriptors and positions that it returned count.
void call_resume(struct calls *calls, const struct running *call);

// Begins a call. Returns whether there is more to do at its end.
bool call_begin(struct calls *calls, struct running *call);
void call_end(struct calls *calls, const struct running *call);

// Returns the end of a call. Without a recorded duration it is the begin: such a call is on one line of the recording,
// so that no other event was recorded during it.
int64_t call_end_ns(const struct calls_input *in, uint32_t row);

// Checks whether the call cannot have ended yet, whatever its rounded or missing times, because it returns an fd that
// is open. It ends before the next call of its thread, and before another thread uses the fd.
bool call_is_early(const struct calls *calls, const struct running *call);
