// Outcomes of pages read from a device (measures/readahead.py mirrors these structures). Simulates the part of the page
// cache that was filled during the recording, and which of its pages were requested.

#include <string.h>

#include "core/array.h"
#include "core/map.h"
#include "core/pool.h"
#include "core/table.h"

// From this order on, a touch of any page may map the whole folio without an event (PMD_ORDER is 9 with pages of 4 KiB,
// and more with larger pages).
enum { HUGE_ORDER = 9 };

// Time after the completion event of a request during which its pages may still be locked. The kernel traces the
// completion first and then unlocks one folio after another, on a CPU that may be preempted.
enum { UNLOCK_NS = 10 * 1000 * 1000 };

// Kinds of rows, about bytes of a file:
// - ROW_IN, ROW_GONE: they are added to the cache or leave it.
// - ROW_ASKED: a read call, or its rest, requests them; those in the cache are copied.
// - ROW_WANTED: a fault or a write requests them; they may be added to the cache later.
// - ROW_MAPPED: they may be mapped, if they are in the cache.
// - ROW_DIRTY: the folio that begins there became dirty.
// - ROW_READ: they are read from the device.
// - ROW_DIRECT: a direct call requests them.
// - ROW_LOST: rows are missing here.
enum row_kind {
    ROW_IN,
    ROW_GONE,
    ROW_ASKED,
    ROW_WANTED,
    ROW_MAPPED,
    ROW_DIRTY,
    ROW_READ,
    ROW_DIRECT,
    ROW_LOST,
};

enum part { PART_ASKED, PART_MAPPED, PART_DROPPED, PART_PENDING, PART_DIRECT, PART_UNKNOWN, NR_PARTS };

// Rows ordered by time; core/table.h defines the null values.
struct page_rows {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *begin; // bytes of the file
    const int64_t *end;
    const int64_t *done_ns; // of ROW_READ: time of its completion
    const int32_t *tid;
    const uint32_t *group; // of ROW_READ: group of its reader
    const uint8_t *kind;
};

// Outcomes of a group's reads.
struct sums {
    int64_t bytes[NR_PARTS];
    int64_t pages[NR_PARTS]; // each counted as often as it was read, wholly or partly
};

enum {
    PAGE_IN = 1,      // added to the cache during the recording
    PAGE_ASKED = 2,   // requested
    PAGE_MAPPED = 4,  // possibly touched: it was mapped around a fault
    PAGE_PERHAPS = 8, // possibly requested without an event
    PAGE_DOUBT = 16,  // rows are missing between its addition and its next event
};

struct page {
    int64_t unlocked_ns; // at the latest
    int64_t losses;      // losses at its last event
    uint32_t bytes;      // read from the device
    uint32_t group;
    uint32_t at;   // pages of its folio before it
    uint8_t order; // of its folio
    uint8_t flags;
};

struct thread {
    int64_t asked_ns; // last event of a read call, and the rest of this call
    uint64_t file;
    int64_t first;
    int64_t limit;
    int64_t gap;  // first page of the rest that was not in the cache
    uint64_t ins; // `ins` of the file at that time

    uint64_t first_file; // first page added by the thread since then
    int64_t first_page;  // -1: none

    uint64_t direct_file; // last direct call of the thread
    int64_t direct_begin;
    int64_t direct_end; // 0: none, or it has used the cache since
    int64_t direct_losses;
};

struct file {
    int64_t limit; // no page from here on was added
    uint64_t ins;  // number of additions
};

struct readahead {
    int64_t page_bytes;
    int64_t losses;
    struct map of_files;
    struct file *files;
    size_t nr_files, files_room;
    struct map of_threads;
    struct thread *threads;
    size_t nr_threads, threads_room;
    struct map of_pages; // struct page *
    struct pool pages;
    struct sums *groups;
    size_t nr_groups;
};

API struct readahead *readahead_new(int64_t page_bytes, size_t nr_groups);
API void readahead_free(struct readahead *cache);
// Process the next rows. Returns false if memory runs out.
API bool readahead_follow(struct readahead *cache, const struct page_rows *rows);
// Finish after the last row. Returns the outcomes of each group's reads.
API const struct sums *readahead_finish(struct readahead *cache);

struct readahead *readahead_new(int64_t page_bytes, size_t nr_groups)
{
    struct readahead *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return NULL;
    cache->page_bytes = page_bytes;
    cache->pages.size = sizeof(struct page);
    cache->nr_groups = nr_groups;
    cache->groups = calloc(nr_groups + 1, sizeof(*cache->groups));
    if (cache->groups)
        return cache;
    free(cache);
    return NULL;
}

