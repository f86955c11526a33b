// State that threads and processes share after clone, and its release at their end.
#pragma once

#include "calls/state.h"

// Returns the thread with this tid. One without a recorded clone existed before the recording.
int32_t thread_of(struct calls *calls, int32_t tid, int32_t pid);
void process_clone(struct calls *calls, int32_t thread, uint32_t row, int64_t flags, int32_t child);
void process_exec(struct calls *calls, int32_t thread, uint32_t row);
void process_exit(struct calls *calls, int32_t thread, uint32_t row, bool all_threads);
void process_unshare(struct calls *calls, int32_t thread, uint32_t row, int64_t flags);
