// Runs of pages that are always handled in the same way: every written page is a run of its own, pages in between that
// no request separates are one run, and no run crosses a segment. Memory then depends on the pages that a recording
// touches and not on the size of the device. whatif/translation.py determines the runs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_SECTORS = 8 };

enum host_op { HOST_READ, HOST_WRITE, HOST_DISCARD }; // in the order of translation.OPS

struct runs {
    const uint32_t *first; // first page of each run, and the number of pages after the last one; owned by the caller
    uint32_t *of_segment;  // first run of each segment, and the number of runs
    size_t nr, segment_pages;
};

// Prepare the runs. Returns false if memory runs out; runs_close must be called in any case.
bool runs_open(struct runs *runs, size_t nr, const uint32_t *first, size_t segment_pages);
void runs_close(struct runs *runs);

// Return the run that contains the page.
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
