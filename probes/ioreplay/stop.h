/* Signals that ask to stop. They are blocked in all threads, and taken by the main thread when it asks for them. */
#ifndef ANDROSTEP_IOREPLAY_STOP_H
#define ANDROSTEP_IOREPLAY_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Interrupts what a thread sleeps in. */
#define REPLAY_WAKE SIGUSR1

/* Tells the main thread that there is something to look at. */
#define REPLAY_NEWS SIGUSR2

/* Blocks SIGINT, SIGTERM, SIGHUP (unless it is ignored: nohup means it) and REPLAY_NEWS, in this thread and those that
 * it makes. Signals of broken pipes and of files that became too large are errors of the calls alone. */
void replay_stop_prepare(void);

/* Waits up to `wait_ns` for one of them; returns whether one that asks to stop has ever come. */
bool replay_stop_requested(int64_t wait_ns);

#endif
