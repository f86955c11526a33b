// The rules that attribute a block of a request to a page of a file. androstep_analysis/link/inferred.py lists them.
// Each is a function with the name of the rule. It returns whether it applies.
#include "infer/state.h"

static void add_result(struct infer *in, const struct issue *issue, int64_t block, const struct page *page,
                       int64_t author, enum infer_rule rule)
{
    if (!grow(in, (void **)&in->results, in->nr_results, &in->result_capacity, sizeof(*in->results)))
        return;
    in->results[in->nr_results++] = (struct inference){
        .event = issue->event,
        .block = block,
        .ino = page ? in->files[page->file].ino : NO_INT64,
        .file_block = page ? page->block : NO_INT64,
        .author = author,
        .rule = rule,
    };
}

// Record the write of a block of the device with that page, or NULL if it is unknown.
static void write_page(struct infer *in, const struct issue *issue, int64_t block, const struct page *page,
                       int64_t author, enum infer_rule rule)
{
    struct location *location = location_at(in, issue->dev, block);

    add_result(in, issue, block, page, author, rule);
    if (!location || in->is_failed)
        return;
    *location = (struct location){.file = NOTHING, .result = in->nr_results - 1};
    if (page && page->block != NO_INT64)
        *location = (struct location){page->file, page->block, in->files[page->file].lifetime, in->nr_results - 1};
}

static void write_unknown(struct infer *in, const struct issue *issue, int64_t block)
{
    write_page(in, issue, block, NULL, NO_INT64, RULE_NONE);
}

// Return how many pages of the first file in a queue wait there before those of another file; stops counting beyond
// `enough`.
static int64_t waiting_pages(const struct infer *in, enum state state, const struct queue *queue, int64_t enough)
{
    int64_t count = 0;

    for (size_t k = queue->head; k < queue->end && count <= enough; k++) {
        if (queue->pages[k].file != queue->pages[queue->head].file)
            break;
        count += has_page(in, state, &queue->pages[k]);
    }
    return count;
}

// Return whether the pages of the file in the queue are exactly those of the request.
static bool is_whole(const struct infer *in, const struct issue *issue, enum state state, const struct queue *queue,
                     size_t file)
{
    if (in->files[file].is_fresh)
        return true;
    return queue->mixed != file + 1 && waiting_pages(in, state, queue, issue->blocks) == issue->blocks;
}

// Write the next page of a queue. F2FS writes some pages in place and others to its log, in separate requests. Only a
// request of all pages identifies each page.
static bool write_next(struct infer *in, struct issue *issue, int64_t block, struct queue *queue, enum infer_rule rule)
{
    enum state state = rule == RULE_ALLOCATED ? ALLOCATED : WAITING;

    if (!is_waiting(in, state, queue))
        return false;
    struct page page = queue->pages[queue->head];
    if (issue->done == 0)
        issue->is_whole = is_whole(in, issue, state, queue, page.file);
    queue->head++;
    state_remove(in, state, page.file, page.block, &page.author);
    if (!issue->is_whole && !(issue->flags & FLAG_REWRITES)) {
        queue->mixed = page.file + 1;
        page.block = NO_INT64;
    }
    write_page(in, issue, block, &page, page.author, rule);
    return true;
}

static void set_segment(struct infer *in, uint32_t dev, int64_t block, uint64_t kind, uint64_t not)
{
    uint64_t *kinds = map_add(&in->segments, dev, (uint64_t)block / SEGMENT_BLOCKS);

    if (kinds)
        *kinds = ((*kinds | kind) & ~not) | 1;
    else
        in->is_failed = true;
}

// --- rules for writes ------------------------------------------------------------------------------------------------

static bool place(struct infer *in, const struct issue *issue, int64_t block)
{
    struct location *location = location_find(in, issue->dev, block);
    int64_t author = NO_INT64;

    if (!location || location->file == NOTHING)
        return false;
    const struct file *file = &in->files[location->file];
    if (!file->is_alive || file->lifetime != location->lifetime)
        return false;
    if (!page_remove(in, location->file, location->block, &author)) {
        bool is_of_thread = in->threads[issue->thread].mapped == location->file && !(issue->flags & FLAG_KERNEL);

        if (!(issue->flags & FLAG_REWRITES))
            return false;
        // A worker may have seen the page dirty.
        if (!is_of_thread && !(issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD)))
            return false;
        if (is_of_thread)
            author = issue->event;
    }
    struct page page = {location->file, location->block, author == NO_INT64 ? file->author : author};
    write_page(in, issue, block, &page, page.author, RULE_PLACE);
    return true;
}

static bool allocated(struct infer *in, struct issue *issue, int64_t block, struct thread *thread)
{
    return write_next(in, issue, block, &thread->allocated, RULE_ALLOCATED);
}

static bool sync(struct infer *in, struct issue *issue, int64_t block)
{
    return write_next(in, issue, block, &in->threads[issue->holder].issues, RULE_SYNC);
}

