// What the steps of a turn tell of who made what is written out.
#pragma once

#include "owner/blocks.h"

// What decisions need: the threads, and memory that they use again.
struct judge {
    const struct thread *threads;
    struct strings *sets; // the bytes of each set of processes
    struct set made;      // of a turn
    struct set dirtied;
};

// Fills in what the steps tell of a block that is written out. False where memory is short.
bool decide(struct judge *judge, const struct steps *steps, bool tells_dirty, const struct out *out, struct turn *turn);

static inline bool touch_makes(uint8_t kind)
{
    return kind == TOUCH_WRITE || kind == TOUCH_STORE;
}

// How often processes made the page dirty in these steps, but for those that changed nothing that is told: they could
// not write it out. The first changed it. Of many in a row three count.
size_t times_dirty(const struct thread *threads, const struct steps *steps);
