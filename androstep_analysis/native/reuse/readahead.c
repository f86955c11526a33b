// What became of pages that were read from a device: the page cache, as far as it came in within the recording, and
// which of its pages somebody asked for (measures/readahead.py, which mirrors these structures).

#include <string.h>

#include "core/array.h"
#include "core/map.h"
#include "core/pool.h"
#include "core/table.h"

// From here on a folio may be mapped as a whole, without an event, at a touch of any of its pages (PMD_ORDER is 9 where
// pages have 4 KiB, and more where they are larger).
enum { HUGE_ORDER = 9 };

// A page may be waited for this long behind the event of its request's completion: the kernel tells that first, and
// then unlocks one folio after the other, on a CPU that may be taken away meanwhile.
enum { UNLOCK_NS = 10 * 1000 * 1000 };

// What a row tells, of bytes of a file: they come into the cache or leave it; a read call wants them, or its rest, and
// those that are there are handed over; a fault or a write wants them, which may still have to come in; they may be
// mapped, if they are there; the folio that begins there became dirty; they are read from the device; a direct call
// wants them. Or rows are missing here.
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

// Rows in order of time; see core/table.h for what holds no value.
struct page_rows {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *begin; // bytes of the file
    const int64_t *end;
    const int64_t *done_ns; // of ROW_READ: when it completed
    const int32_t *tid;
    const uint32_t *group; // of ROW_READ: whose it is
    const uint8_t *kind;
};

// What became of a group's reads.
struct sums {
    int64_t bytes[NR_PARTS];
    int64_t pages[NR_PARTS]; // as often as they were read, whole or in part
};

enum {
    PAGE_IN = 1,      // came in within the recording
    PAGE_ASKED = 2,   // somebody asked for it
    PAGE_MAPPED = 4,  // it may have been touched: it was mapped around a fault
    PAGE_PERHAPS = 8, // somebody may have asked for it without an event
    PAGE_DOUBT = 16,  // rows are missing between its coming in and the next that tells of it
};

struct page {
    int64_t unlocked_ns; // at the latest
    int64_t losses;      // how often rows were missing when it was last heard of
    uint32_t bytes;      // read from the device
    uint32_t group;
    uint32_t at;   // how many pages of its folio lie before it
    uint8_t order; // of its folio
    uint8_t flags;
};

struct thread {
    int64_t asked_ns; // the last event of a read call, and what is left of that call
    uint64_t file;
    int64_t first;
    int64_t limit;
    int64_t gap;  // the first page of it that was not there
    uint64_t ins; // of the file then

    uint64_t first_file; // the first page that it brought in since
    int64_t first_page;  // -1: none

    uint64_t direct_file; // its last direct call
    int64_t direct_begin;
    int64_t direct_end; // 0: none, or it used the cache since
    int64_t direct_losses;
};

struct file {
    int64_t limit; // no page of it from here on came in
    uint64_t ins;  // how often pages came in
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
// Rows that follow what came before. False where memory is short.
API bool readahead_follow(struct readahead *cache, const struct page_rows *rows);
// Nothing follows: returns what became of each group's reads.
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

// Number of the file, from 1 on; 0 where memory is short.
static uint64_t file_of(struct readahead *cache, uint32_t dev, int64_t ino)
{
    uint64_t *number;

    if (cache->nr_files == cache->files_room) {
        struct file *grown = array_grow(cache->files, &cache->files_room, sizeof(*grown));

        if (!grown)
            return 0;
        cache->files = grown;
    }
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

    if (cache->nr_threads == cache->threads_room) {
        struct thread *grown = array_grow(cache->threads, &cache->threads_room, sizeof(*grown));

        if (!grown)
            return NULL;
        cache->threads = grown;
    }
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

// Something is told of the page: what rows that are missing may have told before leaves only what was known then.
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

// The page is no longer, or nothing more is told of it: `unasked` is what it is if nobody asked for it.
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

// The pages of a row that may be known: [first, limit).
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

// Pages come in with a folio. One that is there already left without a word.
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

// Marks the pages that came in; returns the first that did not.
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

// Whether the thread may have waited for the folio of this page since its last event. It is read when all of it is;
// what the thread only then brought in was not there before.
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

// The kernel hands over pages of a call without an event where it comes to one that is still being read, and tells only
// what follows. So those that lie before a page that the thread may have waited for may have been asked for.
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
    if (!goes_on || thread->ins != ins) // else this call's last event has marked all that is there
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

// Of a folio of several pages it is not told which became dirty.
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

// Bytes are read: into pages that came in and are not full; of others it is not known for what.
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
