// The rules for writes on F2FS. It appends blocks to logs (active segments), or rewrites them in place.
//
// - Nodes and data have logs of their own.
// - A file with at most HOT_PAGES dirty pages goes to the log of hot data, another one to that of warm data
//   (fs/f2fs/data.c, f2fs_write_cache_pages: FI_HOT_DATA). In a log the pages are in the order in which they are
//   written.
// - A page is rewritten in place if its block is written again during the same fsync or pass of the flusher.
#include "infer/state.h"

#include <stdlib.h>

#define INLINE_BYTES  3488       // MAX_INLINE_DATA of an inode with extended attributes, fs/f2fs/f2fs.h
#define HOT_PAGES     16         // DEF_MIN_HOT_BLOCKS, fs/f2fs/segment.h
#define MAX_WAITING   16         // threads that may wait for such a request at once
#define MAX_EXTENTS   16         // of a file, that are searched for
#define MAX_PAGES     256        // of an extent, that are compared
#define MIN_RUNS      3          // of pages in an extent; fewer may lie so by chance
#define MAX_AHEAD     1024       // rows in which requests that rewrite a file are searched for
#define WAIT_NS       5000000000 // a write waits no longer for such a request
#define NR_LOGS       8          // remembered for a device; six are active at a time
#define PASS_NS       1000000000 // the flusher does not wait so long between two requests of a pass
#define SEEK_NS       100000000  // places of a file are not searched for again so soon
#define SYNCED_NS     200000     // between the last request for data of a fsync and the first one for nodes
#define CREATION_ROWS 1024       // in which the read of a node is searched for
#define PAUSED_NS     12000000   // between two events, unless nothing runs

// A segment: the number of its blocks, that of those in requests which may write nodes, and whether a block is written
// twice.
#define COUNT     0x7fffffffULL
#define NODE      0x80000000ULL
#define REWRITTEN 0x8000000000000000ULL

// --- later events ----------------------------------------------------------------------------------------------------

bool f2fs_is_write(const struct infer_events *e, size_t row)
{
    return e->kind[row] == INFER_WRITES && (e->flags[row] & FLAG_F2FS);
}

static bool set_rewritten(struct infer *in, uint32_t dev, int64_t block)
{
    uint64_t *segment = map_add(&in->f2fs.segments, dev, (uint64_t)(block / SEGMENT_BLOCKS));

    if (segment)
        *segment |= REWRITTEN;
    return segment != NULL;
}

static bool find_rewrites(struct infer *in)
{
    const struct infer_events *e = in->events;
    size_t written = 0;

    for (size_t row = 0; row < e->rows; row++)
        written += f2fs_is_write(e, row) ? (size_t)e->count[row] : 0;
    in->f2fs.next_rows = calloc(written + 1, sizeof(*in->f2fs.next_rows));
    if (!in->f2fs.next_rows)
        return false;
    for (size_t row = e->rows; row-- > 0;) {
        if (!f2fs_is_write(e, row))
            continue;
        for (int64_t k = e->count[row]; k-- > 0;) {
            uint64_t *next = map_add(&in->f2fs.rewrites, e->dev[row], (uint64_t)(e->first[row] + k));

            if (!next || (*next && !set_rewritten(in, e->dev[row], e->first[row] + k)))
                return false;
            in->f2fs.next_rows[--written] = *next ? (size_t)*next : NOTHING;
            *next = row + 1;
        }
    }
    return true;
}

// Append a write that moves data out of an inode to the conversions. `since` is the previous event of the thread,
// from 1.
static bool add_conversion(struct infer *in, size_t row, uint64_t since)
{
    struct f2fs *f2fs = &in->f2fs;

    if (!grow(in, &f2fs->conversions, f2fs->nr_conversions, &f2fs->conversion_capacity, sizeof(*f2fs->conversions)))
        return false;
    f2fs->conversions[f2fs->nr_conversions++] = (struct f2fs_conversion){.row = row, .since = since ? since - 1 : 0};
    return true;
}

