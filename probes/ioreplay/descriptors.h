/* Open files of a replay by the descriptor's ID in the program. Any thread may use, open and close any of them at any
 * time without a lock. A file is closed when its last running call has ended, so that no call ever uses another file
 * with the same descriptor of the kernel. */
#pragma once

#include <stdint.h>

struct replay_descriptors;

/* Create the table for IDs below `count`. Returns NULL if memory runs out. */
struct replay_descriptors *replay_descriptors_make(uint32_t count);

/* Close all open files. No thread may use the table any more. */
void replay_descriptors_free(struct replay_descriptors *descriptors);

/* Transfer ownership of `file` to ID `number`, or close it if `number` is REPLAY_NONE. Returns 0, or -EBUSY and closes
 * the file if `number` is open already. */
int replay_descriptors_open(struct replay_descriptors *descriptors, int32_t number, int file);

/* Return the open file of `number` until replay_descriptors_unuse. Returns -EBADF if it is not open, and for
 * REPLAY_NONE. */
int replay_descriptors_use(struct replay_descriptors *descriptors, int32_t number);
void replay_descriptors_unuse(struct replay_descriptors *descriptors, int32_t number);

/* Close a file. Returns the result of close(2) as a negative errno, or 0 if a running call closes it later. */
int replay_descriptors_close(struct replay_descriptors *descriptors, int32_t number);
