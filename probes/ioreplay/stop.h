/* Signals that request a stop. They are blocked in all threads; the main thread polls them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Interrupts the sleep of a thread. */
#define REPLAY_WAKE SIGUSR1

/* Notifies the main thread of an event. */
#define REPLAY_NEWS SIGUSR2

/* Block SIGINT, SIGTERM, SIGHUP (unless ignored, as by nohup) and REPLAY_NEWS, in this thread and those created later.
 * Broken pipes and too large files become errors of the calls. */
void replay_stop_prepare(void);

/* Wait up to `wait_ns` for a signal. Returns whether a stop has ever been requested. */
bool replay_stop_requested(int64_t wait_ns);
