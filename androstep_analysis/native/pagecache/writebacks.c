#include "pagecache/events.h"
#include "pagecache/in_flight.h"

#include <stdlib.h>

// The writes in flight that the interval of a block waits for.
struct wait {
    struct in_flight_write
        *last;             // the last touch is of this write: the interval, or an earlier one, may not contain it
    bool is_after_pending; // `last` is what an earlier interval of the block waits for
    bool may_be_shorter;   // a write may turn out to end before the block
};

static struct wait find_wait(const struct pagecache *cache, const struct block *block, int32_t tid)
{
    const struct touches *touches = &block->touches;
    struct wait wait = {.is_after_pending = block->pending != NULL};

    for (size_t at = 0; at < touches->count; at++) {
        const struct touch *touch = &touches->touches[at];
        struct in_flight_write *write = find_in_flight(cache, touch);
        bool is_last = at == touches->count - 1 && touch->may_dirty;

        if (write && is_last && cache->threads[touch->thread].tid != tid)
            wait.last = write;
        wait.may_be_shorter |= write && write->is_write && block->file_block > write->begin / write->block_bytes;
    }
    if (wait.is_after_pending && !wait.last)
        wait.last = find_in_flight(cache, last_touch(&block->pending->touches));
    return wait;
}

// Keep the interval until all writes that it waits for have ended.
static bool suspend_interval(struct pagecache *cache, const struct file *file, struct block *block,
                             const struct dirty_interval *interval, const struct writeback *writeback, struct wait wait)
{
    struct pending_interval *pending = malloc(sizeof(*pending));

    if (!pending)
        return false;
    *pending = (struct pending_interval){
        .interval = *interval,
        .writeback = *writeback,
        .touches = block->touches,
        .lifetime = file->lifetime,
        .records_dirty = device_of(cache, file->dev)->flags & RECORDS_DIRTY,
        .is_clean_if_moved = block->was_clean,
    };
    block->touches = (struct touches){0};
    if (wait.last && wait.is_after_pending) {
        pending->next = block->pending->next;
        block->pending->next = pending;
    } else if (wait.last) {
        block->pending = pending;
    }
    if (wait.last && !wait_for_write(wait.last, pending))
        return false;
    for (size_t at = 0; at < pending->touches.count; at++) {
        struct in_flight_write *write = find_in_flight(cache, &pending->touches.touches[at]);

        if (write && !wait_for_write(write, pending))
            return false;
    }
    return true;
}

static bool end_interval(struct pagecache *cache, const struct file *file, struct block *block,
                         const struct writeback *writeback, struct dirty_interval *interval)
{
    static const struct touches none = {0};
    // A write in flight that began before the block was dropped belongs to a later interval, if to any.
    const struct touches *touches = block->is_retained ? &none : &block->touches;
    struct wait wait = {0};
    bool is_done;

    block->writeback = cache->event;
    if (writeback->tid != NO_INT32)
        block->writeback_tid = writeback->tid;
    block->is_redirtied = count_dirtyings(cache->threads, touches) + block->is_redirtied > 1;
    if (!block->is_retained)
        wait = find_wait(cache, block, writeback->tid);
    if (wait.last || wait.may_be_shorter)
        return suspend_interval(cache, file, block, interval, writeback, wait);
    is_done = evaluate_interval(&cache->evaluator, touches, device_of(cache, file->dev)->flags & RECORDS_DIRTY,
                                writeback, interval) &&
              append_interval(cache, interval);
    if (!block->is_retained) {
        free(block->touches.touches);
        block->touches = (struct touches){0};
    }
    return is_done;
}

static bool take_block(struct pagecache *cache, struct file *file, const struct writeback *writeback,
                       struct dirty_interval *interval)
{
    struct block *block = interval->is_read ? find_block(&cache->blocks, file->lifetime, interval->file_block)
                                            : add_block(&cache->blocks, file, interval->file_block);

    if (!block)
        return interval->is_read && append_interval(cache, interval);
    interval->touched_ns = block->touched_ns;
    interval->absent_ns = block->absent_ns;
    interval->is_in_folio = block->is_in_folio;
    interval->is_first = !block->writeback;
    interval->is_new_inode = file->is_new_inode;
    interval->is_clean = block->is_clean;
    interval->file_dirtiers = (int32_t)file->dirtiers.count;
    interval->was_redirtied = block->is_redirtied;
    if (!interval->is_read)
        return end_interval(cache, file, block, writeback, interval);
    return evaluate_interval(&cache->evaluator, &block->touches, false, writeback, interval) &&
           append_interval(cache, interval);
}

bool take_writeback(struct pagecache *cache, const struct writebacks *writebacks, size_t row)
{
    struct file *file = add_file(&cache->blocks, writebacks->dev[row], writebacks->ino[row]);
    const struct writeback writeback = {.ts_ns = writebacks->ts_ns[row], .tid = writebacks->tid[row]};
    int64_t size = device_of(cache, writebacks->dev[row])->block_bytes;

    cache->event++;
    if (!file)
        return false;
    for (int64_t at = writebacks->begin[row] / size; at <= (writebacks->end[row] - 1) / size; at++) {
        struct dirty_interval interval = {
            .piece = writebacks->piece[row],
            .file_block = at,
            .modified_ns = NO_INT64,
            .seen_clean_ns = NO_INT64,
            .doubt_begin_ns = NO_INT64,
            .doubt_end_ns = NO_INT64,
            .touched_ns = NO_INT64,
            .absent_ns = NO_INT64,
            .modifier = NO_UINT32,
            .is_read = writebacks->is_read[row],
        };

        if (!take_block(cache, file, &writeback, &interval))
            return false;
    }
    return true;
}