// Find the writes that move the data of a file out of its inode, because it outgrows it. The kernel writes the first
// block and waits for it before the write begins (fs/f2fs/file.c, f2fs_preallocate_blocks).
static bool find_conversions(struct infer *in, struct map *sizes, struct map *last_rows)
{
    const struct infer_events *e = in->events;

    for (size_t row = 0; row < e->rows; row++) {
        uint64_t *last, *size, end = (uint64_t)e->block[row];

        if (e->kind[row] >= INFER_WRITES || !(e->flags[row] & FLAG_F2FS))
            continue;
        last = map_add(last_rows, 0, (uint32_t)e->tid[row]);
        size = map_add(sizes, e->dev[row], (uint64_t)e->ino[row]);
        if (!last || !size)
            return false;
        if (e->kind[row] == INFER_WRITE && *size > 1 && *size <= INLINE_BYTES && end > INLINE_BYTES &&
            !add_conversion(in, row, *last))
            return false;
        if (e->kind[row] == INFER_GONE)
            *size = 1;
        else if (e->kind[row] == INFER_CACHED && e->first[row] > 0)
            *size = INLINE_BYTES + 1;
        else if (e->kind[row] == INFER_WRITE && *size < end)
            *size = end;
        else if (!*size)
            *size = 1;
        *last = row + 1;
    }
    return true;
}

// Return whether a request is one of those that write nodes: of kblockd or of a checkpoint, or of a fsync that has
// already written its data. `synced` has the last request of each thread that is in a fsync, from 2, and 1 before it.
static bool may_write_nodes(const struct infer_events *e, size_t row, uint64_t *synced)
{
    bool is_later = *synced > 1 && (uint64_t)e->ts[row] - (uint64_t)e->ts[*synced - 2] >= SYNCED_NS;

    if (*synced == 1 || (*synced > 1 && !is_later))
        *synced = row + 2;
    if (!(e->flags[row] & FLAG_KERNEL))
        return is_later;
    return !(e->flags[row] & FLAG_FLUSHER) && (e->flags[row] & FLAG_SYNC);
}

// Count the blocks of each segment, and those of requests that may write nodes.
static bool find_segments(struct infer *in, struct map *synced)
{
    const struct infer_events *e = in->events;

    for (size_t row = 0; row < e->rows; row++) {
        uint64_t *thread, *segment;

        if (!f2fs_is_write(e, row) && e->kind[row] != INFER_SYNC && e->kind[row] != INFER_SYNCED)
            continue;
        thread = map_add(synced, 0, (uint32_t)e->tid[row]);
        if (!thread)
            return false;
        if (e->kind[row] != INFER_WRITES) {
            *thread = e->kind[row] == INFER_SYNC;
            continue;
        }
        segment = map_add(&in->f2fs.segments, e->dev[row], (uint64_t)(e->first[row] / SEGMENT_BLOCKS));
        if (!segment)
            return false;
        uint64_t blocks = (uint64_t)e->count[row];
        bool is_node = may_write_nodes(e, row, thread);
        if ((*segment & COUNT) < COUNT / 2)
            *segment += is_node ? blocks * (NODE + 1) : blocks;
    }
    return true;
}

// Return whether a segment has nodes. A segment has either nodes or data, and nodes are never rewritten in place.
static bool is_node_segment(const struct infer *in, uint32_t dev, int64_t block)
{
    uint64_t segment = map_value(&in->f2fs.segments, dev, (uint64_t)(block / SEGMENT_BLOCKS));

    return !(segment & REWRITTEN) && segment / NODE * 2 > (segment & COUNT);
}

bool f2fs_look_ahead(struct infer *in)
{
    struct map sizes = {0}, last_rows = {0}, synced = {0};
    bool is_done = find_rewrites(in) && find_conversions(in, &sizes, &last_rows) && find_segments(in, &synced);

    map_free(&sizes);
    map_free(&last_rows);
    map_free(&synced);
    return is_done;
}

// Return whether the block will be written within a pass from this event on.
static bool is_written_soon(const struct infer *in, uint32_t dev, int64_t block, int64_t row)
{
    uint64_t next = map_value(&in->f2fs.rewrites, dev, (uint64_t)block);

    return next && next != NOTHING && elapsed_ns(in, (size_t)row, next - 1) < PASS_NS;
}

void f2fs_set_place(struct infer *in, const struct page *page, int64_t block)
{
    uint64_t *place;

    in->files[page->file].has_blocks = true;
    if (page->block == NO_INT64)
        return;
    place = map_add(&in->f2fs.places, page->file, (uint64_t)page->block);
    if (place)
        *place = (uint64_t)block + 1;
    else
        in->is_failed = true;
}

// Return whether a page is about to be rewritten in place.
static bool is_rewritten(struct infer *in, const struct page *page, int64_t row)
{
    uint64_t place = map_value(&in->f2fs.places, page->file, (uint64_t)page->block);
    const struct file *file = &in->files[page->file];
    const struct location *location = place ? location_find(in, file->dev, (int64_t)place - 1) : NULL;

    return location && location->file == page->file && location->block == page->block &&
           location->lifetime == file->lifetime && is_written_soon(in, file->dev, (int64_t)place - 1, row);
}

