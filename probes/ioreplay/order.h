/*
 * The order of a replay: which operations wait for which others. Waiting threads sleep, and only the one that can go on
 * is woken, when the last operation that it waited for has ended.
 */
#ifndef ANDROSTEP_IOREPLAY_ORDER_H
#define ANDROSTEP_IOREPLAY_ORDER_H

#include <stdatomic.h>

#include "ioreplay/program.h"

struct replay_order {
    atomic_uint *pending; /* of each operation: how many that it waits for have not ended, and whether it sleeps */
    uint32_t *first; /* of each operation: where those that wait for it begin in `dependencies`; one more is the end */
    const struct replay_dependency *dependencies;
};

/* 0, or -1 where there is no memory. */
int replay_order_make(struct replay_order *order, const struct replay_program *program);
void replay_order_free(struct replay_order *order);

/* Whether an operation need not wait any more. */
bool replay_order_ready(struct replay_order *order, uint32_t operation);

/* Sleeps until it need not, or until a signal or nothing at all wakes it. */
void replay_order_sleep(struct replay_order *order, uint32_t operation);

/* An operation has ended. */
void replay_order_ended(struct replay_order *order, uint32_t operation);

#endif