static bool sync_other(struct infer *in, struct issue *issue, int64_t block)
{
    return write_next(in, issue, block, &in->threads[issue->holder].issues, RULE_SYNC_OTHER);
}

// Rule sync without a dirty page: data stored through a memory map, or on F2FS possibly nodes.
static bool sync_mapped(struct infer *in, const struct issue *issue, int64_t block)
{
    const struct thread *holder = &in->threads[issue->holder];
    struct page page = {holder->syncing, NO_INT64, holder->sync};
    bool is_large = !in->files[holder->syncing].is_written && issue->blocks >= MANY_BLOCKS;

    if (issue->holder != issue->thread || !(issue->flags & FLAG_REWRITES || is_large))
        return false;
    write_page(in, issue, block, &page, page.author, RULE_SYNC);
    return true;
}

static bool node(struct infer *in, const struct issue *issue, int64_t block)
{
    if (issue->flags & FLAG_REWRITES)
        return false;
    set_segment(in, issue->dev, block, HAS_NODES, 0);
    write_page(in, issue, block, NULL, in->threads[issue->holder].sync, RULE_NODE);
    return true;
}

// Flush dirty files, oldest first, until one has pages with blocks of their own.
static void flush_oldest(struct infer *in, const struct issue *issue, struct queue *queue)
{
    size_t at = in->oldest;

    while (at != NOTHING && !is_waiting(in, WAITING, queue)) {
        size_t next = in->files[at].next;

        if (in->files[at].dev == issue->dev) {
            bool is_inline = (issue->flags & FLAG_INLINE) && in->files[at].bytes <= INLINE_BYTES;

            flush(in, at, is_inline ? NULL : queue);
        }
        at = next;
    }
}

// Return whether the first or the last dirty pages have the same distance as two requests on the device.
static bool lie_as(const struct queue *dirty, int64_t blocks, int64_t next_blocks, int64_t distance)
{
    const struct page *pages = dirty->pages, *last = &pages[dirty->end - 1];

    if ((int64_t)dirty->end < blocks + next_blocks)
        return false;
    if (distance > 0)
        return pages[blocks - 1].block - pages[0].block == blocks - 1 &&
               pages[blocks].block - pages[0].block == distance;
    return last[0].block - last[1 - blocks].block == blocks - 1 &&
           last[1 - blocks].block - last[1 - blocks - next_blocks].block == -distance;
}

// Return the row of the thread's next write request, or 0 if none is near.
static size_t next_write(const struct infer_events *e, size_t row)
{
    for (size_t next = row + 1; next < e->rows && next - row < MAX_DISTANT_ROWS; next++)
        if (e->kind[next] == INFER_WRITES && e->tid[next] == e->tid[row])
            return next;
    return 0;
}

// Return the file that F2FS writes by this request although another has been dirty for longer: one with exactly as many
// dirty pages if these are many, or one whose pages have the distance of this request and the next one of its thread
// (in-place updates). Returns NOTHING if there is none among the oldest. On Linux 6.1 a plug issues requests in reverse
// order.
static size_t likely_file(struct infer *in, const struct issue *issue)
{
    const struct infer_events *e = in->events;
    size_t row = (size_t)issue->event, next = next_write(e, row), tries = 0;
    int64_t distance = next ? e->first[next] - e->first[row] : 0;

    if (distance == issue->blocks || (distance && distance == -e->count[next]))
        distance = 0;
    for (size_t at = in->oldest; at != NOTHING && tries++ < MAX_LIKELY_FILES; at = in->files[at].next) {
        if (in->files[at].dev != issue->dev)
            continue;
        if (issue->blocks >= MANY_BLOCKS && in->files[at].nr_dirty == (size_t)issue->blocks)
            return at;
        if (!distance || in->files[at].nr_dirty > MAX_SORTED_PAGES)
            continue;
        sort_dirty(in, &in->files[at]);
        if (lie_as(&in->files[at].dirty, issue->blocks, e->count[next], distance))
            return at;
    }
    return NOTHING;
}

static bool writeback(struct infer *in, struct issue *issue, int64_t block, struct queue *queue)
{
    uint64_t segment = map_value(&in->segments, issue->dev, (uint64_t)block / SEGMENT_BLOCKS);

    if ((segment & HAS_NODES) && !(segment & HAS_DATA))
        return false;
    if (!is_waiting(in, WAITING, queue)) {
        size_t likely = issue->flags & FLAG_REWRITES ? NOTHING : likely_file(in, issue);

        if (likely != NOTHING)
            flush(in, likely, queue);
        else
            flush_oldest(in, issue, queue);
    }
    set_segment(in, issue->dev, block, HAS_DATA, 0);
    return write_next(in, issue, block, queue, RULE_WRITEBACK);
}

static bool self(struct infer *in, struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];

    if (!is_waiting(in, WAITING, &thread->issues) && thread->wrote != NOTHING)
        flush(in, thread->wrote, &thread->issues);
    return write_next(in, issue, block, &thread->issues, RULE_SELF);
}