void readahead_free(struct readahead *cache)
{
    map_free(&cache->of_files);
    map_free(&cache->of_threads);
    map_free(&cache->of_pages);
    pool_free(&cache->pages);
    free(cache->files);
    free(cache->threads);
    free(cache->groups);
    free(cache);
}

// --- files, threads and pages ----------------------------------------------------------------------------------------

// Return the index of the file, from 1; 0 if memory runs out.
static uint64_t file_of(struct readahead *cache, uint32_t dev, int64_t ino)
{
    uint64_t *number;

    if (!array_reserve(&cache->files, cache->nr_files, &cache->files_room, sizeof(*cache->files)))
        return 0;
    number = map_add(&cache->of_files, dev, (uint64_t)ino);
    if (!number)
        return 0;
    if (!*number) {
        cache->files[cache->nr_files] = (struct file){0};
        *number = ++cache->nr_files;
    }
    return *number;
}

static struct thread *thread_of(struct readahead *cache, int32_t tid)
{
    uint64_t *number;

    if (!array_reserve(&cache->threads, cache->nr_threads, &cache->threads_room, sizeof(*cache->threads)))
        return NULL;
    number = map_add(&cache->of_threads, 0, (uint32_t)tid);
    if (!number)
        return NULL;
    if (!*number) {
        cache->threads[cache->nr_threads] = (struct thread){.asked_ns = NO_INT64, .first_page = -1};
        *number = ++cache->nr_threads;
    }
    return &cache->threads[*number - 1];
}

static struct page *page_find(const struct readahead *cache, uint64_t file, int64_t number)
{
    return (struct page *)(uintptr_t)map_value(&cache->of_pages, file, (uint64_t)number);
}

static struct page *page_add(struct readahead *cache, uint64_t file, int64_t number)
{
    struct page *page = page_find(cache, file, number);
    uint64_t *place;

    if (page)
        return page;
    page = pool_take(&cache->pages);
    place = page ? map_add(&cache->of_pages, file, (uint64_t)number) : NULL;
    if (!place)
        return NULL;
    *page = (struct page){.losses = cache->losses};
    *place = (uintptr_t)page;
    if (number >= cache->files[file - 1].limit)
        cache->files[file - 1].limit = number + 1;
    return page;
}

// Register an event of the page. If rows are missing since its last event, its state is in doubt unless it was
// requested before.
static void page_heard(const struct readahead *cache, struct page *page)
{
    if (page->losses != cache->losses && !(page->flags & PAGE_ASKED))
        page->flags |= PAGE_DOUBT;
    page->losses = cache->losses;
}

static void account(struct readahead *cache, uint32_t group, enum part part, int64_t bytes, int64_t pages)
{
    cache->groups[group].bytes[part] += bytes;
    cache->groups[group].pages[part] += pages;
}

// Count the outcome of a page that left the cache, or at the end; `unasked` is its outcome if it was not requested.
static void settle(struct readahead *cache, struct page *page, enum part unasked)
{
    enum part part = unasked;

    page_heard(cache, page);
    if (page->flags & PAGE_DOUBT)
        part = PART_UNKNOWN;
    else if (page->flags & PAGE_ASKED)
        part = PART_ASKED;
    else if (page->flags & PAGE_PERHAPS || page->order >= HUGE_ORDER)
        part = PART_UNKNOWN;
    else if (page->flags & PAGE_MAPPED)
        part = PART_MAPPED;
    account(cache, page->group, part, page->bytes, page->bytes != 0);
}

// --- rows ------------------------------------------------------------------------------------------------------------

// Pages [first, limit) of a row.
struct span {
    uint64_t file;
    int64_t first;
    int64_t limit;
};

static struct span span_of(const struct readahead *cache, const struct page_rows *rows, size_t row, uint64_t file)
{
    struct span span = {file, rows->begin[row] / cache->page_bytes, (rows->end[row] - 1) / cache->page_bytes + 1};

    return span;
}

static void cut_to_known(const struct readahead *cache, struct span *span)
{
    if (span->limit > cache->files[span->file - 1].limit)
        span->limit = cache->files[span->file - 1].limit;
}

