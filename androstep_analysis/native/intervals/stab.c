// Segment i lies between edges i - 1 and i; the first one before all edges, the last one after them.
#include "intervals/stab.h"

#include "core/array.h"

// The rows that cover each segment, in order of valid_from.
struct segments {
    size_t *ends; // where the rows of each segment end
    uint32_t *rows;
};

struct pieces {
    struct stab_piece *pieces;
    size_t count;
    size_t room;
};

// Return the number of the ascending numbers that are at most `limit`.
static size_t count_until(const int64_t *numbers, size_t count, int64_t limit)
{
    size_t low = 0;

    while (count > 0) {
        size_t half = count / 2;

        if (numbers[low + half] <= limit) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

static bool fill_segments(struct segments *segments, const struct stab_rows *rows)
{
    size_t total = 0, *first = malloc((rows->count + 1) * sizeof(*first));

    segments->ends = calloc(rows->nr_edges + 2, sizeof(*segments->ends));
    if (!first || !segments->ends) {
        free(first);
        return false;
    }
    for (size_t row = 0; row < rows->count; row++) {
        int64_t end = rows->start[row] + rows->length[row];

        first[row] = count_until(rows->edges, rows->nr_edges, rows->start[row]);
        for (size_t at = first[row]; at <= rows->nr_edges && rows->edges[at - 1] < end; at++)
            segments->ends[at + 1]++;
    }
    // Until the rows are filled in, `ends` has the begin of each segment one place later.
    for (size_t at = 0; at <= rows->nr_edges + 1; at++)
        total = segments->ends[at] += total;
    segments->rows = malloc((total + 1) * sizeof(*segments->rows));
    for (size_t n = 0; n < rows->count && segments->rows; n++) {
        size_t row = (size_t)rows->order[n];
        int64_t end = rows->start[row] + rows->length[row];

        for (size_t at = first[row]; at <= rows->nr_edges && rows->edges[at - 1] < end; at++)
            segments->rows[segments->ends[at]++] = (uint32_t)row;
    }
    free(first);
    return segments->rows != NULL;
}

// Return the last row of the segment that is valid at the time, or -1.
static int64_t row_at(const struct segments *segments, const struct stab_rows *rows, size_t segment, int64_t time)
{
    size_t begin = segment ? segments->ends[segment - 1] : 0, low = begin, high = segments->ends[segment];

    while (low < high) {
        size_t half = low + (high - low) / 2;

        if (rows->valid_from[segments->rows[half]] <= time)
            low = half + 1;
        else
            high = half;
    }
    while (low > begin && rows->valid_to[segments->rows[low - 1]] <= time)
        low--;
    return low > begin ? (int64_t)segments->rows[low - 1] : -1;
}

// Append a piece, or extend the last one of the query if the same row covers it.
static bool append(struct pieces *pieces, struct stab_piece piece)
{
    struct stab_piece *last = pieces->count ? &pieces->pieces[pieces->count - 1] : NULL;

    if (last && last->query == piece.query && last->row == piece.row) {
        last->length += piece.length;
        return true;
    }
    if (!array_reserve(&pieces->pieces, pieces->count, &pieces->room, sizeof(*pieces->pieces)))
        return false;
    pieces->pieces[pieces->count++] = piece;
    return true;
}

static bool split_query(struct pieces *pieces, const struct segments *segments, const struct stab_queries *queries,
                        size_t query, const struct stab_rows *rows)
{
    int64_t start = queries->start[query], end = start + queries->length[query];

    for (size_t at = count_until(rows->edges, rows->nr_edges, start); start < end; at++) {
        int64_t stop = at < rows->nr_edges && rows->edges[at] < end ? rows->edges[at] : end;
        int64_t row = row_at(segments, rows, at, queries->time[query]);

        if (!append(pieces, (struct stab_piece){(int64_t)query, row, start, stop - start}))
            return false;
        start = stop;
    }
    return true;
}

struct stab_piece *stab_find(const struct stab_queries *queries, const struct stab_rows *rows, size_t *nr_pieces)
{
    struct segments segments = {0};
    struct pieces pieces = {.pieces = malloc((queries->count + 1) * sizeof(*pieces.pieces)),
                            .room = queries->count + 1};
    bool is_done = pieces.pieces && fill_segments(&segments, rows);

    for (size_t query = 0; query < queries->count && is_done; query++)
        is_done = split_query(&pieces, &segments, queries, query, rows);
    free(segments.ends);
    free(segments.rows);
    if (!is_done)
        free(pieces.pieces);
    *nr_pieces = pieces.count;
    return is_done ? pieces.pieces : NULL;
}

void stab_free(struct stab_piece *pieces)
{
    free(pieces);
}