static bool direct(struct infer *in, const struct issue *issue, int64_t block)
{
    struct page page = {in->threads[issue->thread].touched, NO_INT64, issue->event};

    write_page(in, issue, block, page.file == NOTHING ? NULL : &page, issue->event, RULE_DIRECT);
    return true;
}

// --- order of the rules ----------------------------------------------------------------------------------------------

size_t syncing_thread(struct infer *in, size_t thread, uint8_t flags)
{
    size_t found = NOTHING;

    if (in->threads[thread].syncing != NOTHING)
        return thread;
    if (!(flags & FLAG_KERNEL) || (!(flags & FLAG_SYNC) && (flags & FLAG_FLUSHER)))
        return NOTHING;
    for (size_t k = 0; k < in->nr_syncing; k++) {
        size_t one = in->syncing[k];

        if (found == NOTHING || is_waiting(in, WAITING, &in->threads[one].issues) ||
            !is_waiting(in, WAITING, &in->threads[found].issues))
            found = one;
    }
    return found;
}

static void write_for_sync(struct infer *in, struct issue *issue, int64_t block)
{
    bool is_own = issue->holder == issue->thread;

    if (allocated(in, issue, block, &in->threads[issue->holder]) ||
        (is_own ? sync(in, issue, block) : sync_other(in, issue, block)))
        set_segment(in, issue->dev, block, HAS_DATA, HAS_NODES);
    else if (!sync_mapped(in, issue, block) && !node(in, issue, block))
        write_unknown(in, issue, block);
}

static void write_by_worker(struct infer *in, struct issue *issue, int64_t block)
{
    size_t flusher = thread_at(in, true, issue->dev);

    if (flusher == NOTHING)
        return;
    struct thread *thread = &in->threads[flusher];
    if (!allocated(in, issue, block, thread) && !writeback(in, issue, block, &thread->issues))
        write_unknown(in, issue, block);
}

void write_block(struct infer *in, struct issue *issue, int64_t block)
{
    if (place(in, issue, block))
        return;
    if (issue->holder != NOTHING)
        write_for_sync(in, issue, block);
    else if (issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD))
        write_by_worker(in, issue, block);
    else if (issue->flags & FLAG_KERNEL)
        write_unknown(in, issue, block);
    else if (!allocated(in, issue, block, &in->threads[issue->thread]) && !self(in, issue, block))
        direct(in, issue, block);
}

// --- reads and corrections -------------------------------------------------------------------------------------------

// Select the pages of a thread that belong to its read request: a run of pages added to the cache since its last
// request. This is the last run of the same length, or else the first longer one. The other pages were added without a
// read.
static void find_read(struct thread *thread, int64_t blocks)
{
    struct queue *reads = &thread->reads;
    size_t exact = NOTHING, longer = NOTHING;

    if (thread->read_end == reads->end)
        return;
    for (size_t begin = thread->read_end, end; begin < reads->end; begin = end) {
        const struct page *first = &reads->pages[begin];

        for (end = begin + 1; end < reads->end && reads->pages[end].file == first->file; end++)
            if (reads->pages[end].block != first->block + (int64_t)(end - begin))
                break;
        if ((int64_t)(end - begin) == blocks)
            exact = begin;
        else if ((int64_t)(end - begin) > blocks && longer == NOTHING)
            longer = begin;
    }
    reads->head = exact != NOTHING ? exact : longer != NOTHING ? longer : thread->read_end;
    thread->read_end = reads->end;
}

// Rules read and read_place.
void read_block(struct infer *in, const struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];
    struct location *location = location_find(in, issue->dev, block);
    bool is_mapped;

    if (issue->done == 0)
        find_read(thread, issue->blocks);
    if (thread->reads.head == thread->reads.end)
        return;
    struct page page = thread->reads.pages[thread->reads.head++];
    is_mapped = location && location->file == page.file && location->block == page.block;
    add_result(in, issue, block, &page, issue->event, is_mapped ? RULE_READ_PLACE : RULE_READ);
    location = location_at(in, issue->dev, block);
    if (location)
        *location = (struct location){page.file, page.block, in->files[page.file].lifetime, location->result};
}

// Rule later.
void later(struct infer *in, struct inference *result, size_t at, int64_t block)
{
    struct file *file = &in->files[at];

    if (result->ino != file->ino || result->file_block != block) {
        if (result->ino != NO_INT64 && result->file_block != NO_INT64)
            page_dirty(in, file_at(in, file->dev, result->ino), result->file_block, result->author);
        if (result->rule != RULE_DIRECT || result->ino != file->ino) {
            int64_t author = in->files[at].author;

            if (page_remove(in, at, block, &author) && author > result->event)
                page_dirty(in, at, block, author); // since the request was issued
            result->author = author;
        }
        result->ino = in->files[at].ino;
        result->file_block = block;
    }
    result->rule = RULE_LATER;
}