// Add pages with a folio. A page that is in the cache already has left it without an event.
static bool take_in(struct readahead *cache, const struct span *span, int32_t tid)
{
    struct thread *thread = thread_of(cache, tid);
    uint8_t order = 0;

    if (!thread)
        return false;
    if (thread->first_page < 0) {
        thread->first_file = span->file;
        thread->first_page = span->first;
    }
    thread->direct_end = 0;
    cache->files[span->file - 1].ins++;
    while (span->limit - span->first > (int64_t)1 << order)
        order++;
    for (int64_t number = span->first; number < span->limit; number++) {
        struct page *page = page_add(cache, span->file, number);
        bool is_wanted;

        if (!page)
            return false;
        is_wanted = page->flags == PAGE_ASKED && page->losses == cache->losses;
        if (page->flags & PAGE_IN)
            settle(cache, page, PART_UNKNOWN);
        *page = (struct page){.losses = cache->losses, .order = order, .flags = PAGE_IN};
        page->at = (uint32_t)(number - span->first);
        if (is_wanted)
            page->flags |= PAGE_ASKED;
    }
    return true;
}

static void take_gone(struct readahead *cache, struct span span)
{
    cut_to_known(cache, &span);
    for (int64_t number = span.first; number < span.limit; number++) {
        struct page *page = page_find(cache, span.file, number);

        if (!page)
            continue;
        settle(cache, page, PART_DROPPED);
        map_remove(&cache->of_pages, span.file, (uint64_t)number);
        pool_give_back(&cache->pages, page);
    }
}

static void mark(const struct readahead *cache, struct page *page, uint8_t flag)
{
    page_heard(cache, page);
    page->flags |= flag;
}

// Mark the pages in the cache. Returns the first page that is not.
static int64_t mark_span(const struct readahead *cache, struct span span, uint8_t flag)
{
    int64_t gap = -1, first = span.first;

    cut_to_known(cache, &span);
    for (int64_t number = span.first; number < span.limit; number++) {
        struct page *page = page_find(cache, span.file, number);

        if (page && page->flags & PAGE_IN)
            mark(cache, page, flag);
        else if (gap < 0)
            gap = number;
    }
    if (gap >= 0)
        return gap;
    return span.limit > first ? span.limit : first;
}

// Return whether the thread may have waited for the folio of this page since its last event. A folio can be read once
// all of it has been read from the device. A folio that the thread added since then was not in the cache before.
static bool may_have_waited(const struct readahead *cache, const struct thread *thread, uint64_t file, int64_t number)
{
    const struct page *page = page_find(cache, file, number);
    int64_t first, limit;

    if (!page)
        return false;
    first = number - page->at;
    limit = first + ((int64_t)1 << page->order);
    if (thread->first_page == first && thread->first_file == file)
        return false;
    for (number = first; number < limit; number++) {
        page = page_find(cache, file, number);
        if (page && number - page->at == first && page->bytes && page->unlocked_ns > thread->asked_ns)
            return true;
    }
    return false;
}

static bool is_unasked(const struct page *page)
{
    return page && page->flags & PAGE_IN && !(page->flags & (PAGE_ASKED | PAGE_PERHAPS));
}

// Mark pages that may have been requested without an event. When a call reaches a page that is still being read, the
// kernel copies the pages before it without an event and traces only the rest. So the pages before a page that the
// thread may have waited for may have been requested.
static void mark_before(const struct readahead *cache, const struct thread *thread, uint64_t file, int64_t first)
{
    struct page *page = page_find(cache, file, first - 1);

    if (!is_unasked(page) || !may_have_waited(cache, thread, file, first))
        return;
    for (int64_t number = first - 1; is_unasked(page); page = page_find(cache, file, --number))
        mark(cache, page, PAGE_PERHAPS);
}

static bool take_asked(struct readahead *cache, struct span span, int32_t tid, int64_t ts_ns)
{
    struct thread *thread = thread_of(cache, tid);
    int64_t first = span.first;
    uint64_t ins = cache->files[span.file - 1].ins;
    bool goes_on;

    if (!thread)
        return false;
    goes_on = thread->file == span.file && thread->limit == span.limit && first > thread->first;
    if (!goes_on)
        mark_before(cache, thread, span.file, first);
    else if (thread->gap < first)
        span.first = thread->gap;
    if (!goes_on || thread->ins != ins) // otherwise the last event of this call has marked all pages in the cache
        thread->gap = mark_span(cache, span, PAGE_ASKED);
    thread->asked_ns = ts_ns;
    thread->file = span.file;
    thread->first = first;
    thread->limit = span.limit;
    thread->ins = ins;
    thread->first_page = -1;
    return true;
}

static bool take_wanted(struct readahead *cache, const struct span *span)
{
    for (int64_t number = span->first; number < span->limit; number++) {
        struct page *page = page_add(cache, span->file, number);

        if (!page)
            return false;
        mark(cache, page, PAGE_ASKED);
    }
    return true;
}

