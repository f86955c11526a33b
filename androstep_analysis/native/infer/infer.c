// The pass over events and requests described in infer.h.
#include "infer/infer.h"

#include <string.h>

#include "core/array.h"
#include "core/map.h"

#define NOTHING        SIZE_MAX
#define INLINE_BYTES   3488 // F2FS: MAX_INLINE_DATA of an inode with extended attributes, fs/f2fs/f2fs.h
#define SEGMENT_BLOCKS 512  // F2FS: a segment contains either data or nodes
#define MANY_PAGES     64
#define MANY_FILES     16
#define MANY_ROWS      256
#define MANY_DIRTY     4096
#define MANY_BLOCKS    8 // a fsync writes fewer nodes in one request
#define FIRST_FILE     3 // F2FS stores nodes in inode 1 and its other metadata in inode 2

// A block of a file, and the event that wrote it.
struct page {
    size_t file;
    int64_t block;
    int64_t author;
};

// Ordered pages; the first `head` are done. A page that is removed elsewhere stays in the array.
struct queue {
    struct page *pages;
    size_t head, end, room;
    size_t mixed; // index of the file, from 1, with some pages written in an unknown order; 0: none
};

// State of a page: dirty, queued to be issued, or queued after a lookup to allocate its block.
enum state { DIRTY, WAITING, ALLOCATED, NR_STATES };

struct file {
    uint32_t dev;
    int64_t ino;
    int64_t bytes;  // size according to the writes
    int64_t author; // last write, or else last page added to the cache
    bool is_written;
    uint32_t life;               // incremented when the inode is deleted
    bool is_alive;               // seen since then
    size_t nr_dirty;             // pages; a file with dirty pages is in the list of dirty files
    size_t previous, next;       // in this list
    struct queue dirty;          // unordered
    int64_t issued_end;          // block after the last flushed one
    bool is_fresh;               // the last flush was of consecutive blocks after all earlier ones
    int64_t first, block, count; // last mapping, and
    size_t nr_results;           // number of results at that time
};

struct thread {
    size_t syncing;                     // file, or NOTHING
    int64_t sync;                       // event
    size_t wrote;                       // last file written
    size_t touched;                     // last file written, cached, or looked up where it has no block
    size_t mapped;                      // last file looked up where it has a block
    int64_t written_first, written_end; // blocks of the last write
    struct queue issues;                // pages that it is about to issue
    struct queue allocated;             // pages that it looked up to allocate their blocks
    struct queue reads;                 // pages that it added to the cache
    size_t read_end;                    // end of the pages at its last read request
};

// Contents of a block of the device.
struct place {
    size_t file;
    int64_t block;
    uint32_t life;
    size_t answer; // last write of it, or NOTHING
};

struct infer {
    const struct infer_events *events;
    struct file *files;
    size_t nr_files, files_room;
    struct thread *threads;
    size_t nr_threads, threads_room;
    struct place *places;
    size_t nr_places, places_room;
    struct inference *results;
    size_t nr_results, results_room;
    size_t *syncing; // threads in a fsync, in the order of its begin
    size_t nr_syncing, syncing_room;
    size_t oldest, newest; // dirty files
    struct map of_files, of_threads, of_places;
    struct map pages[NR_STATES]; // by file and block: the author, as from `author_code`
    struct map segments;         // 2: contains node blocks, 4: contains data
    bool is_failed;
};

// --- tables ----------------------------------------------------------------------------------------------------------

// Return the index of a key, from 0; that of a new key is `count`. Returns NOTHING if memory runs out.
static size_t number_of(struct infer *in, struct map *map, uint64_t space, uint64_t key, size_t count)
{
    uint64_t *number = map_add(map, space, key);

    if (!number) {
        in->is_failed = true;
        return NOTHING;
    }
    if (!*number)
        *number = count + 1;
    return (size_t)*number - 1;
}

static bool grow(struct infer *in, void **array, size_t count, size_t *room, size_t size)
{
    if (count == *room) {
        void *grown = array_grow(*array, room, size);

        if (!grown) {
            in->is_failed = true;
            return false;
        }
        *array = grown;
    }
    return true;
}

