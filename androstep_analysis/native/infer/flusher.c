// The order in which F2FS's flusher writes files.
//
// - It visits the dirty inodes in the order in which they became dirty (fs/fs-writeback.c, queue_io), and writes all
//   dirty pages of each. A request therefore ends with a file, except in large files.
// - While a fsync issues its data it skips the inodes that it visits (fs/f2fs/data.c, wb_sync_req). These become dirty
//   anew (redirty_tail).
// - Requests of a thread collect in its plug, which issues the last one first (block/blk-mq.c, blk_mq_flush_plug_list).
#include "infer/state.h"

#define MAX_BURST       64            // requests of a plug
#define BURST_ROWS      1024          // in which they are searched for
#define BURST_NS        1000000       // between two of them
#define BREAK_NS        500000000     // the flusher does not wait so long between two requests of a pass
#define EXPIRE_NS       2000000000ULL // age of a dirty inode that is written: vm.dirty_expire_centisecs of Android
#define INTERVAL_NS     1000000000ULL // between passes in which all files are skipped
#define DELAY_NS        100000000ULL  // between the begin of a pass and its first request
#define SYNC_NS         2000000000ULL // between a fsync and the next pass over the files that were skipped for it
#define COLLECT_NS      20000000      // between the collection of a page and its request
#define DROP_ROWS       64            // in which the end of a file is searched for
#define MAX_CANDIDATES  256           // dirty files that may be written in a burst
#define MAX_GAP         64            // of them that were skipped
#define MAX_COLLECTED   16            // pages that wait for a fsync, but are already collected
#define MIN_SKIPPED     16            // blocks that show that files were skipped
#define MAX_SEARCHED    64            // threads in a fsync that are searched for such pages
#define MAX_FSYNC_ROWS  4096          // in which the requests of a fsync are searched for
#define MIN_FILE_PAGES  4             // mean pages of these files, if all files that are due are written, and
#define MANY_FILE_PAGES 16            // otherwise
#define MIN_FOUND       32            // blocks that show the place in the order after it was lost

// Requests that a thread issues at once.
struct burst {
    size_t rows[MAX_BURST];
    bool is_done[MAX_BURST];
    size_t count;
};

// The dirty files in their order, with the number of pages of all files up to each, by log.
struct candidates {
    size_t files[MAX_CANDIDATES];
    bool is_dropped[MAX_CANDIDATES];
    int64_t hot[MAX_CANDIDATES + 1], warm[MAX_CANDIDATES + 1];
    size_t count;
};

static struct burst collect(const struct infer_events *e, size_t row)
{
    struct burst burst = {.rows = {row}, .count = 1};
    size_t last = row;

    for (size_t next = row + 1; next < e->rows && next - row < BURST_ROWS && burst.count < MAX_BURST; next++) {
        if ((uint64_t)e->ts[next] - (uint64_t)e->ts[last] >= BURST_NS)
            break;
        if (e->tid[next] != e->tid[row])
            continue;
        if (!f2fs_is_write(e, next) || e->dev[next] != e->dev[row])
            break;
        burst.rows[burst.count++] = last = next;
    }
    return burst;
}

static int64_t nr_blocks(const struct infer_events *e, const struct burst *burst)
{
    int64_t blocks = 0;

    for (size_t k = 0; k < burst->count; k++)
        blocks += e->count[burst->rows[k]];
    return blocks;
}

// --- files of a burst ------------------------------------------------------------------------------------------------

// Return the block of a request that continues a log, or -1. The blocks before it are rewritten in place.
static int64_t continuing(const struct infer_events *e, size_t row, const struct f2fs_log *log)
{
    int64_t first = e->first[row], end = first + e->count[row];

    if (first <= log->next && log->next < end)
        return log->next;
    return log->ahead_end && first <= log->ahead_end && log->ahead_end < end ? log->ahead_end : -1;
}

