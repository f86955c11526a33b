#include "iotrace/iotrace.h"

/* Flags in the commit word above the length of the data (kernel/trace/ring_buffer.c: RB_MISSED_*). */
#define MISSED_FLAGS (3U << 30)

enum { TYPE_DATA_MAX = 28, TYPE_PADDING = 29, TYPE_TIME_EXTEND = 30 };

static bool parse_field(const char *text, const char *name, size_t *offset, size_t *size)
{
    const char *field = strstr(text, name);
    return field && sscanf(field + strlen(name), "; offset:%zu; size:%zu;", offset, size) == 2;
}

int page_layout_parse(const char *header_page, struct page_layout *layout)
{
    size_t data_bytes;
    if (!parse_field(header_page, " commit", &layout->commit, &layout->commit_size) ||
        !parse_field(header_page, " data", &layout->data, &data_bytes))
        return -1;
    if (layout->commit_size != 4 && layout->commit_size != 8)
        return -1;
    layout->bytes = layout->data + data_bytes;
    return layout->commit + layout->commit_size <= layout->data && layout->bytes <= 1 << 24 ? 0 : -1;
}

int page_layout_read(int tracefs, struct page_layout *layout)
{
    struct contents header;
    if (file_read(tracefs, "events/header_page", &header) < 0)
        return print_error("tracefs/events/header_page: %s", strerror(errno));
    int result = page_layout_parse(header.data, layout);
    free(header.data);
    return result < 0 ? print_error("tracefs/events/header_page: unknown page layout") : 0;
}

static uint32_t word(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static unsigned type_of(uint32_t header)
{
    return header & 31;
}

static uint32_t delta_of(uint32_t header)
{
    return header >> 5;
}
#else
#error "the layout of a ring-buffer event is written down here for little-endian kernels only"
#endif

/* Return the size of the event at `at`; `rest` bytes remain in the page. 0: no event follows. */
static size_t event_bytes(const unsigned char *at, size_t rest)
{
    uint32_t header = word(at);
    unsigned type = type_of(header);
    if (type > TYPE_PADDING)
        return 8;
    if (type > 0 && type <= TYPE_DATA_MAX)
        return 4 + type * 4;
    if (rest < 8 || (type == TYPE_PADDING && delta_of(header) == 0))
        return 0;
    return 4 + (size_t)word(at + 4);
}

uint64_t page_events(const unsigned char *page, const struct page_layout *layout)
{
    uint64_t events = 0;
    size_t end = word(page + layout->commit) & ~MISSED_FLAGS;
    if (end > layout->bytes - layout->data)
        end = layout->bytes - layout->data;
    for (size_t at = 0, length; at + 4 <= end; at += length) {
        const unsigned char *event = page + layout->data + at;
        length = event_bytes(event, end - at);
        if (length < 4 || length > end - at)
            break;
        events += type_of(word(event)) <= TYPE_DATA_MAX;
    }
    return events;
}
