// Reads records from pages of the kernel's ring buffer (Linux, kernel/trace/ring_buffer.c).
//
// A page begins with the time of its first record and the number of bytes in use (commit). The upper bits of commit say
// whether records were lost before the page; their count follows the data. A record is a 32-bit word with its type (5
// bits) and the time since the last record (27 bits), then its data. Types:
// - 1 to 28: the length in words
// - 0: the length follows in the next word
// - 29: padding
// - 30: extends the time
// - 31: sets the time
#include "decode/ftrace/state.h"

enum { KIND_LONG = 0, KIND_PADDING = 29, KIND_EXTEND = 30, KIND_STAMP = 31 };
enum { DELTA_BITS = 27, STAMP_BITS = 59, WORD = 4 };

#define DELTA_MASK     ((1u << DELTA_BITS) - 1)
#define MISSED         (1u << 31)
#define MISSED_COUNTED (1u << 30)

void pages_feed(struct pages *pages, const uint8_t *data, size_t size)
{
    pages->page = data;
    pages->end = data + size / pages->layout.page_bytes * pages->layout.page_bytes;
    pages->word = pages->stop = data;
}

static void add_lost(struct page_totals *totals, uint64_t lost)
{
    totals->lost = totals->lost + lost < lost ? UINT64_MAX : totals->lost + lost;
}

// Adds the records lost before this page. A page that reports a loss without a count adds one.
static void count_lost(const struct pages *pages, const uint8_t *page, uint32_t commit, size_t used)
{
    const struct layout *layout = &pages->layout;
    size_t at = layout->data_at + used;
    uint64_t count = 0;

    if (!(commit & MISSED))
        return;
    if (commit & MISSED_COUNTED) {
        size_t size = layout->page_bytes - at < layout->commit_bytes ? layout->page_bytes - at : layout->commit_bytes;

        for (size_t byte = 0; byte < size; byte++)
            count = count << 8 | page[at + (layout->big_endian ? byte : size - 1 - byte)];
    }
    add_lost(pages->totals, count ? count : 1);
}

// Advances to the next page that has a record.
static bool next_page(struct pages *pages)
{
    const struct layout *layout = &pages->layout;
    bool big = layout->big_endian;

    while (pages->page < pages->end) {
        const uint8_t *page = pages->page;
        uint32_t commit = get_u32(page + layout->commit_at + (big && layout->commit_bytes == 8 ? WORD : 0), big);
        size_t used = commit & DELTA_MASK;

        pages->page += layout->page_bytes;
        if (layout->data_at + used > layout->page_bytes) {
            pages->totals->broken++;
            continue;
        }
        count_lost(pages, page, commit, used);
        if (used < WORD)
            continue;
        pages->now = get_u64(page, big);
        pages->word = page + layout->data_at;
        pages->stop = pages->word + used / WORD * WORD;
        return true;
    }
    return false;
}

// Skips the rest of a page after a word that cannot be decoded. It may be the last page of the buffer, which the caller
// frees before it passes the next ones.
static void leave_page(struct pages *pages)
{
    pages->totals->broken++;
    pages->word = pages->stop;
}

// Decodes a word that is not a record of 1 to 28 words; true if it is a long record. `left` is the rest of the page.
static bool follow_rare(struct pages *pages, struct record *record, uint32_t kind, uint32_t delta, size_t left)
{
    const uint8_t *word = pages->word;
    uint64_t second, extra;
    size_t size = 2 * WORD;

    if (kind == KIND_PADDING && !delta) { // padding up to the end of the page
        pages->word = pages->stop;
        return false;
    }
    second = left < 2 * WORD ? 0 : get_u32(word + WORD, pages->layout.big_endian);
    if (kind == KIND_LONG || kind == KIND_PADDING)
        size = second < WORD ? 0 : WORD + (second + WORD - 1) / WORD * WORD;
    if (!size || size > left) {
        leave_page(pages);
        return false;
    }
    pages->word = word + size;
    extra = second << DELTA_BITS;
    if (kind == KIND_EXTEND)
        pages->now += extra;
    else if (kind == KIND_STAMP)
        pages->now = pages->now >> STAMP_BITS << STAMP_BITS | extra | delta;
    if (kind != KIND_LONG)
        return false;
    record->data = word + 2 * WORD;
    record->size = size - 2 * WORD;
    record->ts = pages->now;
    return true;
}

bool pages_next(struct pages *pages, struct record *record)
{
    bool big = pages->layout.big_endian;

    for (;;) {
        while (pages->word < pages->stop) {
            const uint8_t *word = pages->word;
            size_t left = (size_t)(pages->stop - word);
            uint32_t head = get_u32(word, big);
            uint32_t kind = big ? head >> DELTA_BITS : head & 31;
            uint32_t delta = big ? head & DELTA_MASK : head >> 5;
            size_t size = WORD + WORD * (size_t)kind;

            pages->now += delta;
            if (kind == KIND_LONG || kind >= KIND_PADDING) {
                if (follow_rare(pages, record, kind, delta, left))
                    return true;
                continue;
            }
            if (size > left) {
                leave_page(pages);
                continue;
            }
            record->data = word + WORD;
            record->size = size - WORD;
            record->ts = pages->now;
            pages->word = word + size;
            return true;
        }
        if (!next_page(pages))
            return false;
    }
}