static void forget(struct map *map, uint32_t dev, uint64_t nid)
{
    if (map_value(map, dev, nid))
        map_remove(map, dev, nid);
}

// The kernel allocates the node of a new inode in the page cache when it makes the inode dirty (fs/f2fs/dir.c,
// f2fs_init_inode_metadata).
void f2fs_cache_nodes(struct infer *in, size_t row, struct thread *thread)
{
    const struct infer_events *e = in->events;

    for (int64_t k = 0; k < e->count[row]; k++) {
        uint64_t nid = (uint64_t)(e->first[row] + k), *node;

        if (e->kind[row] == INFER_DROPPED) {
            forget(&in->f2fs.nodes, e->dev[row], nid);
            forget(&in->f2fs.resumes, e->dev[row], nid);
            if (thread->touched != NOTHING && in->files[thread->touched].ino == (int64_t)nid)
                thread->touched = NOTHING; // deleted
            continue;
        }
        thread->f2fs.node = (int64_t)nid;
        node = map_add(&in->f2fs.nodes, e->dev[row], nid);
        if (node)
            *node = row + 1;
        else
            in->is_failed = true;
    }
}

void f2fs_resume(struct infer *in, size_t row, struct thread *thread)
{
    const struct infer_events *e = in->events;
    uint64_t nid = (uint64_t)thread->f2fs.node, *resumed;

    thread->f2fs.node = 0;
    if (!(e->flags[row] & FLAG_F2FS) || elapsed_ns(in, (size_t)thread->last_row, row) < CREATED_NS)
        return;
    // No other thread ran before the inode was dirty. If none ran for a long time, the machine was paused.
    uint64_t quiet_ns = elapsed_ns(in, (size_t)thread->last_row, (size_t)thread->last_row + 1);
    if (quiet_ns >= CREATED_NS && quiet_ns < PAUSED_NS)
        return;
    resumed = map_add(&in->f2fs.resumes, e->dev[row], nid);
    if (resumed)
        *resumed = row + 1;
    else
        in->is_failed = true;
}

// Return whether a node that entered the cache is a new one: it is not read, alone or with others.
static bool is_new_node(const struct infer *in, size_t row)
{
    const struct infer_events *e = in->events;

    for (size_t next = row + 1; next < e->rows && next - row < CREATION_ROWS; next++) {
        bool is_of_thread = e->tid[next] == e->tid[row];

        if (elapsed_ns(in, row, next) >= CREATED_NS)
            break;
        if (e->kind[next] == INFER_READS && e->dev[next] == e->dev[row] &&
            (is_of_thread || (e->flags[next] & FLAG_KERNEL)))
            return false;
        if (is_of_thread && (e->kind[next] != INFER_CACHED || e->ino[next] != NODE_INODE))
            break;
    }
    return true;
}

int64_t f2fs_dirtied(struct infer *in, size_t at, size_t row)
{
    struct file *file = &in->files[at];
    uint64_t node = map_value(&in->f2fs.nodes, file->dev, (uint64_t)file->ino);

    file->is_created = file->is_dated = false;
    if (!file->is_written && node && is_new_node(in, node - 1))
        file->is_new = true;
    if (!file->is_new || file->is_written)
        return (int64_t)row;
    file->is_dated = node && elapsed_ns(in, node - 1, row) < WAIT_NS;
    file->is_created = !file->is_dated;
    file->resumed_row = (int64_t)map_value(&in->f2fs.resumes, file->dev, (uint64_t)file->ino) - 1;
    return file->is_dated ? (int64_t)(node - 1) : file->first_row;
}

// --- dirty pages -----------------------------------------------------------------------------------------------------

static bool is_inline(const struct file *file)
{
    return file->bytes <= INLINE_BYTES && !file->has_blocks;
}

// Queue a dirty page: to be rewritten in place, or to be appended to a log.
static void queue_page(struct infer *in, struct page page, int64_t row, struct thread *thread, struct queue *appended)
{
    page_clean(in, page.file, page.block, &page.author);
    if (queue_append(in, is_rewritten(in, &page, row) ? &thread->f2fs.rewrites : appended, page))
        state_add(in, WAITING, &page);
}

// Queue the dirty pages of a file in order, from page `first` on and then those before it. Returns the last one.
static int64_t queue_pages(struct infer *in, size_t at, int64_t row, int64_t first, struct thread *thread,
                           struct queue *appended)
{
    struct queue *dirty = &in->files[at].dirty;
    size_t begin = 0, count = dirty->end;
    int64_t last = 0;

