#include "pagecache/in_flight.h"

#include "core/array.h"

static struct recent_write *add_recent_write(struct pagecache *cache, const struct event *event)
{
    uint64_t *index = map_add(&cache->recent_write_index, event->file, (uint32_t)event->tid);

    if (!index)
        return NULL;
    if (!*index) {
        *index = cache->nr_recent_writes + 1;
        if (!array_reserve(&cache->recent_writes, cache->nr_recent_writes, &cache->recent_writes_capacity,
                           sizeof(*cache->recent_writes)))
            return NULL;
        cache->recent_writes[cache->nr_recent_writes++] = (struct recent_write){0};
    }
    return &cache->recent_writes[*index - 1];
}

static struct in_flight_write *find_in_flight_of(const struct pagecache *cache, int32_t tid)
{
    uint64_t index = tid == NO_INT32 ? 0 : map_value(&cache->in_flight_index, (uint32_t)tid, 0);

    return index ? &cache->in_flight[index - 1] : NULL;
}

static struct in_flight_write *add_in_flight(struct pagecache *cache, int32_t tid)
{
    uint64_t *index;

    if (!array_reserve(&cache->in_flight, cache->nr_in_flight, &cache->in_flight_capacity, sizeof(*cache->in_flight)))
        return NULL;
    index = map_add(&cache->in_flight_index, (uint32_t)tid, 0);
    if (!index)
        return NULL;
    cache->in_flight[cache->nr_in_flight] = (struct in_flight_write){0};
    *index = ++cache->nr_in_flight;
    return &cache->in_flight[*index - 1];
}

// It is uncertain that this write modified the block, and it does not dirty it later.
static void mark_uncertain(struct touches *touches, uint64_t event)
{
    for (size_t at = touches->count; at-- > 0;) {
        struct touch *touch = &touches->touches[at];

        if (touch->event != event || touch->kind != TOUCH_WRITE)
            continue;
        touch->kind = TOUCH_MAYBE;
        touch->may_dirty = false;
        if (touch->was_in_flight)
            remove_touch(touches, at);
    }
}

static bool mark_pending_uncertain(struct pending_interval *pending, uint64_t event)
{
    struct touch touch = pending->moved;

    mark_uncertain(&pending->touches, event);
    pending->is_write_moved = false;
    if (touch.event != event)
        return true;
    touch.kind = TOUCH_MAYBE;
    touch.may_dirty = touch.was_in_flight = false;
    return append_touch(&pending->touches, &touch);
}

// Another event states the rest of this write, from byte `rest` on. It is uncertain that the rest was written before.
static bool shorten_write(struct pagecache *cache, struct in_flight_write *write, int64_t rest)
{
    int64_t last = (rest - 1) / write->block_bytes;

    for (int64_t at = last + 1; at <= (write->end - 1) / write->block_bytes; at++) {
        struct block *block = find_block(&cache->blocks, write->lifetime, at);

        if (block)
            mark_uncertain(&block->touches, write->event);
    }
    for (size_t at = 0; at < write->nr_pending; at++)
        if (write->pending[at]->interval.file_block > last && !mark_pending_uncertain(write->pending[at], write->event))
            return false;
    return true;
}

// Return whether the event states the rest of the write: the kernel writes a page or folio at a time.
static bool is_continued(const struct in_flight_write *write, const struct event *event, int64_t begin, int64_t end)
{
    bool is_rest = begin > write->begin && begin < write->end && end == write->end;

    return write->is_write && write->file == event->file && is_rest;
}

