#include "ioreplay/replay.h"

#include <linux/futex.h>

/* Flag in the number of pending operations: a thread sleeps until it is 0. */
#define SLEEPS 0x80000000u

void replay_order_make(struct replay_order *order, const struct replay_program *program)
{
    order->dependencies = program->dependencies;
    order->pending = zeroed(program->nr_operations, sizeof *order->pending);
    order->first = zeroed(program->nr_operations + (size_t)1, sizeof *order->first);
    for (uint32_t index = 0; index < program->nr_dependencies; index++) {
        order->pending[program->dependencies[index].operation]++;
        order->first[program->dependencies[index].after + 1]++;
    }
    for (uint32_t operation = 0; operation < program->nr_operations; operation++)
        order->first[operation + 1] += order->first[operation];
}

bool replay_order_ready(struct replay_order *order, uint32_t operation)
{
    return (atomic_load_explicit(&order->pending[operation], memory_order_acquire) & ~SLEEPS) == 0;
}

void replay_order_sleep(struct replay_order *order, uint32_t operation)
{
    uint32_t seen = atomic_fetch_or(&order->pending[operation], SLEEPS) | SLEEPS;
    if (seen != SLEEPS)
        syscall(SYS_futex, &order->pending[operation], FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void replay_order_ended(struct replay_order *order, uint32_t operation)
{
    for (uint32_t index = order->first[operation]; index < order->first[operation + 1]; index++) {
        atomic_uint *pending = &order->pending[order->dependencies[index].operation];
        if (atomic_fetch_sub(pending, 1) == (SLEEPS | 1))
            syscall(SYS_futex, pending, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}