    while (begin < count && dirty->pages[begin].block < first)
        begin++;
    for (size_t k = 0; k < count && !in->is_failed; k++) {
        struct page page = dirty->pages[(begin + k) % count];

        last = page.block;
        queue_page(in, page, row, thread, appended);
    }
    return last;
}

// Prepare the dirty pages of a file to be queued, and return the log that they go to. Pages in the inode are dropped.
static enum f2fs_heat prepare(struct infer *in, struct file *file)
{
    if (is_inline(file))
        flush(in, (size_t)(file - in->files), NULL);
    sort_dirty(in, file);
    return file->dirty.end > HOT_PAGES && !file->is_hot ? WARM : HOT;
}

void f2fs_flush(struct infer *in, size_t at, int64_t row, struct thread *thread)
{
    struct file *file = &in->files[at];

    thread->f2fs.heat = prepare(in, file);
    if (file->dirty.end)
        file->writeback_index = queue_pages(in, at, row, 0, thread, &thread->issues);
}

void f2fs_flush_dropped(struct infer *in, size_t at, size_t row, int64_t count, struct thread *thread)
{
    const struct infer_events *e = in->events;
    const struct queue *dirty = &in->files[at].dirty;
    int32_t tid = e->tid[row];
    int64_t first = e->first[row], end = first;
    size_t begin = 0;

    for (size_t limit = row + MAX_AHEAD; row < e->rows && row < limit; row++) {
        if (e->tid[row] != tid)
            continue;
        if (e->kind[row] != INFER_DROPPED || e->ino[row] != in->files[at].ino || e->first[row] != end)
            break;
        end += e->count[row];
    }
    sort_dirty(in, &in->files[at]);
    while (begin < dirty->end && dirty->pages[begin].block < first)
        begin++;
    size_t after = begin;
    while (after < dirty->end && dirty->pages[after].block < end)
        after++;
    if ((int64_t)(after - begin) != count)
        return;
    thread->f2fs.heat = dirty->end > HOT_PAGES && !in->files[at].is_hot ? WARM : HOT;
    for (size_t k = begin; k < after && !in->is_failed; k++)
        queue_page(in, dirty->pages[k], (int64_t)row, thread, &thread->issues);
}

// Return how many dirty pages, from this one on, are about to be written at this distance from their index, in runs of
// the same length. A single run proves nothing: a log may get it.
static size_t pages_at(const struct infer *in, const struct file *file, size_t begin, int64_t row, int64_t distance)
{
    const struct page *pages = file->dirty.pages;
    size_t runs = 0, whole = begin;

    for (size_t end = begin; end < file->dirty.end && end - begin < MAX_PAGES; end++) {
        int64_t block = pages[end].block;
        bool is_first = end == begin || pages[end - 1].block != block - 1;
        bool is_last = end + 1 == file->dirty.end || pages[end + 1].block != block + 1;

        if (!is_written_soon(in, file->dev, block + distance, row) ||
            (is_first && is_written_soon(in, file->dev, block + distance - 1, row)) ||
            (is_last && is_written_soon(in, file->dev, block + distance + 1, row)))
            break;
        if (is_last) {
            runs++;
            whole = end + 1;
        }
    }
    return runs < MIN_RUNS ? 0 : whole - begin;
}

// Place the dirty pages of a file, from this one on, by the later requests that have the same distances. Returns their
// number.
static size_t place_pages(struct infer *in, size_t at, size_t begin, int64_t row)
{
    const struct infer_events *e = in->events;
    const struct file *file = &in->files[at];
    const struct page *pages = file->dirty.pages;
    int64_t distance = 0;
    size_t count = 0;

    for (size_t next = (size_t)row; next < e->rows && next - (size_t)row < MAX_AHEAD; next++) {
        int64_t at_distance = e->first[next] - pages[begin].block;

        if (!f2fs_is_write(e, next) || e->dev[next] != file->dev)
            continue;
        size_t found = pages_at(in, file, begin, row, at_distance);
        if (found > count) {
            count = found;
            distance = at_distance;
        }
    }
    for (size_t k = begin; k < begin + count; k++) {
        struct location *location = location_at(in, file->dev, pages[k].block + distance);

        if (!location)
            return 0;
        *location = (struct location){at, pages[k].block, file->lifetime, location->result};
        f2fs_set_place(in, &pages[k], pages[k].block + distance);
    }
    return count;
}