static size_t file_at(struct infer *in, uint32_t dev, int64_t ino)
{
    size_t at = number_of(in, &in->of_files, dev, (uint64_t)ino, in->nr_files);

    if (at == in->nr_files && at != NOTHING) {
        if (!grow(in, (void **)&in->files, in->nr_files, &in->files_room, sizeof(*in->files)))
            return NOTHING;
        in->files[in->nr_files++] = (struct file){.dev = dev, .ino = ino, .author = NO_INT64};
    }
    return at;
}

// Return the thread with this ID, or the flusher of a device.
static size_t thread_at(struct infer *in, bool is_flusher, uint32_t key)
{
    size_t at = number_of(in, &in->of_threads, is_flusher, key, in->nr_threads);

    if (at == in->nr_threads && at != NOTHING) {
        if (!grow(in, (void **)&in->threads, in->nr_threads, &in->threads_room, sizeof(*in->threads)))
            return NOTHING;
        in->threads[in->nr_threads++] = (struct thread){
            .syncing = NOTHING, .wrote = NOTHING, .touched = NOTHING, .mapped = NOTHING, .sync = NO_INT64};
    }
    return at;
}

static struct place *place_find(struct infer *in, uint32_t dev, int64_t block)
{
    uint64_t number = map_value(&in->of_places, dev, (uint64_t)block);

    return number ? &in->places[number - 1] : NULL;
}

static struct place *place_at(struct infer *in, uint32_t dev, int64_t block)
{
    size_t at = number_of(in, &in->of_places, dev, (uint64_t)block, in->nr_places);

    if (at == NOTHING)
        return NULL;
    if (at == in->nr_places) {
        if (!grow(in, (void **)&in->places, in->nr_places, &in->places_room, sizeof(*in->places)))
            return NULL;
        in->places[in->nr_places++] = (struct place){.file = NOTHING, .answer = NOTHING};
    }
    return &in->places[at];
}

static bool queue_add(struct infer *in, struct queue *queue, struct page page)
{
    if (queue->head == queue->end)
        queue->head = queue->end = queue->mixed = 0;
    if (!grow(in, (void **)&queue->pages, queue->end, &queue->room, sizeof(page)))
        return false;
    queue->pages[queue->end++] = page;
    return true;
}

// --- pages to be written ---------------------------------------------------------------------------------------------

// Encode the author: values of a map must not be 0.
static uint64_t author_code(int64_t author)
{
    return author == NO_INT64 ? 1 : (uint64_t)author + 2;
}

static bool has_page(const struct infer *in, enum state state, const struct page *page)
{
    return map_value(&in->pages[state], page->file, (uint64_t)page->block) == author_code(page->author);
}

static void put_page(struct infer *in, enum state state, const struct page *page)
{
    uint64_t *code = map_add(&in->pages[state], page->file, (uint64_t)page->block);

    if (code)
        *code = author_code(page->author);
    else
        in->is_failed = true;
}

// Remove the page of a file from a state. Returns whether it was there, and its author.
static bool take_from(struct infer *in, enum state state, size_t file, int64_t block, int64_t *author)
{
    uint64_t code = map_value(&in->pages[state], file, (uint64_t)block);

    if (!code)
        return false;
    *author = code == 1 ? NO_INT64 : (int64_t)(code - 2);
    map_remove(&in->pages[state], file, (uint64_t)block);
    return true;
}

static void unlist(struct infer *in, size_t at)
{
    struct file *file = &in->files[at];

    *(file->previous == NOTHING ? &in->oldest : &in->files[file->previous].next) = file->next;
    *(file->next == NOTHING ? &in->newest : &in->files[file->next].previous) = file->previous;
}

static bool clean(struct infer *in, size_t at, int64_t block, int64_t *author)
{
    bool was_dirty = take_from(in, DIRTY, at, block, author);

    if (was_dirty && --in->files[at].nr_dirty == 0) {
        in->files[at].dirty.end = 0;
        unlist(in, at);
    }
    return was_dirty;
}

