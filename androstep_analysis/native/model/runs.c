// Runs of pages of a host, and what holds data of them before the first request.

#include "model/runs.h"

#include <stdlib.h>

#include "core/table.h"

API bool runs_first_use(size_t nr, const uint32_t *first_pages, size_t segment_pages, size_t rows, const uint8_t *ops,
                        const int64_t *sectors, const int64_t *nr_sectors, uint8_t *seen);

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

static void see(const struct runs *runs, uint8_t *seen, int64_t first, int64_t end, uint8_t use)
{
    for (size_t run = first < end ? runs_find(runs, (size_t)first) : runs->nr; run < runs->nr; run++) {
        if (runs->first[run] >= end)
            return;
        if (!seen[run])
            seen[run] = use;
    }
}

// `seen` becomes 1 for runs that are read, or written in part, before they are written or discarded as a whole, and 2
// for those that are so first; it is 0 before. False where memory is short.
bool runs_first_use(size_t nr, const uint32_t *first_pages, size_t segment_pages, size_t rows, const uint8_t *ops,
                    const int64_t *sectors, const int64_t *nr_sectors, uint8_t *seen)
{
    struct runs runs;
    bool is_open = runs_open(&runs, nr, first_pages, segment_pages);

    for (size_t row = 0; is_open && row < rows; row++) {
        int64_t end = sectors[row] + nr_sectors[row];
        int64_t first = sectors[row] / PAGE_SECTORS, behind = (end + PAGE_SECTORS - 1) / PAGE_SECTORS;
        int64_t inner = (sectors[row] + PAGE_SECTORS - 1) / PAGE_SECTORS, whole = end / PAGE_SECTORS;

        if (ops[row] != HOST_READ)
            see(&runs, seen, inner, whole, 2);
        if (ops[row] != HOST_DISCARD)
            see(&runs, seen, first, behind, 1);
    }
    runs_close(&runs);
    return is_open;
}