// Find the places of a file from before the recording whose dirty pages are about to be rewritten in place.
static void find_places(struct infer *in, size_t at, int64_t row)
{
    struct file *file = &in->files[at];
    size_t begin = 0, tries = 0;

    if (file->sought && elapsed_ns(in, file->sought - 1, (size_t)row) < SEEK_NS)
        return;
    file->sought = (size_t)row + 1;
    if (file->is_new || !file->dirty.end || map_value(&in->f2fs.places, at, (uint64_t)file->dirty.pages[0].block))
        return;
    while (begin < file->dirty.end && tries++ < MAX_EXTENTS && !in->is_failed) {
        size_t count = place_pages(in, at, begin, row);

        begin += count ? count : 1;
    }
}

int64_t f2fs_appended(struct infer *in, size_t at, int64_t row, enum f2fs_heat *heat)
{
    struct file *file = &in->files[at];
    int64_t count = 0;

    *heat = prepare(in, file);
    find_places(in, at, row);
    for (size_t k = 0; k < file->dirty.end; k++)
        count += !is_rewritten(in, &file->dirty.pages[k], row);
    return count;
}

void f2fs_flush_in_background(struct infer *in, size_t at, int64_t row, struct thread *flusher)
{
    struct file *file = &in->files[at];
    enum f2fs_heat heat = prepare(in, file);

    list_remove(in, at);
    find_places(in, at, row);
    queue_pages(in, at, row, file->writeback_index, flusher, heat == WARM ? &flusher->f2fs.warm : &flusher->issues);
    file->writeback_index = 0;
}

// --- logs ------------------------------------------------------------------------------------------------------------

static bool has_nodes(const struct f2fs_log *log)
{
    return log->nr_nodes > log->nr_data;
}

struct f2fs_log *f2fs_log_at(struct infer *in, uint32_t dev, int64_t block)
{
    struct f2fs_log *full = NULL, *ahead = NULL;

    for (size_t k = 0; k < in->f2fs.nr_logs; k++) {
        struct f2fs_log *log = &in->f2fs.logs[k];

        if (log->dev != dev)
            continue;
        if (log->next == block || log->ahead_end == block)
            return log;
        if (log->next % SEGMENT_BLOCKS == 0) {
            if (has_nodes(log) == is_node_segment(in, dev, block) && (!full || full->row < log->row))
                full = log;
        } else if (log->next < block && block / SEGMENT_BLOCKS == log->next / SEGMENT_BLOCKS) {
            ahead = ahead && ahead->next > log->next ? ahead : log;
        }
    }
    return ahead ? ahead : block % SEGMENT_BLOCKS == 0 ? full : NULL;
}

bool f2fs_is_in_log(const struct infer *in, uint32_t dev, int64_t block)
{
    for (size_t k = 0; k < in->f2fs.nr_logs; k++) {
        const struct f2fs_log *log = &in->f2fs.logs[k];

        if (log->dev == dev && block < log->next && block / SEGMENT_BLOCKS == (log->next - 1) / SEGMENT_BLOCKS)
            return true;
    }
    return false;
}

bool f2fs_append(struct f2fs_log *log, int64_t block, int64_t count)
{
    if (log->next == block)
        log->next = block + count;
    else if (log->ahead_end == block && block)
        log->ahead_end = block + count;
    else
        return false;
    if (log->next == log->ahead) {
        log->next = log->ahead_end;
        log->ahead = log->ahead_end = 0;
    }
    return true;
}

bool f2fs_has_log(const struct infer *in, uint32_t dev, enum f2fs_heat heat)
{
    for (size_t k = 0; k < in->f2fs.nr_logs; k++)
        if (in->f2fs.logs[k].dev == dev && in->f2fs.logs[k].heat == heat)
            return true;
    return false;
}

// Remember a log, in place of the oldest one if the device has as many as can be.
static void log_add(struct infer *in, const struct f2fs_log *log)
{
    struct f2fs_log *oldest = NULL;
    size_t count = 0;

    for (size_t k = 0; k < in->f2fs.nr_logs; k++) {
        struct f2fs_log *other = &in->f2fs.logs[k];

        if (other->dev != log->dev)
            continue;
        count++;
        if (!oldest || other->row < oldest->row)
            oldest = other;
    }
    if (count == NR_LOGS)
        *oldest = *log;
    else if (grow(in, &in->f2fs.logs, in->f2fs.nr_logs, &in->f2fs.log_capacity, sizeof(*log)))
        in->f2fs.logs[in->f2fs.nr_logs++] = *log;
}