bool begin_write(struct pagecache *cache, const struct event *event, int64_t begin, int64_t end)
{
    struct recent_write *recent = add_recent_write(cache, event);
    struct in_flight_write *write;

    if (!recent)
        return false;
    recent->begin = begin;
    recent->end = end;
    if (event->tid == NO_INT32)
        return true;
    write = find_in_flight_of(cache, event->tid);
    if (write && is_continued(write, event, begin, end) && !shorten_write(cache, write, begin))
        return false;
    if (write && !end_write(cache, write))
        return false;
    write = write ? write : add_in_flight(cache, event->tid);
    if (!write)
        return false;
    write->file = event->file;
    write->lifetime = cache->blocks.files[event->file].lifetime;
    write->event = cache->event;
    write->begin = begin;
    write->end = end;
    write->block_bytes = event->device->block_bytes;
    write->is_write = event->kind == EVENT_WRITE;
    return true;
}

static bool evaluate_pending(struct pagecache *cache, struct pending_interval *pending)
{
    bool is_done;

    if (pending->is_write_moved)
        pending->interval.is_clean = pending->is_clean_if_moved;
    is_done = evaluate_interval(&cache->evaluator, &pending->touches, pending->records_dirty, &pending->writeback,
                                &pending->interval) &&
              append_interval(cache, &pending->interval);
    free(pending->touches.touches);
    free(pending);
    return is_done;
}

static void release_retained(struct pagecache *cache, const struct in_flight_write *write)
{
    for (size_t at = 0; at < write->nr_retained; at++) {
        const struct block_key *key = &write->retained[at];
        struct block *block = find_block(&cache->blocks, key->lifetime, key->file_block);

        if (block && block->is_retained && block->touches.touches[0].event == write->event) {
            block->is_retained = false;
            remove_touch(&block->touches, 0);
        }
    }
}

bool end_write(struct pagecache *cache, struct in_flight_write *write)
{
    bool is_done = true;

    release_retained(cache, write);
    for (size_t at = 0; at < write->nr_pending; at++) {
        struct pending_interval *pending = write->pending[at];
        struct block *block = find_block(&cache->blocks, pending->lifetime, pending->interval.file_block);

        if (block && block->pending == pending && last_touch(&pending->touches)->event == write->event)
            block->pending = NULL;
        if (--pending->nr_in_flight == 0)
            is_done &= evaluate_pending(cache, pending);
    }
    write->nr_retained = write->nr_pending = 0;
    return is_done;
}

struct in_flight_write *find_in_flight(const struct pagecache *cache, const struct touch *touch)
{
    struct in_flight_write *write;

    if (!is_modification(touch))
        return NULL;
    write = find_in_flight_of(cache, cache->threads[touch->thread].tid);
    return write && write->event == touch->event ? write : NULL;
}

bool wait_for_write(struct in_flight_write *write, struct pending_interval *pending)
{
    if (write->nr_pending > 0 && write->pending[write->nr_pending - 1] == pending)
        return true;
    if (!array_reserve(&write->pending, write->nr_pending, &write->pending_capacity, sizeof(struct pending_interval *)))
        return false;
    write->pending[write->nr_pending++] = pending;
    pending->nr_in_flight++;
    return true;
}

bool retain_block(struct in_flight_write *write, uint64_t lifetime, int64_t file_block)
{
    if (!array_reserve(&write->retained, write->nr_retained, &write->retained_capacity, sizeof(*write->retained)))
        return false;
    write->retained[write->nr_retained++] = (struct block_key){lifetime, file_block};
    return true;
}

bool move_to_next_interval(struct block *block)
{
    struct pending_interval *first = block->pending;

    first->moved = *last_touch(&first->touches);
    first->moved.was_in_flight = true;
    remove_touch(&first->touches, first->touches.count - 1);
    for (struct pending_interval *pending = first; pending; pending = pending->next)
        pending->is_write_moved = true;
    return append_touch(&block->touches, &first->moved);
}

bool append_interval(struct pagecache *cache, const struct dirty_interval *interval)
{
    if (!array_reserve(&cache->intervals, cache->nr_intervals, &cache->intervals_capacity, sizeof(*cache->intervals)))
        return false;
    cache->intervals[cache->nr_intervals++] = *interval;
    return true;
}
