#include "pagecache/events.h"

#include "pagecache/in_flight.h"

static const int64_t LARGEST_FILE = (int64_t)1 << 60, LARGEST_FOLIO = (int64_t)1 << 29, LARGEST_PAGE = 1 << 18;
enum { LARGEST_ORDER = 17 };

static struct file *file_of(struct pagecache *cache, const struct event *event)
{
    return &cache->blocks.files[event->file];
}

static struct recent_write *find_recent_write(struct pagecache *cache, const struct event *event)
{
    uint64_t index = map_value(&cache->recent_write_index, event->file, (uint32_t)event->tid);

    return index ? &cache->recent_writes[index - 1] : NULL;
}

// A thread that submits the block after its write has completed that write.
static bool is_within_write(const struct recent_write *recent, const struct block *block, int32_t tid)
{
    bool has_submitted = block->writeback_tid == tid && tid != NO_INT32;

    return recent && recent->event && !(has_submitted && block->writeback > recent->event);
}

// Decide whether the write that was in flight at the last writeback or drop belongs to this interval: it does if the
// next event of the block is that the same thread dirties it.
static bool settle_in_flight(struct pagecache *cache, struct block *block, const struct event *event, uint8_t kind)
{
    const struct touch *write = last_touch(block->is_retained ? &block->touches : &block->pending->touches);
    bool is_same = event->tid != NO_INT32 && cache->threads[write->thread].tid == event->tid;
    bool is_dirtied = kind == TOUCH_DIRTY && is_same, is_done = true;

    if (block->is_retained && is_dirtied)
        block->touches.touches[0].was_in_flight = true;
    else if (block->is_retained)
        remove_touch(&block->touches, 0);
    else if (is_dirtied)
        is_done = move_to_next_interval(block);
    block->is_retained = false;
    block->pending = NULL;
    return is_done;
}

static bool touch_block(struct pagecache *cache, const struct event *event, struct recent_write *recent,
                        int64_t file_block, uint8_t kind)
{
    struct file *file = file_of(cache, event);
    struct block *block = add_block(&cache->blocks, file, file_block);
    const struct thread *thread = &cache->threads[event->thread];
    struct touch touch = {.ts_ns = event->ts_ns, .event = cache->event, .thread = event->thread, .kind = kind};
    bool is_dirty = kind == TOUCH_DIRTY;

    if (!block)
        return false;
    touch.may_dirty = is_modification(&touch) && !(kind == TOUCH_STORE && event->device->flags & DIRTIES_BEFORE_STORE);
    touch.is_within_write = is_dirty && is_within_write(recent, block, event->tid);
    if (is_modification(&touch))
        recent->event = cache->event;
    if (is_dirty && !thread->is_kernel && !add_process(&file->dirtiers, thread->process))
        return false;
    if ((block->pending || block->is_retained) && !settle_in_flight(cache, block, event, kind))
        return false;
    block->was_clean = block->is_clean;
    block->is_clean = false;
    block->touched_ns = event->ts_ns;
    return append_touch(&block->touches, &touch);
}

static bool touch_range(struct pagecache *cache, const struct event *event, struct recent_write *recent, int64_t first,
                        int64_t last, uint8_t kind)
{
    for (int64_t at = first; at <= last; at++)
        if (!touch_block(cache, event, recent, at, kind))
            return false;
    return true;
}

// No later writeback carries what was modified before the block was dropped or added to the cache, except for a write
// in flight.
static bool drop_block(struct pagecache *cache, const struct event *event, int64_t file_block)
{
    struct file *file = file_of(cache, event);
    struct block *block = add_block(&cache->blocks, file, file_block);
    struct in_flight_write *write = NULL;
    struct touches *touches;

    if (!block)
        return false;
    touches = &block->touches;
    if (touches->count > 0 && last_touch(touches)->may_dirty)
        write = find_in_flight(cache, last_touch(touches));
    if (write && !block->is_retained && !retain_block(write, file->lifetime, file_block))
        return false;
    if (write && touches->count > 1)
        touches->touches[0] = *last_touch(touches);
    touches->count = write ? 1 : 0;
    block->is_retained = write != NULL;
    block->is_clean = block->was_clean = true;
    block->is_redirtied = false;
    block->absent_ns = event->ts_ns;
    if (event->kind == EVENT_ADDED)
        block->is_in_folio = event->order > 0 && event->order != NO_CODE;
    return true;
}

static int64_t ceil_div(int64_t bytes, int64_t size)
{
    return (bytes + size - 1) / size;
}

// Drop the blocks that lie completely in the range.
static bool drop_range(struct pagecache *cache, const struct event *event, int64_t begin, int64_t end)
{
    int64_t size = event->device->block_bytes;

    for (int64_t at = ceil_div(begin, size); at < end / size; at++)
        if (!drop_block(cache, event, at))
            return false;
    return true;
}

// One event states that a whole folio became dirty, although the thread wrote only a part of it. The rest may have been
// modified. If the size of the folio is unknown (`is_sized`), the write states which of its pages became dirty.
static bool dirty_folio(struct pagecache *cache, const struct event *event, int64_t begin, int64_t end, bool is_sized)
{
    struct recent_write *recent = find_recent_write(cache, event);
    int64_t size = event->device->block_bytes, first = begin, limit = end, reach = end, low, high;

    if (!is_sized && event->device->flags & HAS_LARGE_FOLIOS)
        reach = begin + LARGEST_FOLIO;
    if (recent && event->tid != NO_INT32 && recent->begin < reach && begin < recent->end) {
        first = begin > recent->begin ? begin : recent->begin;
        limit = reach < recent->end ? reach : recent->end;
    }
    low = first / size;
    high = (limit - 1) / size;
    if (!touch_range(cache, event, recent, low, high, TOUCH_DIRTY))
        return false;
    first = first < end ? first : end;
    if (first > begin && !touch_range(cache, event, recent, begin / size,
                                      (first - 1) / size < low ? (first - 1) / size : low - 1, TOUCH_MAYBE))
        return false;
    return limit >= end || touch_range(cache, event, recent, limit / size > high ? limit / size : high + 1,
                                       (end - 1) / size, TOUCH_MAYBE);
}