// The event does not identify the dirty pages of a folio of several pages.
static void take_dirty(const struct readahead *cache, struct span span)
{
    const struct page *page = page_find(cache, span.file, span.first);

    if (!page || !(page->flags & PAGE_IN))
        return;
    span.limit = span.first + ((int64_t)1 << page->order);
    mark_span(cache, span, page->order ? PAGE_PERHAPS : PAGE_ASKED);
}

static bool take_direct(struct readahead *cache, const struct page_rows *rows, size_t row, uint64_t file)
{
    struct thread *thread = thread_of(cache, rows->tid[row]);

    if (!thread)
        return false;
    thread->direct_file = file;
    thread->direct_begin = rows->begin[row];
    thread->direct_end = rows->end[row];
    thread->direct_losses = cache->losses;
    return true;
}

static bool is_direct(const struct readahead *cache, const struct thread *thread, const struct page_rows *rows,
                      size_t row, uint64_t file)
{
    return thread->direct_file == file && thread->direct_losses == cache->losses &&
           thread->direct_begin <= rows->begin[row] && rows->end[row] <= thread->direct_end;
}

// Account for bytes read from the device: into cached pages that are not full. The purpose of the rest is unknown.
static bool take_read(struct readahead *cache, const struct page_rows *rows, size_t row, const struct span *whole)
{
    const struct thread *thread = thread_of(cache, rows->tid[row]);
    int64_t unlocked_ns = INT64_MAX, left;
    struct span span = *whole;

    if (!thread)
        return false;
    left = rows->end[row] - rows->begin[row];
    if (is_direct(cache, thread, rows, row, span.file)) {
        account(cache, rows->group[row], PART_DIRECT, left, span.limit - span.first);
        return true;
    }
    if (rows->done_ns[row] != NO_INT64 && rows->done_ns[row] < INT64_MAX - UNLOCK_NS)
        unlocked_ns = rows->done_ns[row] + UNLOCK_NS;
    cut_to_known(cache, &span);
    for (int64_t number = span.first; number < span.limit; number++) {
        struct page *page = page_find(cache, span.file, number);
        int64_t begin = number * cache->page_bytes, end = begin + cache->page_bytes;
        int64_t bytes =
            (end < rows->end[row] ? end : rows->end[row]) - (begin > rows->begin[row] ? begin : rows->begin[row]);

        if (!page || !(page->flags & PAGE_IN) || page->bytes + bytes > cache->page_bytes ||
            (page->bytes && page->group != rows->group[row]))
            continue;
        page_heard(cache, page);
        page->bytes += (uint32_t)bytes;
        page->group = rows->group[row];
        if (page->unlocked_ns < unlocked_ns)
            page->unlocked_ns = unlocked_ns;
        left -= bytes;
    }
    account(cache, rows->group[row], PART_UNKNOWN, left, (left + cache->page_bytes - 1) / cache->page_bytes);
    return true;
}

static bool take_row(struct readahead *cache, const struct page_rows *rows, size_t row)
{
    struct span span;
    uint64_t file;

    if (rows->kind[row] == ROW_LOST) {
        cache->losses++;
        return true;
    }
    file = file_of(cache, rows->dev[row], rows->ino[row]);
    if (!file)
        return false;
    span = span_of(cache, rows, row, file);
    switch ((enum row_kind)rows->kind[row]) {
    case ROW_IN:
        return take_in(cache, &span, rows->tid[row]);
    case ROW_GONE:
        take_gone(cache, span);
        return true;
    case ROW_ASKED:
        return take_asked(cache, span, rows->tid[row], rows->ts_ns[row]);
    case ROW_WANTED:
        return take_wanted(cache, &span);
    case ROW_MAPPED:
        mark_span(cache, span, PAGE_MAPPED);
        return true;
    case ROW_DIRTY:
        take_dirty(cache, span);
        return true;
    case ROW_READ:
        return take_read(cache, rows, row, &span);
    case ROW_DIRECT:
        return take_direct(cache, rows, row, file);
    case ROW_LOST:
        break;
    }
    return true;
}

bool readahead_follow(struct readahead *cache, const struct page_rows *rows)
{
    for (size_t row = 0; row < rows->rows; row++)
        if (!take_row(cache, rows, row))
            return false;
    return true;
}

const struct sums *readahead_finish(struct readahead *cache)
{
    for (size_t at = 0; at < cache->of_pages.room; at++)
        if (cache->of_pages.slots[at].value)
            settle(cache, (struct page *)(uintptr_t)cache->of_pages.slots[at].value, PART_PENDING);
    return cache->groups;
}
