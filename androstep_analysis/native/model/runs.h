// The pages of a host in runs that have the same fate: a page that is written is a run of its own, those between that
// nothing tells apart are one, and none goes beyond a segment. So memory follows what a recording touches, not the size
// of the device. Which runs there are, whatif/translation.py tells.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_SECTORS = 8 };

enum host_op { HOST_READ, HOST_WRITE, HOST_DISCARD }; // the order is that of translation.OPS

struct runs {
    const uint32_t *first; // page of each run, and the number of pages behind the last; the caller owns them
    uint32_t *of_segment;  // first run of each segment, and the number of runs
    size_t nr, segment_pages;
};

// False where memory is short; then, too, it must be closed.
bool runs_open(struct runs *runs, size_t nr, const uint32_t *first, size_t segment_pages);
void runs_close(struct runs *runs);

// The run that has the page.
static inline size_t runs_find(const struct runs *runs, size_t page)
{
    size_t segment = page / runs->segment_pages;
    size_t low = runs->of_segment[segment], high = runs->of_segment[segment + 1];

    if (high - low == runs->first[high] - runs->first[low])
        return low + (page - runs->first[low]);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (runs->first[middle] <= page)
            low = middle;
        else
            high = middle;
    }
    return low;
}