// The address of a store states the block that it begins in. The other blocks of the page may have been modified.
static bool store_to_page(struct pagecache *cache, const struct event *event, int64_t begin, int64_t end,
                          int64_t address)
{
    struct recent_write *recent = find_recent_write(cache, event);
    int64_t size = event->device->block_bytes, first = begin / size, last = (end - 1) / size;
    int64_t at = address < 0 ? first : (begin + address % cache->page_bytes) / size;
    uint8_t kind = size >= cache->page_bytes || address >= 0 ? TOUCH_STORE : TOUCH_MAYBE;

    return touch_range(cache, event, recent, first, at - 1, TOUCH_MAYBE) &&
           touch_block(cache, event, recent, at, kind) && touch_range(cache, event, recent, at + 1, last, TOUCH_MAYBE);
}

static bool fits(int64_t begin, int64_t length)
{
    return begin >= 0 && begin <= LARGEST_FILE && length >= 1 && length <= LARGEST_FOLIO;
}

// Set the bytes of the file that an event of pages is about. Return false if it does not state them.
static bool find_range(const struct pagecache *cache, const struct page_events *events, size_t row, uint8_t order,
                       int64_t *begin, int64_t *length)
{
    int64_t page = events->page[row], size = cache->page_bytes, offset = events->offset_bytes[row];

    if (!size || page < 0 || page > LARGEST_FILE / LARGEST_PAGE)
        return false;
    *begin = page * size;
    *length = order == NO_CODE ? size : size << order;
    if (events->kind[row] != EVENT_INVALIDATED)
        return true;
    if (events->nr_bytes[row] == NO_INT64 || offset < 0 || offset > LARGEST_FILE)
        return false;
    *begin += offset;
    *length = events->nr_bytes[row];
    return true;
}

static bool take_dirty(struct pagecache *cache, const struct event *event, int64_t begin)
{
    const struct block *block =
        find_block(&cache->blocks, file_of(cache, event)->lifetime, begin / event->device->block_bytes);
    bool is_sized = block && block->order != NO_CODE;
    int64_t length = cache->page_bytes << (is_sized ? block->order : 0);

    return !fits(begin, length) || dirty_folio(cache, event, begin, begin + length, is_sized);
}

static bool set_folio_order(struct pagecache *cache, const struct event *event, int64_t begin)
{
    struct block *block = add_block(&cache->blocks, file_of(cache, event), begin / event->device->block_bytes);

    if (block)
        block->order = event->order;
    return block != NULL;
}

static bool take_pages(struct pagecache *cache, const struct event *event, const struct page_events *events, size_t row)
{
    int32_t order = events->page_order[row];
    int64_t begin, length;

    if (!find_range(cache, events, row, event->order, &begin, &length))
        return true;
    if (event->kind == EVENT_DIRTY)
        return take_dirty(cache, event, begin);
    if (event->kind == EVENT_ADDED && order >= 0 && order <= LARGEST_ORDER && !set_folio_order(cache, event, begin))
        return false;
    // A write that adds its page to the cache begins before. Only a dirtying event would confirm it.
    if (event->kind == EVENT_ADDED && !(event->device->flags & RECORDS_DIRTY))
        return true;
    if (!fits(begin, length))
        return true;
    if (event->kind == EVENT_STORE)
        return begin_write(cache, event, begin, begin + length) &&
               store_to_page(cache, event, begin, begin + length, events->offset_bytes[row]);
    return drop_range(cache, event, begin, begin + length);
}

static bool take_write(struct pagecache *cache, const struct event *event, int64_t begin, int64_t length)
{
    int64_t size = event->device->block_bytes;

    return !fits(begin, length) || (begin_write(cache, event, begin, begin + length) &&
                                    touch_range(cache, event, find_recent_write(cache, event), begin / size,
                                                (begin + length - 1) / size, TOUCH_WRITE));
}

static uint8_t clamp_order(int32_t order)
{
    if (order == NO_INT32)
        return NO_CODE;
    if (order < 0)
        return 0;
    return order > LARGEST_ORDER ? LARGEST_ORDER : (uint8_t)order;
}

bool take_event(struct pagecache *cache, const struct page_events *events, size_t row, uint32_t thread)
{
    struct file *file;
    struct event event = {
        .ts_ns = events->ts_ns[row],
        .device = device_of(cache, events->dev[row]),
        .tid = events->tid[row],
        .thread = thread,
        .kind = events->kind[row],
        .order = clamp_order(events->page_order[row]),
    };

    cache->event++;
    if (events->dev[row] == NO_UINT32 || events->ino[row] == NO_INT64)
        return true;
    file = add_file(&cache->blocks, events->dev[row], events->ino[row]);
    if (!file)
        return false;
    event.file = (size_t)(file - cache->blocks.files);
    if (event.kind == EVENT_WRITE)
        return take_write(cache, &event, events->offset_bytes[row], events->nr_bytes[row]);
    if (event.kind != EVENT_NEW_LIFETIME)
        return take_pages(cache, &event, events, row);
    end_lifetime(&cache->blocks, file);
    return true;
}
