// An event becomes steps of the blocks that it is about.
#include "owner/events.h"

#include "owner/opens.h"

static const int64_t LARGEST_FILE = (int64_t)1 << 60, LARGEST_FOLIO = (int64_t)1 << 29, LARGEST_PAGE = 1 << 18;
enum { LARGEST_ORDER = 17 };

static struct maker *maker_of(struct owners *owners, const struct event *event)
{
    uint64_t number = map_value(&owners->of_makers, event->file, (uint32_t)event->tid);

    return number ? &owners->makers[number - 1] : NULL;
}

// A thread that submits the block behind its write has come to the end of it.
static bool is_writing(const struct maker *maker, const struct block *block, int32_t tid)
{
    return maker && maker->event && !(block->out > maker->event && block->out_tid == tid && tid != NO_INT32);
}

static bool touch(struct owners *owners, const struct event *event, struct maker *maker, int64_t file_block,
                  uint8_t kind)
{
    struct file *file = &owners->blocks.files[event->file];
    struct block *block = blocks_add(&owners->blocks, file, file_block);
    const struct thread *thread = &owners->threads[event->thread];
    struct step step = {.ts_ns = event->ts_ns, .event = owners->event, .thread = event->thread, .kind = kind};
    bool is_dirty = kind == TOUCH_DIRTY, is_same;

    if (!block)
        return false;
    step.is_begun = touch_makes(kind) && !(kind == TOUCH_STORE && event->device->flags & STORES_DIRTY);
    step.is_writing = is_dirty && is_writing(maker, block, event->tid);
    if (touch_makes(kind))
        maker->event = owners->event;
    if (is_dirty && !thread->is_mover && !set_add(&file->changers, thread->process))
        return false;
    if (block->waiting || block->is_kept) {
        const struct step *late = steps_last(block->is_kept ? &block->steps : &block->waiting->steps);

        is_same = event->tid != NO_INT32 && owners->threads[late->thread].tid == event->tid;
        if (block->is_kept && is_dirty && is_same)
            block->steps.steps[0].is_late = true;
        else if (block->is_kept)
            steps_remove(&block->steps, 0);
        else if (is_dirty && is_same && !opens_move_late(block))
            return false;
        block->is_kept = false;
        block->waiting = NULL;
    }
    block->was_clean = block->is_clean;
    block->is_clean = false;
    block->touched_ns = event->ts_ns;
    return steps_add(&block->steps, &step);
}

// What was put into a block that is dropped, or comes into the cache only now, is in nothing that is written out later;
// but for a write that is under way.
static bool drop(struct owners *owners, const struct event *event, int64_t file_block)
{
    struct file *file = &owners->blocks.files[event->file];
    struct block *block = blocks_add(&owners->blocks, file, file_block);
    struct open_write *open = NULL;
    struct steps *steps;

    if (!block)
        return false;
    steps = &block->steps;
    if (steps->count > 0 && steps_last(steps)->is_begun)
        open = opens_of(owners, steps_last(steps));
    if (open && !block->is_kept && !opens_keep(open, file->life, file_block))
        return false;
    if (open && steps->count > 1)
        steps->steps[0] = *steps_last(steps);
    steps->count = open ? 1 : 0;
    block->is_kept = open != NULL;
    block->is_clean = block->was_clean = true;
    block->is_ahead = false;
    block->absent_ns = event->ts_ns;
    if (event->kind == EVENT_CACHED)
        block->is_in_folio = event->order > 0 && event->order != NO_CODE;
    return true;
}

static int64_t ceil_div(int64_t bytes, int64_t size)
{
    return (bytes + size - 1) / size;
}

// What is absent is only where all of the block is.
static bool drop_all(struct owners *owners, const struct event *event, int64_t begin, int64_t end)
{
    int64_t size = event->device->size;

    for (int64_t at = ceil_div(begin, size); at < end / size; at++)
        if (!drop(owners, event, at))
            return false;
    return true;
}

static bool touch_blocks(struct owners *owners, const struct event *event, struct maker *maker, int64_t first,
                         int64_t last, uint8_t kind)
{
    for (int64_t at = first; at <= last; at++)
        if (!touch(owners, event, maker, at, kind))
            return false;
    return true;
}

// One event says of a whole folio that it became dirty, by a write or store to a part of it that another tells. What is
// beyond that part may have been touched. Of a folio that no event told the length of, the write tells which page it
// is.
static bool dirty_all(struct owners *owners, const struct event *event, int64_t begin, int64_t end, bool is_sized)
{
    struct maker *maker = maker_of(owners, event);
    int64_t size = event->device->size, first = begin, limit = end, reach = end, low, high;

    if (!is_sized && event->device->flags & HAS_FOLIOS)
        reach = begin + LARGEST_FOLIO;
    if (maker && event->tid != NO_INT32 && maker->begin < reach && begin < maker->end) {
        first = begin > maker->begin ? begin : maker->begin;
        limit = reach < maker->end ? reach : maker->end;
    }
    low = first / size;
    high = (limit - 1) / size;
    if (!touch_blocks(owners, event, maker, low, high, TOUCH_DIRTY))
        return false;
    first = first < end ? first : end;
    if (first > begin && !touch_blocks(owners, event, maker, begin / size,
                                       (first - 1) / size < low ? (first - 1) / size : low - 1, TOUCH_MAYBE))
        return false;
    return limit >= end || touch_blocks(owners, event, maker, limit / size > high ? limit / size : high + 1,
                                        (end - 1) / size, TOUCH_MAYBE);
}