static bool take_page(struct infer *in, size_t at, int64_t block, int64_t *author)
{
    return clean(in, at, block, author) || take_from(in, WAITING, at, block, author) ||
           take_from(in, ALLOCATED, at, block, author);
}

static int by_block(const void *one, const void *other)
{
    int64_t a = ((const struct page *)one)->block, b = ((const struct page *)other)->block;

    return (a > b) - (a < b);
}

// Sort the dirty pages of a file by block and remove duplicates.
static void sort_dirty(struct infer *in, struct file *file)
{
    struct queue *dirty = &file->dirty;
    size_t kept = 0;

    qsort(dirty->pages, dirty->end, sizeof(*dirty->pages), by_block);
    for (size_t k = 0; k < dirty->end; k++) {
        struct page page = dirty->pages[k];

        if ((kept == 0 || dirty->pages[kept - 1].block != page.block) &&
            map_value(&in->pages[DIRTY], page.file, (uint64_t)page.block))
            dirty->pages[kept++] = page;
    }
    dirty->end = kept;
}

static void make_dirty(struct infer *in, size_t at, int64_t block, int64_t author)
{
    struct page page = {at, block, author};
    struct file *file = &in->files[at];
    bool is_new = !map_value(&in->pages[DIRTY], at, (uint64_t)block);

    put_page(in, DIRTY, &page);
    if (!is_new || in->is_failed)
        return;
    if (file->dirty.end > 2 * file->nr_dirty + MANY_PAGES)
        sort_dirty(in, file);
    if (!queue_add(in, &file->dirty, page))
        return;
    if (file->nr_dirty++ == 0) {
        file->previous = in->newest;
        file->next = NOTHING;
        *(in->newest == NOTHING ? &in->oldest : &in->files[in->newest].next) = at;
        in->newest = at;
    }
}

// Append the dirty pages of a file to a queue in order, or drop them.
static void flush(struct infer *in, size_t at, struct queue *queue)
{
    struct file *file = &in->files[at];
    size_t end;

    sort_dirty(in, file);
    end = file->dirty.end;
    if (end) {
        int64_t first = file->dirty.pages[0].block, last = file->dirty.pages[end - 1].block;

        file->is_fresh = first >= file->issued_end && last - first == (int64_t)end - 1;
        if (file->issued_end <= last)
            file->issued_end = last + 1;
    }
    for (size_t k = 0; k < end && !in->is_failed; k++) {
        struct page page = file->dirty.pages[k];

        clean(in, at, page.block, &page.author);
        if (queue && queue_add(in, queue, page))
            put_page(in, WAITING, &page);
    }
}

// Drop the pages that wait in a queue.
static void forget(struct infer *in, enum state state, struct queue *queue)
{
    int64_t author;

    for (; queue->head < queue->end; queue->head++) {
        const struct page *page = &queue->pages[queue->head];

        if (has_page(in, state, page))
            take_from(in, state, page->file, page->block, &author);
    }
}

// Advance to the next page that still waits in the queue. Returns whether there is one.
static bool is_waiting(const struct infer *in, enum state state, struct queue *queue)
{
    while (queue->head < queue->end && !has_page(in, state, &queue->pages[queue->head]))
        queue->head++;
    return queue->head < queue->end;
}

// --- requests --------------------------------------------------------------------------------------------------------

struct issue {
    int64_t event;
    uint32_t dev;
    uint8_t flags;
    int64_t blocks;
    int64_t done;  // done so far
    bool is_whole; // the remaining pages of its first file are exactly this request
    size_t thread;
    size_t holder; // the thread whose fsync issues it, or NOTHING
};

static void answer(struct infer *in, const struct issue *issue, int64_t block, const struct page *page, int64_t author,
                   enum infer_rule rule)
{
    if (!grow(in, (void **)&in->results, in->nr_results, &in->results_room, sizeof(*in->results)))
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
    struct place *place = place_at(in, issue->dev, block);

