// The modifiers of the data that a writeback of a block carries.
#pragma once

#include "pagecache/blocks.h"

// The threads that touches refer to, and memory that evaluations reuse.
struct evaluator {
    const struct thread *threads;
    struct strings *sets; // the bytes of each set of processes
    struct process_set modifiers;
    struct process_set dirtiers;
};

// Set the fields of the interval that its touches determine. Return false if memory runs out.
bool evaluate_interval(struct evaluator *evaluator, const struct touches *touches, bool records_dirty,
                       const struct writeback *writeback, struct dirty_interval *interval);

// Return how often processes dirtied the page. A process without a recorded modification counts only as the first:
// later ones may have dirtied the page again because they could not write it back (redirty_page_for_writepage).
// Repetitions count as three at most.
size_t count_dirtyings(const struct thread *threads, const struct touches *touches);