// Note that data of a file are in a log. A large file is in the log of hot data if its name ends in such as .db, which
// no event contains.
static void set_data(struct f2fs_log *log, enum f2fs_heat heat, struct file *file)
{
    log->nr_data++;
    if (heat == HOT || log->heat == HEAT_UNKNOWN)
        log->heat = heat;
    else if (heat == WARM && log->heat == HOT)
        file->is_hot = true;
}

// --- rules -----------------------------------------------------------------------------------------------------------

bool f2fs_is_placed(struct infer *in, uint32_t dev, int64_t block)
{
    const struct location *location = location_find(in, dev, block);

    if (!location || location->file == NOTHING || location->block == NO_INT64)
        return false;
    return in->files[location->file].is_alive && in->files[location->file].lifetime == location->lifetime &&
           map_value(&in->f2fs.places, location->file, (uint64_t)location->block) == (uint64_t)block + 1 &&
           (map_value(&in->pages[DIRTY], location->file, (uint64_t)location->block) ||
            map_value(&in->pages[WAITING], location->file, (uint64_t)location->block));
}

static bool place(struct infer *in, const struct issue *issue, int64_t block, const struct f2fs_log *log)
{
    const struct location *location = location_find(in, issue->dev, block);
    bool is_of_sync, is_dirty = false;
    struct page page;

    if (!location || location->file == NOTHING)
        return false;
    const struct file *file = &in->files[location->file];
    page = (struct page){location->file, location->block, NO_INT64};
    if (!file->is_alive || file->lifetime != location->lifetime)
        return false;
    if (page.block != NO_INT64) {
        if (map_value(&in->f2fs.places, page.file, (uint64_t)page.block) != (uint64_t)block + 1)
            return false;
        is_dirty = page_remove(in, page.file, page.block, &page.author);
    }
    if (!is_dirty) { // stored through a memory map
        is_of_sync = issue->holder != NOTHING && in->threads[issue->holder].syncing == page.file;
        if (log || (!is_of_sync && (issue->holder != NOTHING || !(issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD)))))
            return false;
        page.author = is_of_sync ? in->threads[issue->holder].sync : file->author;
    }
    write_page(in, issue, block, &page, page.author, RULE_PLACE);
    return true;
}

// Return the row of the write for which a request moves the first block of a file out of its inode, or NOTHING. The
// writing thread waits for the request, so it has no event in between.
static size_t converting_write(struct infer *in, const struct issue *issue)
{
    const struct infer_events *e = in->events;
    struct f2fs *f2fs = &in->f2fs;

    while (f2fs->done < f2fs->nr_conversions && f2fs->conversions[f2fs->done].row < (size_t)issue->event)
        f2fs->done++;
    for (size_t k = f2fs->done; k < f2fs->nr_conversions && k - f2fs->done < MAX_WAITING; k++) {
        struct f2fs_conversion *one = &f2fs->conversions[k];

        if (elapsed_ns(in, (size_t)issue->event, one->row) >= WAIT_NS)
            break;
        bool is_of_thread = issue->flags & FLAG_KERNEL || e->tid[one->row] == e->tid[issue->event];

        if (!one->is_done && is_of_thread && one->since < (size_t)issue->event && e->dev[one->row] == issue->dev) {
            one->is_done = true;
            return one->row;
        }
    }
    return NOTHING;
}

// Rule converted.
static bool converted(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    bool can_be = (issue->flags & FLAG_SYNC) && issue->blocks == 1 && !has_nodes(log);
    size_t row = can_be && issue->holder != issue->thread ? converting_write(in, issue) : NOTHING;
    struct page page = {.block = 0, .author = NO_INT64};

    if (row == NOTHING)
        return false;
    page.file = file_at(in, issue->dev, in->events->ino[row]);
    if (page.file == NOTHING)
        return false;
    if (!page_remove(in, page.file, page.block, &page.author))
        page.author = (int64_t)row;
    write_page(in, issue, block, &page, page.author, RULE_CONVERTED);
    set_data(log, HOT, &in->files[page.file]);
    return true;
}

// Rule node. The owner is that of the fsync, if it is one.
static void node(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    int64_t author = issue->holder == NOTHING ? NO_INT64 : in->threads[issue->holder].sync;

    log->nr_nodes++;
    write_page(in, issue, block, NULL, author, RULE_NODE);
}

// Return the queue of the pages that go to a log, after files were flushed in the order in which they became dirty.
static struct queue *next_queue(struct infer *in, const struct issue *issue, struct f2fs_log *log,
                                struct thread *flusher)
{
    struct queue *queues[] = {[HOT] = &flusher->issues, [WARM] = &flusher->f2fs.warm};