    answer(in, issue, block, page, author, rule);
    if (!place || in->is_failed)
        return;
    *place = (struct place){.file = NOTHING, .answer = in->nr_results - 1};
    if (page && page->block != NO_INT64)
        *place = (struct place){page->file, page->block, in->files[page->file].life, in->nr_results - 1};
}

// Return the thread in a fsync that a request belongs to: the issuing thread, or for a request issued by a worker the
// last thread with waiting pages.
static size_t holder_of(struct infer *in, size_t thread, uint8_t flags)
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

// Return the page that the block contained before, if it is dirty or a flusher may have seen it dirty.
static bool in_place(struct infer *in, const struct issue *issue, int64_t block, struct page *page)
{
    struct place *place = place_find(in, issue->dev, block);
    int64_t author = NO_INT64;
    bool is_dirty;

    if (!place || place->file == NOTHING)
        return false;
    const struct file *file = &in->files[place->file];
    if (!file->is_alive || file->life != place->life)
        return false;
    is_dirty = take_page(in, place->file, place->block, &author);
    if (!is_dirty && !(issue->flags & FLAG_REWRITES))
        return false;
    if (!is_dirty && in->threads[issue->thread].mapped == place->file && !(issue->flags & FLAG_KERNEL))
        author = issue->event;
    else if (!is_dirty && !(issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD)))
        return false;
    *page = (struct page){place->file, place->block, author == NO_INT64 ? file->author : author};
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

// Return the file that F2FS writes by this request although another has been dirty for longer: one with exactly as many
// dirty pages if these are many, or one whose pages have the distance of this request and the next one of its thread
// (in-place updates). Returns NOTHING if there is none among the oldest. On Linux 6.1 a plug issues requests in reverse
// order.
static size_t likely_file(struct infer *in, const struct issue *issue)
{
    const struct infer_events *e = in->events;
    size_t row = (size_t)issue->event, next = row + 1, tries = 0;
    int64_t distance = 0;

    while (next < e->rows && next - row < MANY_ROWS && (e->kind[next] != INFER_WRITES || e->tid[next] != e->tid[row]))
        next++;
    if (next < e->rows && next - row < MANY_ROWS)
        distance = e->first[next] - e->first[row];
    if (distance == issue->blocks || (distance && distance == -e->count[next]))
        distance = 0;
    for (size_t at = in->oldest; at != NOTHING && tries++ < MANY_FILES; at = in->files[at].next) {
        if (in->files[at].dev != issue->dev)
            continue;
        if (issue->blocks >= MANY_BLOCKS && in->files[at].nr_dirty == (size_t)issue->blocks)
            return at;
        if (!distance || in->files[at].nr_dirty > MANY_DIRTY)
            continue;
        sort_dirty(in, &in->files[at]);
        if (lie_as(&in->files[at].dirty, issue->blocks, e->count[next], distance))
            return at;
    }
    return NOTHING;
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
        issue->is_whole =
            in->files[page.file].is_fresh ||
            (queue->mixed != page.file + 1 && waiting_pages(in, state, queue, issue->blocks) == issue->blocks);
    queue->head++;
    take_from(in, state, page.file, page.block, &page.author);
    if (!issue->is_whole && !(issue->flags & FLAG_REWRITES)) {
        queue->mixed = page.file + 1;
        page.block = NO_INT64;
    }
    write_page(in, issue, block, &page, page.author, rule);
    return true;
}

static void write_in_sync(struct infer *in, struct issue *issue, int64_t block)
{
    struct thread *holder = &in->threads[issue->holder];
    enum infer_rule rule = issue->holder == issue->thread ? RULE_SYNC : RULE_SYNC_OTHER;
    // Without a dirty page it is data stored through a memory map, or on F2FS possibly nodes.
    bool may_be_data =
        (issue->flags & FLAG_REWRITES) || (!in->files[holder->syncing].is_written && issue->blocks >= MANY_BLOCKS);

    if (write_next(in, issue, block, &holder->allocated, RULE_ALLOCATED) ||
        write_next(in, issue, block, &holder->issues, rule)) {
        set_segment(in, issue->dev, block, 4, 2);
    } else if (issue->holder == issue->thread && may_be_data) {
        struct page page = {holder->syncing, NO_INT64, holder->sync};
        write_page(in, issue, block, &page, page.author, rule);
    } else if (issue->flags & FLAG_REWRITES) {
        write_page(in, issue, block, NULL, NO_INT64, RULE_NONE);
    } else {
        set_segment(in, issue->dev, block, 2, 0);
        write_page(in, issue, block, NULL, holder->sync, RULE_NODE);
    }
}

