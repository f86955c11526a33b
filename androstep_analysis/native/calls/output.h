// Final order of the operations, and the tables of a program.
#pragma once

#include "calls/state.h"

struct calls_counts {
    size_t operations, files, threads; // at most
    uint64_t conflicts;
    uint32_t unnamed;
};

size_t output_finish(struct calls *calls, const int32_t *pids, size_t nr_pids);
API void calls_count(struct calls *calls, struct calls_counts *counts);

// Fills the tables of a program, which must have capacity for all rows; false without memory.
API bool calls_tables(struct calls *calls, struct table *operations, struct table *files, struct table *threads);