// Find a request of a burst that continues a log, or else one that begins the next segment of a log of data. Returns
// the block from which on it is appended, or -1.
static int64_t find_appended(const struct infer_events *e, const struct burst *burst, const bool is_counted[],
                             const struct f2fs_log logs[], size_t nr_logs, size_t *request, size_t *log)
{
    int64_t found = -1;

    for (size_t k = 0; k < burst->count; k++)
        for (size_t n = 0; n < nr_logs && !is_counted[k]; n++) {
            int64_t first = e->first[burst->rows[k]], block = continuing(e, burst->rows[k], &logs[n]);
            bool is_next = logs[n].next % SEGMENT_BLOCKS == 0 && first % SEGMENT_BLOCKS == 0 &&
                           logs[n].nr_nodes <= logs[n].nr_data;

            if (block < 0 && (!is_next || found >= 0))
                continue;
            *request = k;
            *log = n;
            if (block >= 0)
                return block;
            found = first;
        }
    return found;
}

// Count the blocks that the requests of a burst append to each log, or begin another one with. Returns whether a
// segment ends with the burst, so that its last file may continue in another one.
static bool count_blocks(struct infer *in, const struct burst *burst, int64_t counts[WARM + 1])
{
    const struct infer_events *e = in->events;
    struct f2fs_log logs[2 * MAX_BURST];
    size_t nr_logs = 0, at = 0, k = 0;
    bool is_counted[MAX_BURST] = {false}, is_end = false;
    uint32_t dev = e->dev[burst->rows[0]];
    int64_t block;

    for (size_t n = 0; n < in->f2fs.nr_logs && nr_logs < 2 * MAX_BURST; n++)
        if (in->f2fs.logs[n].dev == dev)
            logs[nr_logs++] = in->f2fs.logs[n];
    while ((block = find_appended(e, burst, is_counted, logs, nr_logs, &k, &at)) >= 0) {
        int64_t count = e->first[burst->rows[k]] + e->count[burst->rows[k]] - block;

        is_counted[k] = true;
        if (!f2fs_append(&logs[at], block, count))
            logs[at].next = block + count;
        if (logs[at].nr_nodes <= logs[at].nr_data)
            counts[logs[at].heat] += count;
    }
    for (size_t n = 0; n < nr_logs; n++)
        is_end |= counts[logs[n].heat] && logs[n].next % SEGMENT_BLOCKS == 0;
    for (k = 0; k < burst->count; k++) {
        int64_t first = e->first[burst->rows[k]];
        const struct f2fs_log *log = f2fs_log_at(in, dev, first);

        if (!is_counted[k] && !f2fs_is_placed(in, dev, first) && (log || !f2fs_is_in_log(in, dev, first)))
            counts[log ? log->heat : HEAT_UNKNOWN] += e->count[burst->rows[k]];
    }
    return is_end;
}

// Return whether pages of a file are dropped just after a request. A file that is being deleted is not written.
static bool is_dropped_soon(const struct infer *in, const struct file *file, size_t row)
{
    const struct infer_events *e = in->events;

    for (size_t next = row + 1; next < e->rows && next - row < DROP_ROWS && elapsed_ns(in, row, next) < DELAY_NS;
         next++)
        if (e->kind[next] == INFER_DROPPED && e->ino[next] == file->ino && e->dev[next] == file->dev)
            return true;
    return false;
}

// List the files that are next, until they have twice as many pages as the burst.
static struct candidates list_candidates(struct infer *in, const struct thread *flusher, size_t row, int64_t pages,
                                         uint64_t min_ns, bool has_dropped)
{
    struct candidates all = {.count = 0};
    size_t at = flusher->oldest, next;

    for (; at != NOTHING && all.count < MAX_CANDIDATES; at = next) {
        enum f2fs_heat heat;

        if (elapsed_ns(in, (size_t)in->files[at].listed_row, row) < min_ns)
            break;
        int64_t count = f2fs_appended(in, at, (int64_t)row, &heat);

        all.is_dropped[all.count] = count && !has_dropped && is_dropped_soon(in, &in->files[at], row);
        if (all.is_dropped[all.count])
            count = 0;
        next = in->files[at].next;
        all.files[all.count++] = at;
        all.hot[all.count] = all.hot[all.count - 1] + (heat == HOT ? count : 0);
        all.warm[all.count] = all.warm[all.count - 1] + (heat == WARM ? count : 0);
        if (all.hot[all.count] + all.warm[all.count] > 2 * pages + 1024)
            break;
    }
    return all;
}