static void write_back(struct infer *in, struct issue *issue, int64_t block)
{
    size_t flusher = thread_at(in, true, issue->dev);
    uint64_t segment = map_value(&in->segments, issue->dev, (uint64_t)block / SEGMENT_BLOCKS);

    if (flusher == NOTHING)
        return;
    struct queue *queue = &in->threads[flusher].issues;
    if (write_next(in, issue, block, &in->threads[flusher].allocated, RULE_ALLOCATED))
        return;
    if (!((segment & 2) && !(segment & 4))) {
        if (!is_waiting(in, WAITING, queue)) {
            size_t likely = issue->flags & FLAG_REWRITES ? NOTHING : likely_file(in, issue);

            if (likely != NOTHING)
                flush(in, likely, queue);
            else
                flush_oldest(in, issue, queue);
        }
        set_segment(in, issue->dev, block, 4, 0);
        if (write_next(in, issue, block, queue, RULE_WRITEBACK))
            return;
    }
    write_page(in, issue, block, NULL, NO_INT64, RULE_NONE);
}

static void write_block(struct infer *in, struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];
    struct page page;

    if (in_place(in, issue, block, &page)) {
        write_page(in, issue, block, &page, page.author, RULE_PLACE);
    } else if (issue->holder != NOTHING) {
        write_in_sync(in, issue, block);
    } else if (issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD)) {
        write_back(in, issue, block);
    } else if (issue->flags & FLAG_KERNEL) {
        write_page(in, issue, block, NULL, NO_INT64, RULE_NONE);
    } else if (!write_next(in, issue, block, &thread->allocated, RULE_ALLOCATED)) {
        if (!is_waiting(in, WAITING, &thread->issues) && thread->wrote != NOTHING)
            flush(in, thread->wrote, &thread->issues);
        if (write_next(in, issue, block, &thread->issues, RULE_SELF))
            return;
        page = (struct page){thread->touched, NO_INT64, issue->event};
        write_page(in, issue, block, page.file == NOTHING ? NULL : &page, issue->event, RULE_DIRECT);
    }
}

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

static void read_block(struct infer *in, const struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];
    struct place *place = place_find(in, issue->dev, block);
    enum infer_rule rule = RULE_READ;

    if (issue->done == 0)
        find_read(thread, issue->blocks);
    if (thread->reads.head == thread->reads.end)
        return;
    struct page page = thread->reads.pages[thread->reads.head++];
    if (place && place->file == page.file && place->block == page.block)
        rule = RULE_READ_PLACE;
    answer(in, issue, block, &page, issue->event, rule);
    place = place_at(in, issue->dev, block);
    if (place)
        *place = (struct place){page.file, page.block, in->files[page.file].life, place->answer};
}

// --- events ----------------------------------------------------------------------------------------------------------

static void on_write(struct infer *in, size_t row, size_t at, size_t tid)
{
    const struct infer_events *e = in->events;
    struct file *file = &in->files[at];
    struct thread *thread = &in->threads[tid];

    file->is_alive = true;
    file->author = (int64_t)row;
    file->is_written = true;
    if (file->bytes < e->block[row])
        file->bytes = e->block[row];
    for (int64_t k = 0; k < e->count[row]; k++)
        make_dirty(in, at, e->first[row] + k, (int64_t)row);
    thread->wrote = thread->touched = at;
    thread->written_first = e->first[row];
    thread->written_end = e->first[row] + e->count[row];
}