    for (;;) {
        bool is_hot = is_waiting(in, WAITING, queues[HOT]), is_warm = is_waiting(in, WAITING, queues[WARM]);

        if (log->heat == HEAT_UNKNOWN && (is_hot || is_warm))
            log->heat = is_warm && (!is_hot || f2fs_has_log(in, issue->dev, HOT)) ? WARM : HOT;
        if (log->heat == HOT ? is_hot : log->heat == WARM && is_warm)
            return queues[log->heat];
        if (flusher->oldest == NOTHING || flusher->f2fs.rule == RULE_WRITEBACK_MISFIT)
            return is_hot ? queues[HOT] : queues[WARM];
        f2fs_flush_in_background(in, flusher->oldest, issue->event, flusher);
    }
}

// Return whether the next page of a queue may be one of another file.
static bool is_unordered(const struct infer *in, const struct queue *queue)
{
    size_t file = queue->pages[queue->head].file, count = (size_t)in->files[file].nr_unordered;

    return count && (count >= queue->end - queue->head || queue->pages[queue->head + count].file != file);
}

static void writeback(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    size_t at = thread_at(in, true, issue->dev);

    if (at == NOTHING)
        return;
    struct thread *flusher = &in->threads[at];
    if (log->heat == HEAT_UNKNOWN && !log->nr_data && flusher->f2fs.has_unplaced) {
        write_unknown(in, issue, block);
        return;
    }
    if (log->heat == HEAT_UNKNOWN && !log->nr_data && f2fs_has_log(in, issue->dev, HOT))
        log->heat = WARM;
    struct queue *queue = next_queue(in, issue, log, flusher);
    if (place(in, issue, block, NULL)) // of a file that has just been flushed
        return;
    enum infer_rule rule = flusher->f2fs.rule;
    if (rule != RULE_WRITEBACK_MISFIT && is_waiting(in, WAITING, queue) && is_unordered(in, queue))
        rule = RULE_WRITEBACK_UNORDERED;
    if (write_next(in, issue, block, queue, rule))
        log->nr_data++;
    else
        write_unknown(in, issue, block);
}

// Write a page of another fsync, or of the flusher.
static void write_foreign(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log,
                          struct f2fs_thread *thread)
{
    enum infer_rule rule = thread->is_mixed ? RULE_SYNC_OTHER : RULE_SYNC;
    size_t k = 0;

    if (!thread->nr_others && !thread->is_unknown) {
        writeback(in, issue, block, log);
        return;
    }
    log->nr_data++;
    while (k < thread->nr_others && !thread->others[k].count)
        k++;
    if (k == thread->nr_others || !write_next(in, issue, block, &in->threads[thread->others[k].thread].issues, rule))
        write_unknown(in, issue, block);
    else
        thread->others[k].count--;
}

static void write_for_sync(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    struct thread *holder = &in->threads[issue->holder];
    bool is_own = issue->holder == issue->thread;
    struct page page = {holder->syncing, NO_INT64, holder->sync};

    if (is_own && holder->f2fs.nr_foreign && !has_nodes(log)) {
        holder->f2fs.nr_foreign--;
        write_foreign(in, issue, block, log, &holder->f2fs);
        return;
    }
    bool can_be_data = !has_nodes(log) || (is_own && log->nr_nodes - log->nr_data < MANY_BLOCKS);
    bool has_data = log->nr_data || issue->blocks >= MANY_BLOCKS;
    enum infer_rule rule = is_own && !holder->f2fs.is_mixed ? RULE_SYNC : RULE_SYNC_OTHER;

    if (can_be_data && write_next(in, issue, block, &holder->issues, rule)) {
        set_data(log, holder->f2fs.heat, &in->files[page.file]);
    } else if (is_own && !has_nodes(log) && has_data) {
        write_page(in, issue, block, &page, page.author, RULE_SYNC); // stored through a memory map
    } else if (log->nr_data > log->nr_nodes) {
        write_unknown(in, issue, block); // a directory
    } else {
        node(in, issue, block, log);
    }
}

static void self(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    struct thread *thread = &in->threads[issue->thread];

    if (!is_waiting(in, WAITING, &thread->issues) && thread->wrote != NOTHING) {
        drop(in, WAITING, &thread->f2fs.rewrites);
        f2fs_flush(in, thread->wrote, issue->event, thread);
    }
    if (write_next(in, issue, block, &thread->issues, RULE_SELF))
        set_data(log, thread->f2fs.heat, &in->files[thread->wrote]);
    else if (issue->flags & FLAG_SYNC)
        direct(in, issue, block);
    else
        write_unknown(in, issue, block); // direct I/O is synchronous (fs/iomap/direct-io.c, iomap_dio_bio_opflags)
}

