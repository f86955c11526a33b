// Splits the pages of a host into runs, and finds those with data before the first request.

#include "model/runs.h"

#include <stdlib.h>

#include "core/table.h"

API size_t runs_mark(size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors, size_t pages,
                     size_t segment_pages, uint64_t *marks);
API void runs_list(const uint64_t *marks, size_t pages, uint32_t *first_pages);
API bool runs_first_use(size_t nr, const uint32_t *first_pages, size_t segment_pages, size_t rows, const uint8_t *ops,
                        const int64_t *sectors, const int64_t *nr_sectors, uint8_t *seen);

struct span {
    size_t first, behind; // pages at least partly covered
    size_t inner, whole;  // pages completely covered; crossed if there are none
};

static struct span span_of(int64_t sector, int64_t nr_sectors)
{
    uint64_t first = (uint64_t)sector, end = first + (uint64_t)nr_sectors;

    return (struct span){.first = first / PAGE_SECTORS,
                         .behind = (end + PAGE_SECTORS - 1) / PAGE_SECTORS,
                         .inner = (first + PAGE_SECTORS - 1) / PAGE_SECTORS,
                         .whole = end / PAGE_SECTORS};
}

static void mark(uint64_t *marks, size_t page)
{
    marks[page / 64] |= UINT64_C(1) << page % 64;
}

// Set a bit for each page where a run starts, and for the number of pages; all bits are 0 before. Returns the number of
// set bits.
size_t runs_mark(size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors, size_t pages,
                 size_t segment_pages, uint64_t *marks)
{
    size_t nr_marks = 0;

    for (size_t row = 0; row < rows; row++) {
        struct span span = span_of(sectors[row], nr_sectors[row]);

        for (size_t page = span.first; page < span.behind && ops[row] == HOST_WRITE; page++)
            mark(marks, page);
        mark(marks, span.first);
        mark(marks, span.inner);
        mark(marks, span.whole);
        mark(marks, span.behind);
    }
    for (size_t page = 0; page < pages; page += segment_pages)
        mark(marks, page);
    mark(marks, pages);
    for (size_t word = 0; word <= pages / 64; word++)
        nr_marks += (size_t)__builtin_popcountll(marks[word]);
    return nr_marks;
}

// List the marked pages.
void runs_list(const uint64_t *marks, size_t pages, uint32_t *first_pages)
{
    for (size_t word = 0; word <= pages / 64; word++)
        for (uint64_t left = marks[word]; left; left &= left - 1)
            *first_pages++ = (uint32_t)(64 * word + (size_t)__builtin_ctzll(left));
}

bool runs_open(struct runs *runs, size_t nr, const uint32_t *first, size_t segment_pages)
{
    size_t nr_segments = (first[nr] + segment_pages - 1) / segment_pages;

    *runs = (struct runs){.first = first, .nr = nr, .segment_pages = segment_pages};
    runs->of_segment = calloc(nr_segments + 1, sizeof(*runs->of_segment));
    if (!runs->of_segment)
        return false;
    for (size_t run = 0; run < nr; run++)
        runs->of_segment[first[run] / segment_pages + 1] = (uint32_t)run + 1;
    return true;
}

void runs_close(struct runs *runs)
{
    free(runs->of_segment);
}

static void see(const struct runs *runs, uint8_t *seen, size_t first, size_t behind, uint8_t use)
{
    if (first >= behind)
        return;
    for (size_t run = runs_find(runs, first); runs->first[run] < behind; run++)
        if (!seen[run])
            seen[run] = use;
}

// Set `seen` of each run: 1 if it is read or partly written before it is written or discarded completely, 2 if it is
// written or discarded completely first. It is 0 before. Returns false if memory runs out.
bool runs_first_use(size_t nr, const uint32_t *first_pages, size_t segment_pages, size_t rows, const uint8_t *ops,
                    const int64_t *sectors, const int64_t *nr_sectors, uint8_t *seen)
{
    struct runs runs;
    bool is_open = runs_open(&runs, nr, first_pages, segment_pages);

    for (size_t row = 0; is_open && row < rows; row++) {
        struct span span = span_of(sectors[row], nr_sectors[row]);

        if (ops[row] != HOST_READ)
            see(&runs, seen, span.inner, span.whole, 2);
        if (ops[row] != HOST_DISCARD)
            see(&runs, seen, span.first, span.behind, 1);
    }
    runs_close(&runs);
    return is_open;
}
