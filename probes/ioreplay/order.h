/* Dependencies between operations of a replay. Waiting threads sleep. A thread is woken only when the last operation it
 * waits for has ended. */
#pragma once

#include <stdatomic.h>

#include "ioreplay/program.h"

struct replay_order {
    atomic_uint *pending; /* of each operation: number of unfinished dependencies, and whether a thread sleeps */
    uint32_t *first;      /* of each operation: index of its first dependent; one more entry marks the end */
    const struct replay_dependency *dependencies;
};

/* Prepare the dependencies. Returns 0, or -1 if memory runs out. */
int replay_order_make(struct replay_order *order, const struct replay_program *program);
void replay_order_free(struct replay_order *order);

/* Return whether all dependencies of an operation have ended. */
bool replay_order_ready(struct replay_order *order, uint32_t operation);

/* Sleep until the operation is ready, a signal arrives, or spuriously. */
void replay_order_sleep(struct replay_order *order, uint32_t operation);

/* Record that an operation has ended, and wake threads that waited only for it. */
void replay_order_ended(struct replay_order *order, uint32_t operation);
