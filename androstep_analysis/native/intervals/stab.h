// Find the row that covers each sector of a query at its time. link/intervals.py states the rules and mirrors these
// structures.
#pragma once

#include "core/table.h"

// Runs of sectors, each at one instant.
struct stab_queries {
    size_t count;
    const int64_t *start;
    const int64_t *length; // at least 1
    const int64_t *time;
};

// Runs of sectors, each for a span of time.
struct stab_rows {
    size_t count;
    const int64_t *start;
    const int64_t *length;
    const int64_t *valid_from;
    const int64_t *valid_to;
    const int64_t *order; // the rows by valid_from; of equal times in their order
    size_t nr_edges;
    const int64_t *edges; // all starts and ends of rows, ascending and distinct
};

// A part of a query that one row covers; row -1: none.
struct stab_piece {
    int64_t query;
    int64_t row;
    int64_t start;
    int64_t length;
};

// Return the pieces in order of query and start, to be freed with stab_free. Returns NULL if memory runs out.
API struct stab_piece *stab_find(const struct stab_queries *queries, const struct stab_rows *rows, size_t *nr_pieces);
API void stab_free(struct stab_piece *pieces);