static void on_sync(struct infer *in, size_t row, size_t at, size_t tid)
{
    struct thread *thread = &in->threads[tid];

    thread->syncing = at;
    thread->sync = (int64_t)row;
    thread->touched = at;
    forget(in, WAITING, &thread->issues);
    forget(in, ALLOCATED, &thread->allocated);
    flush(in, at, &thread->issues);
    if (grow(in, (void **)&in->syncing, in->nr_syncing, &in->syncing_room, sizeof(*in->syncing)))
        in->syncing[in->nr_syncing++] = tid;
}

static void on_synced(struct infer *in, size_t tid)
{
    struct thread *thread = &in->threads[tid];
    size_t kept = 0;

    thread->syncing = NOTHING;
    forget(in, WAITING, &thread->issues);
    forget(in, ALLOCATED, &thread->allocated);
    for (size_t k = 0; k < in->nr_syncing; k++)
        if (in->syncing[k] != tid)
            in->syncing[kept++] = in->syncing[k];
    in->nr_syncing = kept;
}

static void on_cached(struct infer *in, size_t row, size_t at, size_t tid)
{
    const struct infer_events *e = in->events;
    struct thread *thread = &in->threads[tid];
    int64_t first = e->first[row];

    in->files[at].is_alive = true;
    // A page that is written completely is not read.
    if (thread->wrote == at && first >= thread->written_first && first < thread->written_end)
        return;
    if (e->ino[row] >= FIRST_FILE)
        thread->touched = at;
    if (!in->files[at].is_written)
        in->files[at].author = (int64_t)row;
    if (thread->reads.head == thread->reads.end)
        thread->read_end = 0;
    for (int64_t k = 0; k < e->count[row]; k++)
        queue_add(in, &thread->reads, (struct page){at, first + k, (int64_t)row});
}

// A mapping shows which page a written block contains: confirm the inferred result, or correct it and make the wrongly
// inferred page dirty again.
static void correct(struct infer *in, struct inference *result, size_t at, int64_t block)
{
    struct file *file = &in->files[at];

    if (result->ino != file->ino || result->file_block != block) {
        if (result->ino != NO_INT64 && result->file_block != NO_INT64)
            make_dirty(in, file_at(in, file->dev, result->ino), result->file_block, result->author);
        if (result->rule != RULE_DIRECT || result->ino != file->ino) {
            int64_t author = in->files[at].author;

            if (take_page(in, at, block, &author) && author > result->event)
                make_dirty(in, at, block, author); // since the request was issued
            result->author = author;
        }
        result->ino = in->files[at].ino;
        result->file_block = block;
    }
    result->rule = RULE_LATER;
}

static void on_mapped(struct infer *in, size_t row, size_t at)
{
    const struct infer_events *e = in->events;

    struct file *file = &in->files[at];
    // A lookup usually repeats the previous one.
    if (file->is_alive && file->nr_results == in->nr_results && file->first == e->first[row] &&
        file->block == e->block[row] && file->count == e->count[row])
        return;
    file->is_alive = true;
    file->nr_results = in->nr_results;
    file->first = e->first[row];
    file->block = e->block[row];
    file->count = e->count[row];
    for (int64_t k = 0; k < e->count[row]; k++) {
        struct place *place = place_at(in, e->dev[row], e->block[row] + k);

        if (!place)
            return;
        *place = (struct place){at, e->first[row] + k, in->files[at].life, place->answer};
        if (place->answer != NOTHING && (e->flags[row] & (FLAG_WRITTEN | FLAG_FLUSHER | FLAG_KBLOCKD)))
            correct(in, &in->results[place->answer], at, e->first[row] + k);
    }
}

