/* Pages of the kernel's ring buffer, as read from trace_pipe_raw. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Layout of a page, from events/header_page. */
struct page_layout {
    size_t bytes;       /* size of a page */
    size_t commit;      /* offset of the length of its data */
    size_t commit_size; /* 4 or 8: size of a long in the kernel */
    size_t data;        /* offset of its data */
};

/* Parse `header_page`. Returns -1 if it is invalid. */
int page_layout_parse(const char *header_page, struct page_layout *layout);

/* Count the events in a page, without padding and time stamps. Stops at damage. */
uint64_t page_events(const unsigned char *page, const struct page_layout *layout);
