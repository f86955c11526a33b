// Queries of the explorer over pieces ordered by time: counts in each cell of a picture, their rows if they are few,
// and totals by file, process and so on. Each query is one pass.
#include "core/table.h"

#include <math.h>

enum type { TYPE_U8, TYPE_U16, TYPE_U32, TYPE_I64, TYPE_F32 };

enum { PLANES = 3 };

#define NO_GROUP UINT32_MAX

// Columns of `rows` pieces. `excluded` has a bit for each filter that excludes the piece.
struct pieces {
    size_t rows;
    const int64_t *begin_ns;
    const float *took_ns; // NaN: unknown
    const uint32_t *request;
    const uint32_t *sectors;
    const uint8_t *plane; // reads, writes, other
    const uint8_t *excluded;
};

// A rectangle of time and of the values of a column.
struct view {
    int64_t begin_ns, end_ns;
    double low, high;
    const void *values;
    uint32_t type;
    uint8_t by; // filters that apply here
};

API uint64_t pieces_cells(const struct pieces *pieces, const struct view *view, size_t first, size_t last,
                          uint32_t width, uint32_t height, uint32_t *cells);
API size_t pieces_rows(const struct pieces *pieces, const struct view *view, size_t first, size_t last, uint32_t *rows,
                       size_t most);
API void pieces_count(const struct pieces *pieces, const void *codes, uint32_t type, const uint32_t *groups, uint8_t by,
                      size_t first, size_t last, uint32_t *latest, uint32_t *requests, uint64_t *sectors);

static inline uint32_t code_at(const void *codes, uint32_t type, size_t row)
{
    switch (type) {
    case TYPE_U8:
        return ((const uint8_t *)codes)[row];
    case TYPE_U16:
        return ((const uint16_t *)codes)[row];
    default:
        return ((const uint32_t *)codes)[row];
    }
}

// Return the value of a row, or NaN if it is null.
static inline double value_at(const struct view *view, size_t row)
{
    if (view->type == TYPE_F32)
        return (double)((const float *)view->values)[row];
    if (view->type == TYPE_I64) {
        int64_t value = ((const int64_t *)view->values)[row];

        return value < 0 ? NAN : (double)value;
    }
    return code_at(view->values, view->type, row);
}

// Add the pieces of rows [first, last) that begin within the view to `cells`: one plane after another, each with
// `height` rows of `width` cells, lowest value first. Consecutive pieces of one request in the same cell count once.
// Returns the number of pieces without a value.
uint64_t pieces_cells(const struct pieces *pieces, const struct view *view, size_t first, size_t last, uint32_t width,
                      uint32_t height, uint32_t *cells)
{
    const double across = width / ((double)view->end_ns - (double)view->begin_ns);
    const double up = height / (view->high - view->low);
    const size_t plane = (size_t)width * height;
    uint64_t without = 0;
    uint32_t request = UINT32_MAX;
    size_t cell = SIZE_MAX;

    for (size_t row = first; row < last; row++) {
        double x, y;
        size_t at;

        if (pieces->excluded[row] & view->by)
            continue;
        x = (double)(pieces->begin_ns[row] - view->begin_ns) * across;
        y = (value_at(view, row) - view->low) * up;
        if (isnan(y))
            without++;
        if (!(x >= 0 && x < width && y >= 0 && y < height) || pieces->plane[row] >= PLANES)
            continue;
        at = pieces->plane[row] * plane + (size_t)y * width + (size_t)x;
        if (at == cell && pieces->request[row] == request)
            continue;
        cell = at;
        request = pieces->request[row];
        cells[at]++;
    }
    return without;
}

// List the rows among [first, last) with pieces in progress within the view, at most `most` of them. Returns their
// number, or `most` + 1 if there are more.
size_t pieces_rows(const struct pieces *pieces, const struct view *view, size_t first, size_t last, uint32_t *rows,
                   size_t most)
{
    size_t count = 0;

    for (size_t row = first; row < last; row++) {
        int64_t begin_ns = pieces->begin_ns[row];
        double value;

        if (pieces->excluded[row] & view->by || begin_ns >= view->end_ns)
            continue;
        // False for NaN: a piece of unknown duration that began earlier is not known to be in progress.
        if (begin_ns < view->begin_ns && !((double)pieces->took_ns[row] >= (double)(view->begin_ns - begin_ns)))
            continue;
        value = value_at(view, row);
        if (!(value >= view->low && value < view->high))
            continue;
        if (count == most)
            return most + 1;
        rows[count++] = (uint32_t)row;
    }
    return count;
}

// Add up requests and sectors of rows [first, last) by the group of their code; NO_GROUP: none. If `groups` is NULL,
// codes are groups. The pieces of a request are consecutive. `latest` is the last request of each group, with all bits
// set if there was none.
void pieces_count(const struct pieces *pieces, const void *codes, uint32_t type, const uint32_t *groups, uint8_t by,
                  size_t first, size_t last, uint32_t *latest, uint32_t *requests, uint64_t *sectors)
{
    for (size_t row = first; row < last; row++) {
        uint32_t group;

        if (pieces->excluded[row] & by)
            continue;
        group = code_at(codes, type, row);
        if (groups)
            group = groups[group];
        if (group == NO_GROUP)
            continue;
        requests[group] += latest[group] != pieces->request[row];
        latest[group] = pieces->request[row];
        sectors[group] += pieces->sectors[row];
    }
}