// Return the number of candidates up to the last one of a burst from which files [begin, end) are missing, or 0. Only a
// large file may continue in the next burst, or any file if a fsync interrupts the flusher.
static size_t fitting(const struct candidates *all, size_t begin, size_t end, const int64_t counts[WARM + 1],
                      bool is_open)
{
    int64_t hot = counts[HOT] + all->hot[end] - all->hot[begin],
            warm = counts[WARM] + all->warm[end] - all->warm[begin];
    size_t low = end, high = all->count;

    while (low < high) { // the first file with all pages of the burst
        size_t middle = low + (high - low) / 2;

        if (all->hot[middle] + all->warm[middle] >= hot + warm)
            high = middle;
        else
            low = middle + 1;
    }
    if (is_open && low > end && all->hot[low] >= hot && all->warm[low] >= warm &&
        all->hot[low - 1] + all->warm[low - 1] < hot + warm)
        return low;
    if (all->hot[low] != hot || all->warm[low] < warm)
        return 0;
    if (all->warm[low] > warm && (!counts[WARM] || low == end || all->warm[low - 1] >= warm))
        return 0;
    return low;
}

// Return the row of the previous pass: that of its last burst, or without a burst that of its time.
static size_t previous_pass(const struct infer *in, const struct thread *flusher, size_t row)
{
    size_t began = flusher->f2fs.began, low = 0, high = row;

    if (began && elapsed_ns(in, began - 1, row) < 2 * INTERVAL_NS - DELAY_NS)
        return began - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (elapsed_ns(in, middle, row) < INTERVAL_NS)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Make a file that the flusher skipped dirty anew: in the previous pass if it was due then, or else in this one.
static void skip_file(struct infer *in, size_t at, size_t row, size_t previous)
{
    struct file *file = &in->files[at];
    bool was_due = (size_t)file->listed_row < previous &&
                   elapsed_ns(in, (size_t)file->listed_row, previous) >= EXPIRE_NS - DELAY_NS;
    size_t since = was_due ? previous : row;

    list_remove(in, at);
    file->is_dated = file->is_created = false;
    list_add(in, at, (int64_t)since);
}

// Return whether the flusher has nothing left to write in this pass after `end` files.
static bool is_complete(const struct infer *in, const struct candidates *all, size_t end, size_t row)
{
    for (size_t k = end; k < all->count; k++)
        if ((all->hot[k + 1] > all->hot[k] || all->warm[k + 1] > all->warm[k]) &&
            elapsed_ns(in, (size_t)in->files[all->files[k]].listed_row, row) >= EXPIRE_NS + DELAY_NS)
            return false;
    return true;
}

// Queue the pages of a file. The flusher collected them some time before it issues them, and what was written since is
// dirty again.
static void queue_file(struct infer *in, size_t at, size_t row, struct thread *flusher)
{
    struct file *file = &in->files[at];

    f2fs_flush_in_background(in, at, (int64_t)row, flusher);
    if (in->nr_syncing && file->author != NO_INT64 && elapsed_ns(in, (size_t)file->author, row) < COLLECT_NS) {
        file->is_dated = file->is_created = false;
        list_add(in, at, file->author);
    }
}

// Return whether two candidates have pages in the same log.
static bool share_log(const struct candidates *all, size_t one, size_t other)
{
    return (all->hot[one + 1] > all->hot[one] && all->hot[other + 1] > all->hot[other]) ||
           (all->warm[one + 1] > all->warm[one] && all->warm[other + 1] > all->warm[other]);
}

// Count the last pages of the files of a burst, from `begin` to `end`, that may be those of another file up to `limit`:
// a thread was preempted before or after it made a new inode dirty, and other files became dirty meanwhile.
static void mark_unordered(struct infer *in, const struct candidates *all, size_t begin, size_t end, size_t limit)
{
    for (size_t k = begin; k < end; k++) {
        struct file *file = &in->files[all->files[k]];
        int64_t pages = all->hot[k + 1] - all->hot[k] + all->warm[k + 1] - all->warm[k];

        for (size_t next = k + 1; file->is_dated && next < limit; next++) {
            struct file *other = &in->files[all->files[next]];

            if (other->listed_row >= file->resumed_row)
                break;
            if (!share_log(all, k, next))
                continue;
            file->nr_unordered += pages;
            other->nr_unordered += pages;
        }
    }
}

// Queue the files of a burst, and return the rule for its blocks.
static enum infer_rule queue_files(struct infer *in, struct thread *flusher, size_t row, const struct candidates *all,
                                   const int64_t counts[WARM + 1], bool can_skip, bool is_open)
{
    size_t previous = previous_pass(in, flusher, row);

    for (size_t gap = 0; gap <= (can_skip ? MAX_GAP : 0) && gap < all->count; gap++) {
        size_t end = fitting(all, 0, gap, counts, is_open);

        if (!end || (gap && !is_complete(in, all, end, row)))
            continue;
        flusher->f2fs.is_continued = all->warm[end] - all->warm[gap] > counts[WARM];
        flusher->f2fs.is_complete = is_complete(in, all, end, row);
        flusher->f2fs.nr_files = 0;
        for (size_t k = gap; k < end; k++)
            flusher->f2fs.nr_files += all->hot[k + 1] > all->hot[k] || all->warm[k + 1] > all->warm[k];
        mark_unordered(in, all, gap, end, is_open ? all->count : end);
        for (size_t k = 0; k < end; k++)
            if (k < gap)
                skip_file(in, all->files[k], row, previous);
            else if (!all->is_dropped[k])
                queue_file(in, all->files[k], row, flusher);
        return gap ? RULE_WRITEBACK_DURING_SYNC : RULE_WRITEBACK;
    }
    return RULE_WRITEBACK_MISFIT;
}

// Return whether the files of a burst fit with so many more pages of a file.
static bool fits_with(const struct candidates *all, size_t at, int64_t pages, const int64_t counts[WARM + 1],
                      bool is_open)
{
    struct candidates more = *all;

    for (size_t n = at + 1; n <= all->count; n++)
        more.hot[n] += pages;
    return fitting(&more, 0, 0, counts, is_open) > at;
}

// Queue the files of a burst if they fit with the first pages of one file that wait for a fsync. The flusher may have
// collected these before.
static bool queue_synced_files(struct infer *in, struct thread *flusher, size_t row, const struct candidates *all,
                               const int64_t counts[WARM + 1], bool is_open)
{
    for (size_t k = 0; k < in->nr_syncing; k++) {
        struct thread *thread = &in->threads[in->syncing[k]];
        int64_t waiting = nr_waiting(in, &thread->issues), pages = 1;
        size_t at = 0;

        while (at < all->count && all->files[at] != thread->syncing)
            at++;
        while (at < all->count && pages <= waiting && pages <= MAX_COLLECTED &&
               !fits_with(all, at, pages, counts, is_open))
            pages++;
        if (at == all->count || pages > waiting || pages > MAX_COLLECTED)
            continue;
        for (; pages > 0 && is_waiting(in, WAITING, &thread->issues); pages--) {
            struct page page = thread->issues.pages[thread->issues.head++];

            state_remove(in, WAITING, page.file, page.block, &page.author);
            page_dirty(in, page.file, page.block, page.author);
        }
        struct candidates more =
            list_candidates(in, flusher, row, counts[HOT] + counts[WARM], EXPIRE_NS - DELAY_NS, true);
        return queue_files(in, flusher, row, &more, counts, false, is_open) == RULE_WRITEBACK;
    }
    return false;
}

// Make the pages dirty again that remain of the flusher's last pass: a fsync interrupted it.
static void return_pages(struct infer *in, struct queue *queue, size_t row)
{
    while (is_waiting(in, WAITING, queue)) {
        struct page page = queue->pages[queue->head++];
        struct file *file = &in->files[page.file];

        state_remove(in, WAITING, page.file, page.block, &page.author);
        page_dirty(in, page.file, page.block, page.author);
        if (!file->is_listed) {
            file->is_dated = file->is_created = false;
            file->writeback_index = page.block;
            list_add(in, page.file, (int64_t)row);
        }
    }
}

static void begin_pass(struct infer *in, struct thread *flusher, size_t row)
{
    size_t last = flusher->f2fs.issued;

    if (last && flusher->f2fs.began && elapsed_ns(in, last - 1, row) >= BREAK_NS) {
        return_pages(in, &flusher->issues, flusher->f2fs.began - 1);
        return_pages(in, &flusher->f2fs.warm, flusher->f2fs.began - 1);
        return_pages(in, &flusher->f2fs.rewrites, flusher->f2fs.began - 1);
    }
    flusher->f2fs.issued = row + 1;
}

// Queue the files of a burst, and return the rule for its blocks: files that are due, then with pages that wait for a
// fsync, without files that are being deleted, or files that are not yet due, as for sync().
static enum infer_rule fit_files(struct infer *in, struct thread *flusher, size_t row, const int64_t counts[WARM + 1],
                                 bool is_open)
{
    int64_t pages = counts[HOT] + counts[WARM];
    struct candidates all = list_candidates(in, flusher, row, pages, EXPIRE_NS - DELAY_NS, true);
    bool can_skip = in->nr_syncing || (in->synced && elapsed_ns(in, in->synced - 1, row) < SYNC_NS);
    enum infer_rule rule = queue_files(in, flusher, row, &all, counts, can_skip, is_open);

    if (rule != RULE_WRITEBACK_MISFIT)
        return rule;
    if (queue_synced_files(in, flusher, row, &all, counts, is_open))
        return RULE_WRITEBACK;
    if (is_open)
        return rule;
    all = list_candidates(in, flusher, row, pages, EXPIRE_NS - DELAY_NS, false);
    rule = queue_files(in, flusher, row, &all, counts, false, false);
    if (rule != RULE_WRITEBACK_MISFIT)
        return rule;
    all = list_candidates(in, flusher, row, pages, 0, true);
    return queue_files(in, flusher, row, &all, counts, false, false);
}

// Do the same if blocks continue no known log: they begin one, else they are rewritten in place and may be of no file
// that is known to be dirty, or they are pages that such a log lacks.
static enum infer_rule fit_unplaced_files(struct infer *in, struct thread *flusher, size_t row,
                                          int64_t counts[WARM + 1], enum f2fs_heat begun, bool is_open)
{
    int64_t unplaced = counts[HEAT_UNKNOWN] < counts[begun] ? counts[HEAT_UNKNOWN] : counts[begun];
    enum infer_rule rule = fit_files(in, flusher, row, counts, is_open);

    flusher->f2fs.has_unplaced = false;
    if (rule != RULE_WRITEBACK_MISFIT || !unplaced)
        return rule;
    counts[begun] -= unplaced;
    flusher->f2fs.has_unplaced = true;
    if (counts[HOT] + counts[WARM] > 0)
        rule = fit_files(in, flusher, row, counts, is_open);
    if (rule != RULE_WRITEBACK_MISFIT)
        return rule;
    counts[begun == HOT ? WARM : HOT] += unplaced;
    rule = fit_files(in, flusher, row, counts, is_open);
    flusher->f2fs.has_unplaced = rule == RULE_WRITEBACK_MISFIT;
    return rule;
}

// Find the files that the flusher writes in blocks of a burst. Returns whether they fit.
static bool find_files(struct infer *in, size_t row, int64_t counts[WARM + 1], bool is_open)
{
    size_t at = thread_at(in, true, in->events->dev[row]);

    if (at == NOTHING)
        return false;
    struct thread *flusher = &in->threads[at];
    begin_pass(in, flusher, row);
    enum f2fs_heat begun = f2fs_has_log(in, in->events->dev[row], HOT) ? WARM : HOT;
    counts[begun] += counts[HEAT_UNKNOWN];
    counts[HOT] -= nr_waiting(in, &flusher->issues);
    counts[WARM] -= nr_waiting(in, &flusher->f2fs.warm);
    if (counts[HOT] <= 0 && counts[WARM] <= 0) {
        flusher->f2fs.began = row + 1;
        return true;
    }
    if (counts[HOT] < 0)
        counts[HOT] = 0;
    if (counts[WARM] < 0)
        counts[WARM] = 0;
    flusher->f2fs.rule = fit_unplaced_files(in, flusher, row, counts, begun, is_open);
    // A short burst, or one of small files, fits by chance if files were skipped or the order was lost before.
    int64_t min_blocks = flusher->f2fs.rule == RULE_WRITEBACK_DURING_SYNC ? MIN_SKIPPED : 0;
    int64_t of_files = (flusher->f2fs.is_complete ? MIN_FILE_PAGES : MANY_FILE_PAGES) * flusher->f2fs.nr_files;
    if (flusher->f2fs.is_lost)
        min_blocks = MIN_FOUND;
    if (min_blocks && min_blocks < of_files)
        min_blocks = of_files;
    // Any number of pages fits a large file that is continued in the next burst.
    int64_t fitted = counts[HOT] + (flusher->f2fs.is_continued ? 0 : counts[WARM]);
    if (flusher->f2fs.rule != RULE_WRITEBACK_MISFIT && fitted < min_blocks)
        flusher->f2fs.rule = RULE_WRITEBACK_MISFIT;
    else if (flusher->f2fs.rule != RULE_WRITEBACK_DURING_SYNC)
        flusher->f2fs.is_lost = flusher->f2fs.rule == RULE_WRITEBACK_MISFIT;
    if (!is_open || flusher->f2fs.rule != RULE_WRITEBACK_MISFIT)
        flusher->f2fs.began = row + 1;
    return flusher->f2fs.rule != RULE_WRITEBACK_MISFIT;
}

// Return the first write request of a thread from this event on, during its fsync, or NOTHING.
static size_t next_write(const struct infer_events *e, size_t row, int32_t tid)
{
    for (size_t next = row + 1; next < e->rows && next - row < MAX_FSYNC_ROWS; next++) {
        if (e->tid[next] != tid)
            continue;
        if (e->kind[next] == INFER_SYNCED)
            break;
        if (f2fs_is_write(e, next))
            return next;
    }
    return NOTHING;
}

// Return how many of the pages that wait for the fsync of another thread it will not issue itself, so that others do.
static int64_t nr_missing(const struct infer *in, size_t row, struct thread *thread)
{
    const struct infer_events *e = in->events;
    size_t next = next_write(e, row, e->tid[thread->sync]);
    int64_t missing = nr_waiting(in, &thread->issues);

    if (next == NOTHING)
        return missing;
    struct burst burst = collect(e, next);
    return missing + nr_waiting(in, &thread->f2fs.rewrites) - nr_blocks(e, &burst);
}

// The kernel collects pages for a log in one bio, whoever writes them (fs/f2fs/data.c, f2fs_submit_page_write). A fsync
// therefore issues pages of others, or of the flusher, that were collected before its own. The order is uncertain if
// there are several others of which one began later.
static void find_foreign_pages(struct infer *in, const struct burst *burst, size_t tid)
{
    struct thread *thread = &in->threads[tid];
    struct f2fs_thread *own = &thread->f2fs;
    int64_t counts[WARM + 1] = {0}, waiting = nr_waiting(in, &thread->issues), missing = 0;

    own->nr_foreign = 0;
    own->is_mixed = false;
    count_blocks(in, burst, counts);
    int64_t foreign = counts[HOT] + counts[WARM] - waiting;
    own->nr_others = 0;
    if (foreign <= 0)
        return;
    for (size_t k = 0; k < in->nr_syncing && k < MAX_SEARCHED && own->nr_others < MAX_OTHERS; k++) {
        struct thread *other = &in->threads[in->syncing[k]];
        int64_t count = in->syncing[k] == tid ? 0 : nr_missing(in, burst->rows[0], other);

        if (count <= 0)
            continue;
        missing += count;
        own->is_mixed |= other->sync > thread->sync;
        own->others[own->nr_others++] = (struct f2fs_other){in->syncing[k], count};
    }
    for (size_t k = 0; k < own->nr_others && missing != foreign; k++)
        if (own->others[k].count == foreign) {
            own->others[0] = own->others[k];
            own->is_mixed = in->threads[own->others[0].thread].sync > thread->sync;
            own->nr_others = 1;
            missing = foreign;
        }
    if (missing != foreign)
        own->nr_others = 0;
    // Few blocks may have been stored through a memory map, or be nodes.
    if (!waiting && (!own->nr_others || foreign < MANY_BLOCKS)) {
        own->nr_others = 0;
        return;
    }
    enum f2fs_heat heat = counts[WARM] > counts[HOT] ? WARM : HOT;
    int64_t of_flusher[WARM + 1] = {
        [HEAT_UNKNOWN] = 0, [HOT] = heat == HOT ? foreign : 0, [WARM] = heat == WARM ? foreign : 0};
    own->nr_foreign = foreign;
    own->is_mixed &= own->nr_others > 1;
    own->is_unknown = !own->nr_others && !find_files(in, burst->rows[0], of_flusher, true);
}

// --- requests --------------------------------------------------------------------------------------------------------

// Return whether a request continues a log of data, or of nodes.
static bool continues(const struct infer *in, size_t row, bool has_nodes)
{
    for (size_t n = 0; n < in->f2fs.nr_logs; n++) {
        const struct f2fs_log *log = &in->f2fs.logs[n];

        if (log->dev == in->events->dev[row] && (log->nr_nodes > log->nr_data) == has_nodes &&
            continuing(in->events, row, log) >= 0)
            return true;
    }
    return false;
}

// Return the next request of a burst: one that continues a log of data, or else the one with the lowest block. Nodes
// come after these, and before a request that may continue their log in another segment.
static size_t next_request(const struct infer *in, const struct burst *burst)
{
    size_t lowest = NOTHING, node = NOTHING, segment = NOTHING;

    for (size_t k = 0; k < burst->count; k++) {
        size_t row = burst->rows[k];

        if (burst->is_done[k])
            continue;
        if (continues(in, row, false))
            return k;
        if (continues(in, row, true))
            node = node == NOTHING ? k : node;
        else if (in->events->first[row] % SEGMENT_BLOCKS == 0)
            segment = segment == NOTHING ? k : segment;
        else if (lowest == NOTHING || in->events->first[row] < in->events->first[burst->rows[lowest]])
            lowest = k;
    }
    if (lowest != NOTHING)
        return lowest;
    return node == NOTHING ? segment : node;
}

// A thread that drops pages of a file writes those that are dirty before, whoever wrote them: a direct write, or a call
// that makes a hole. Queue the pages of a file if the next event of the thread is of that file and they fit the burst.
static void find_flushed_pages(struct infer *in, const struct burst *burst, struct thread *thread)
{
    const struct infer_events *e = in->events;
    size_t last = burst->rows[burst->count - 1], next = last + 1;
    int64_t blocks = nr_blocks(e, burst);

    while (next < e->rows && next - last < BURST_ROWS &&
           (e->tid[next] != e->tid[last] || e->kind[next] >= INFER_WRITES))
        next++;
    if (next == e->rows || next - last == BURST_ROWS || e->dev[next] != e->dev[last])
        return;
    size_t at = file_at(in, e->dev[next], e->ino[next]);
    if (at == NOTHING)
        return;
    if ((int64_t)in->files[at].nr_dirty == blocks) {
        f2fs_flush(in, at, (int64_t)burst->rows[0], thread);
        return;
    }
    f2fs_flush_dropped(in, at, next, blocks, thread);
}

// Find the places of files that are due before the blocks of a burst are counted.
static void find_due_places(struct infer *in, const struct burst *burst)
{
    size_t row = burst->rows[0], at = thread_at(in, true, in->events->dev[row]);

    if (at != NOTHING)
        list_candidates(in, &in->threads[at], row, nr_blocks(in->events, burst), EXPIRE_NS - DELAY_NS, true);
}

// Return whether kblockd issues synchronous requests for the flusher, which syncs a filesystem, and not for a fsync:
// they are many and fit the files that are dirty.
static bool syncs_files(struct infer *in, const struct burst *burst)
{
    int64_t counts[WARM + 1] = {0};
    size_t at = thread_at(in, true, in->events->dev[burst->rows[0]]);
    bool is_open = count_blocks(in, burst, counts);

    if (at == NOTHING || counts[HEAT_UNKNOWN] + counts[HOT] + counts[WARM] < MIN_FOUND)
        return false;
    for (size_t k = 0; k < in->nr_syncing; k++)
        if (nr_waiting(in, &in->threads[in->syncing[k]].issues) == counts[HOT] + counts[WARM])
            return false;
    bool was_lost = in->threads[at].f2fs.is_lost;
    if (find_files(in, burst->rows[0], counts, is_open))
        return true;
    in->threads[at].f2fs.is_lost = was_lost;
    return false;
}

static void write_burst(struct infer *in, size_t row, size_t tid)
{
    const struct infer_events *e = in->events;
    struct burst burst = collect(e, row);
    bool is_writeback = false;

    in->threads[tid].f2fs.written = burst.rows[burst.count - 1] + 1;
    if (in->threads[tid].syncing != NOTHING) {
        find_foreign_pages(in, &burst, tid);
    } else if ((e->flags[row] & FLAG_FLUSHER) || (e->flags[row] & (FLAG_KBLOCKD | FLAG_SYNC)) == FLAG_KBLOCKD) {
        int64_t counts[WARM + 1] = {0};

        find_due_places(in, &burst);
        bool is_open = count_blocks(in, &burst, counts);
        find_files(in, row, counts, is_open);
    } else if (e->flags[row] & FLAG_KBLOCKD) {
        is_writeback = syncs_files(in, &burst);
    } else if (!(e->flags[row] & FLAG_KERNEL) && !is_waiting(in, WAITING, &in->threads[tid].issues)) {
        find_flushed_pages(in, &burst, &in->threads[tid]);
    }
    for (size_t k = next_request(in, &burst); k != NOTHING && !in->is_failed; k = next_request(in, &burst)) {
        struct issue issue = {.event = (int64_t)burst.rows[k],
                              .dev = e->dev[row],
                              .flags = e->flags[burst.rows[k]],
                              .blocks = e->count[burst.rows[k]],
                              .thread = tid,
                              .is_writeback = is_writeback,
                              .holder = NOTHING};

        burst.is_done[k] = true;
        f2fs_write_blocks(in, &issue, e->first[burst.rows[k]]);
    }
}

void f2fs_write_requests(struct infer *in, size_t row, size_t tid)
{
    if (row + 1 > in->threads[tid].f2fs.written)
        write_burst(in, row, tid);
    f2fs_find_next_writes(in, row);
}