// A thread that writes pages back looks up their blocks to allocate them.
static void on_allocating(struct infer *in, size_t row, size_t at, size_t tid)
{
    const struct infer_events *e = in->events;
    bool is_worker = e->flags[row] & (FLAG_FLUSHER | FLAG_KBLOCKD);
    size_t flusher = is_worker ? thread_at(in, true, e->dev[row]) : tid;

    if (flusher == NOTHING)
        return;
    struct thread *thread = &in->threads[flusher];
    for (int64_t k = 0; k < e->count[row]; k++) {
        struct page page = {at, e->first[row] + k, in->files[at].author};

        if (map_value(&in->pages[ALLOCATED], at, (uint64_t)page.block))
            continue;
        take_page(in, at, page.block, &page.author);
        if (!queue_add(in, &thread->allocated, page))
            return;
        put_page(in, ALLOCATED, &page);
    }
}

static void on_gone(struct infer *in, size_t at)
{
    struct file *file = &in->files[at];

    flush(in, at, NULL);
    file->is_alive = false;
    file->bytes = file->issued_end = 0;
    file->life++;
}

static void on_request(struct infer *in, size_t row, size_t tid)
{
    const struct infer_events *e = in->events;
    struct issue issue = {.event = (int64_t)row,
                          .dev = e->dev[row],
                          .flags = e->flags[row],
                          .blocks = e->count[row],
                          .thread = tid,
                          .holder = NOTHING};
    bool is_write = e->kind[row] == INFER_WRITES;

    if (is_write)
        issue.holder = holder_of(in, tid, issue.flags);
    for (int64_t k = 0; k < e->count[row] && !in->is_failed; k++) {
        issue.done = k;
        if (is_write)
            write_block(in, &issue, e->first[row] + k);
        else
            read_block(in, &issue, e->first[row] + k);
    }
}

static void follow(struct infer *in, size_t row)
{
    const struct infer_events *e = in->events;
    uint8_t kind = e->kind[row];
    size_t tid = thread_at(in, false, (uint32_t)e->tid[row]);
    size_t file = kind < INFER_WRITES ? file_at(in, e->dev[row], e->ino[row]) : NOTHING;
    int64_t author;

    if (in->is_failed)
        return;
    switch (kind) {
    case INFER_WRITE:
        on_write(in, row, file, tid);
        break;
    case INFER_SYNC:
        on_sync(in, row, file, tid);
        break;
    case INFER_SYNCED:
        on_synced(in, tid);
        break;
    case INFER_CACHED:
        on_cached(in, row, file, tid);
        break;
    case INFER_DROPPED:
        for (int64_t k = 0; k < e->count[row]; k++)
            take_page(in, file, e->first[row] + k, &author);
        break;
    case INFER_MAPPED:
        in->threads[tid].mapped = file;
        on_mapped(in, row, file);
        break;
    case INFER_ALLOCATING:
        on_allocating(in, row, file, tid);
        break;
    case INFER_LOOKED_UP:
        in->threads[tid].touched = file;
        break;
    case INFER_GONE:
        on_gone(in, file);
        break;
    default:
        on_request(in, row, tid);
    }
}

struct infer *infer_run(const struct infer_events *events)
{
    struct infer *in = calloc(1, sizeof(*in));

    if (!in)
        return NULL;
    in->events = events;
    in->oldest = in->newest = NOTHING;
    for (size_t row = 0; row < events->rows && !in->is_failed; row++)
        follow(in, row);
    if (!in->is_failed)
        return in;
    infer_free(in);
    return NULL;
}

const struct inference *infer_result(const struct infer *infer, size_t *rows)
{
    *rows = infer->nr_results;
    return infer->results;
}

void infer_free(struct infer *in)
{
    for (size_t k = 0; k < in->nr_files; k++)
        free(in->files[k].dirty.pages);
    for (size_t k = 0; k < in->nr_threads; k++) {
        free(in->threads[k].issues.pages);
        free(in->threads[k].allocated.pages);
        free(in->threads[k].reads.pages);
    }
    map_free(&in->of_files);
    map_free(&in->of_threads);
    map_free(&in->of_places);
    map_free(&in->segments);
    for (size_t k = 0; k < NR_STATES; k++)
        map_free(&in->pages[k]);
    free(in->files);
    free(in->threads);
    free(in->places);
    free(in->results);
    free(in->syncing);
    free(in);
}
