/*
 * The open files of a replay, by the descriptor's number in the program. Any thread may use, open and close any of them
 * at any time without a lock: a file is closed when the last call that is under way on it has ended, so that no call
 * ever meets the file that got the same number from the kernel next.
 */
#ifndef ANDROSTEP_IOREPLAY_DESCRIPTORS_H
#define ANDROSTEP_IOREPLAY_DESCRIPTORS_H

#include <stdint.h>

struct replay_descriptors;

/* For numbers below `count`; NULL where there is no memory. */
struct replay_descriptors *replay_descriptors_make(uint32_t count);

/* Closes what is open. No thread may use it any more. */
void replay_descriptors_free(struct replay_descriptors *descriptors);

/* Takes `file` over as `number`, which may be REPLAY_NONE: then it is closed. Returns 0, or -EBUSY, and closes it,
 * where `number` is open already. */
int replay_descriptors_open(struct replay_descriptors *descriptors, int32_t number, int file);

/* The open file of `number`, until replay_descriptors_unuse; -EBADF where it is not open, and for REPLAY_NONE. */
int replay_descriptors_use(struct replay_descriptors *descriptors, int32_t number);
void replay_descriptors_unuse(struct replay_descriptors *descriptors, int32_t number);

/* What close(2) says, as a negative errno; 0 where another call is still under way on the file and closes it then. */
int replay_descriptors_close(struct replay_descriptors *descriptors, int32_t number);

#endif
