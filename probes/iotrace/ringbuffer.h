/* Pages of the kernel's ring buffer, as trace_pipe_raw gives them. */
#ifndef ANDROSTEP_IOTRACE_RINGBUFFER_H
#define ANDROSTEP_IOTRACE_RINGBUFFER_H

#include <stddef.h>
#include <stdint.h>

/* How a page is laid out, from events/header_page. */
struct page_layout {
    size_t bytes;       /* of a whole page */
    size_t commit;      /* where the length of its data stands */
    size_t commit_size; /* 4 or 8: size of a long in the kernel */
    size_t data;        /* where its data begin */
};

/* Returns -1 where `header_page` is not understood. */
int page_layout_parse(const char *header_page, struct page_layout *layout);

/* Number of events in one page. Padding and time stamps are none. Damage ends the count. */
uint64_t page_events(const unsigned char *page, const struct page_layout *layout);

#endif