// --- order of the rules ----------------------------------------------------------------------------------------------

static void append_block(struct infer *in, const struct issue *issue, int64_t block, struct f2fs_log *log)
{
    if (converted(in, issue, block, log))
        return;
    if (issue->holder != NOTHING)
        write_for_sync(in, issue, block, log);
    else if (has_nodes(log))
        node(in, issue, block, log);
    else if (issue->flags & (FLAG_FLUSHER | FLAG_KBLOCKD))
        writeback(in, issue, block, log);
    else if (issue->flags & FLAG_KERNEL)
        write_unknown(in, issue, block);
    else
        self(in, issue, block, log);
}

// Return whether a block that continues no known log begins one. A file from before the recording may have been there.
static bool is_new_log(struct infer *in, const struct f2fs_log *log, int64_t block)
{
    const struct location *location = location_find(in, log->dev, block);

    if (f2fs_is_in_log(in, log->dev, block))
        return false;
    if (!log->nr_nodes && !log->nr_data)
        return !(in->events->flags[log->row] & (FLAG_FLUSHER | FLAG_KBLOCKD));
    if (log->nr_nodes || block % SEGMENT_BLOCKS == 0 || !f2fs_has_log(in, log->dev, log->heat))
        return true;
    return location && location->file != NOTHING && in->files[location->file].is_new;
}

// Begin a segment, or a run of blocks ahead of others that are issued later.
static void begin_run(struct f2fs_log *log, int64_t block, int64_t row)
{
    if (log->next % SEGMENT_BLOCKS == 0) {
        log->next = block + 1;
    } else {
        log->ahead = block;
        log->ahead_end = block + 1;
    }
    log->row = row;
}

static void write_block(struct infer *in, const struct issue *issue, int64_t block)
{
    struct f2fs_log *log = f2fs_log_at(in, issue->dev, block), other = {.dev = issue->dev};

    other.next = block + 1;
    other.row = issue->event;
    other.nr_nodes = is_node_segment(in, issue->dev, block) ? MANY_BLOCKS : 0;
    bool is_appended = log && f2fs_append(log, block, 1);
    if (is_appended)
        log->row = other.row;
    if (place(in, issue, block, log))
        return;
    if (log && !is_appended)
        begin_run(log, block, issue->event);
    if (log) {
        append_block(in, issue, block, log);
    } else {
        append_block(in, issue, block, &other);
        if (is_new_log(in, &other, block)) {
            log_add(in, &other);
        }
    }
}

// Return the thread in a fsync that a request belongs to: the issuing thread, or for a synchronous request issued by
// kblockd the last thread with waiting pages; if the request appends nodes, without.
static size_t syncing_thread(struct infer *in, const struct issue *issue, const struct f2fs_log *log)
{
    size_t found = NOTHING;

    if (in->threads[issue->thread].syncing != NOTHING)
        return issue->thread;
    if (issue->is_writeback || !(issue->flags & FLAG_KBLOCKD) || !(issue->flags & FLAG_SYNC))
        return NOTHING;
    for (size_t k = 0; k < in->nr_syncing; k++) {
        struct thread *thread = &in->threads[in->syncing[k]];
        bool has_pages = is_waiting(in, WAITING, &thread->issues) || is_waiting(in, WAITING, &thread->f2fs.rewrites);

        if (found == NOTHING || has_pages != (log && has_nodes(log)))
            found = in->syncing[k];
    }
    return found;
}

void f2fs_write_blocks(struct infer *in, struct issue *issue, int64_t first)
{
    issue->holder = syncing_thread(in, issue, f2fs_log_at(in, issue->dev, first));
    for (int64_t block = first; block < first + issue->blocks && !in->is_failed; block++)
        write_block(in, issue, block);
}

void f2fs_find_next_writes(struct infer *in, size_t row)
{
    const struct infer_events *e = in->events;

    for (int64_t k = 0; k < e->count[row]; k++)
        *map_find(&in->f2fs.rewrites, e->dev[row], (uint64_t)(e->first[row] + k)) =
            in->f2fs.next_rows[in->f2fs.written++];
}

void f2fs_free(struct infer *in)
{
    map_free(&in->f2fs.nodes);
    map_free(&in->f2fs.resumes);
    map_free(&in->f2fs.places);
    map_free(&in->f2fs.rewrites);
    map_free(&in->f2fs.segments);
    free(in->f2fs.next_rows);
    free(in->f2fs.conversions);
    free(in->f2fs.logs);
}