static bool fits(int64_t begin, int64_t length)
{
    return begin >= 0 && begin <= LARGEST_FILE && length >= 1 && length <= LARGEST_FOLIO;
}

// The bytes of a file that an event of pages is about; false where it does not tell.
static bool span_of_pages(const struct owners *owners, const struct page_events *events, size_t row, uint8_t order,
                          int64_t *begin, int64_t *length)
{
    int64_t page = events->page[row], size = owners->page_bytes;

    if (!size || page == NO_INT64 || page > LARGEST_FILE / LARGEST_PAGE || page < 0)
        return false;
    *begin = page * size;
    *length = order == NO_CODE ? size : size << order;
    if (events->kind[row] != EVENT_CUT)
        return true;
    if (events->offset_bytes[row] == NO_INT64 || events->nr_bytes[row] == NO_INT64)
        return false;
    if (events->offset_bytes[row] < 0 || events->offset_bytes[row] > LARGEST_FILE)
        return false;
    *begin += events->offset_bytes[row];
    *length = events->nr_bytes[row];
    return true;
}

static bool take_cached(struct owners *owners, const struct event *event, int64_t begin, bool is_told)
{
    struct block *block;

    if (!is_told)
        return true;
    block = blocks_add(&owners->blocks, &owners->blocks.files[event->file], begin / event->device->size);
    if (!block)
        return false;
    block->order = event->order;
    return true;
}

// The address tells the block that a store begins in, as its place in a page; others of the page may be stored to.
static bool store(struct owners *owners, const struct event *event, int64_t begin, int64_t end, int64_t address)
{
    struct maker *maker = maker_of(owners, event);
    int64_t size = event->device->size, first = begin / size, last = (end - 1) / size;
    int64_t at = address < 0 ? first : (begin + address % owners->page_bytes) / size;
    uint8_t kind = size >= owners->page_bytes || address >= 0 ? TOUCH_STORE : TOUCH_MAYBE;

    return touch_blocks(owners, event, maker, first, at - 1, TOUCH_MAYBE) && touch(owners, event, maker, at, kind) &&
           touch_blocks(owners, event, maker, at + 1, last, TOUCH_MAYBE);
}

static bool take_pages(struct owners *owners, const struct event *event, const struct page_events *events, size_t row)
{
    const struct block *block;
    int32_t order = events->page_order[row];
    int64_t begin, length;

    if (!span_of_pages(owners, events, row, event->order, &begin, &length))
        return true;
    if (event->kind == EVENT_CACHED &&
        !take_cached(owners, event, begin, order != NO_INT32 && order >= 0 && order <= LARGEST_ORDER))
        return false;
    // A write that brings its page into the cache begins before. Only the page's becoming dirty would confirm it.
    if (event->kind == EVENT_CACHED && !(event->device->flags & TELLS_DIRTY))
        return true;
    if (event->kind == EVENT_DIRTY) {
        block = blocks_find(&owners->blocks, owners->blocks.files[event->file].life, begin / event->device->size);
        length = owners->page_bytes << (block && block->order != NO_CODE ? block->order : 0);
        return !fits(begin, length) ||
               dirty_all(owners, event, begin, begin + length, block && block->order != NO_CODE);
    }
    if (!fits(begin, length))
        return true;
    if (event->kind == EVENT_STORE)
        return opens_begin(owners, event, begin, begin + length) &&
               store(owners, event, begin, begin + length, events->offset_bytes[row]);
    return drop_all(owners, event, begin, begin + length);
}

static bool take_write(struct owners *owners, const struct event *event, int64_t begin, int64_t length)
{
    int64_t size = event->device->size;

    if (begin == NO_INT64 || length == NO_INT64 || !fits(begin, length))
        return true;
    return opens_begin(owners, event, begin, begin + length) &&
           touch_blocks(owners, event, maker_of(owners, event), begin / size, (begin + length - 1) / size, TOUCH_WRITE);
}

bool events_take(struct owners *owners, const struct page_events *events, size_t row, uint32_t thread)
{
    int32_t order = events->page_order[row];
    struct file *file;
    struct event event = {
        .ts_ns = events->ts_ns[row],
        .device = device_of(owners, events->dev[row]),
        .tid = events->tid[row],
        .thread = thread,
        .kind = events->kind[row],
    };

    owners->event++;
    if (events->dev[row] == NO_UINT32 || events->ino[row] == NO_INT64)
        return true;
    file = blocks_file(&owners->blocks, events->dev[row], events->ino[row]);
    if (!file)
        return false;
    event.file = (size_t)(file - owners->blocks.files);
    event.order = order == NO_INT32 ? NO_CODE : order < 0 ? 0 : order > LARGEST_ORDER ? LARGEST_ORDER : (uint8_t)order;
    if (event.kind == EVENT_BEGINS)
        blocks_forget(&owners->blocks, file);
    else if (event.kind == EVENT_WRITE)
        return take_write(owners, &event, events->offset_bytes[row], events->nr_bytes[row]);
    else
        return take_pages(owners, &event, events, row);
    return true;
}
