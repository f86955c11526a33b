// The rules that attribute a block of a request to a page of a file. androstep_analysis/link/inferred.py lists them.
// Each is a function with the name of the rule. It returns whether it applies.
#include "infer/state.h"

static void add_result(struct infer *in, const struct issue *issue, int64_t block, const struct page *page,
                       int64_t author, enum infer_rule rule)
{
    if (!grow(in, &in->results, in->nr_results, &in->result_capacity, sizeof(*in->results)))
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

void write_page(struct infer *in, const struct issue *issue, int64_t block, const struct page *page, int64_t author,
                enum infer_rule rule)
{
    struct location *location = location_at(in, issue->dev, block);

    add_result(in, issue, block, page, author, rule);
    if (!location || in->is_failed)
        return;
    *location = (struct location){.file = NOTHING, .result = in->nr_results - 1};
    if (!page || (page->block == NO_INT64 && !(issue->flags & FLAG_F2FS)))
        return;
    *location = (struct location){page->file, page->block, in->files[page->file].lifetime, in->nr_results - 1};
    if (issue->flags & FLAG_F2FS)
        f2fs_set_place(in, page, block);
}

void write_unknown(struct infer *in, const struct issue *issue, int64_t block)
{
    write_page(in, issue, block, NULL, NO_INT64, RULE_NONE);
}

bool write_next(struct infer *in, const struct issue *issue, int64_t block, struct queue *queue, enum infer_rule rule)
{
    enum state state = rule == RULE_ALLOCATED ? ALLOCATED : WAITING;

    if (!is_waiting(in, state, queue))
        return false;
    struct page page = queue->pages[queue->head++];
    state_remove(in, state, page.file, page.block, &page.author);
    write_page(in, issue, block, &page, page.author, rule);
    return true;
}

// --- rules for writes; f2fs.c has those of F2FS ----------------------------------------------------------------------

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

static bool allocated(struct infer *in, const struct issue *issue, int64_t block, struct thread *thread)
{
    return write_next(in, issue, block, &thread->allocated, RULE_ALLOCATED);
}

static bool sync(struct infer *in, const struct issue *issue, int64_t block)
{
    return write_next(in, issue, block, &in->threads[issue->holder].issues, RULE_SYNC);
}

static bool sync_other(struct infer *in, const struct issue *issue, int64_t block)
{
    return write_next(in, issue, block, &in->threads[issue->holder].issues, RULE_SYNC_OTHER);
}

// Rule sync without a dirty page: data stored through a memory map.
static bool sync_mapped(struct infer *in, const struct issue *issue, int64_t block)
{
    const struct thread *holder = &in->threads[issue->holder];
    struct page page = {holder->syncing, NO_INT64, holder->sync};

    if (issue->holder != issue->thread)
        return false;
    write_page(in, issue, block, &page, page.author, RULE_SYNC);
    return true;
}

static bool writeback(struct infer *in, const struct issue *issue, int64_t block, struct thread *flusher)
{
    while (!is_waiting(in, WAITING, &flusher->issues) && flusher->oldest != NOTHING) {
        size_t at = flusher->oldest;

        list_remove(in, at);
        flush(in, at, &flusher->issues);
    }
    return write_next(in, issue, block, &flusher->issues, RULE_WRITEBACK);
}

static bool self(struct infer *in, const struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];

    if (!is_waiting(in, WAITING, &thread->issues) && thread->wrote != NOTHING)
        flush(in, thread->wrote, &thread->issues);
    return write_next(in, issue, block, &thread->issues, RULE_SELF);
}

bool direct(struct infer *in, const struct issue *issue, int64_t block)
{
    struct page page = {in->threads[issue->thread].touched, NO_INT64, issue->event};

    write_page(in, issue, block, page.file == NOTHING ? NULL : &page, issue->event, RULE_DIRECT);
    return true;
}

// --- order of the rules ----------------------------------------------------------------------------------------------

// Return the thread in a fsync that a request belongs to: the issuing thread, or for a request issued by a worker the
// last thread with waiting pages.
static size_t syncing_thread(struct infer *in, size_t thread, uint8_t flags)
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

static void write_for_sync(struct infer *in, const struct issue *issue, int64_t block)
{
    bool is_own = issue->holder == issue->thread;

    if (!allocated(in, issue, block, &in->threads[issue->holder]) &&
        !(is_own ? sync(in, issue, block) : sync_other(in, issue, block)) && !sync_mapped(in, issue, block))
        write_unknown(in, issue, block);
}

static void write_by_worker(struct infer *in, const struct issue *issue, int64_t block)
{
    size_t flusher = thread_at(in, true, issue->dev);

    if (flusher == NOTHING)
        return;
    struct thread *thread = &in->threads[flusher];
    if (!allocated(in, issue, block, thread) && !writeback(in, issue, block, thread))
        write_unknown(in, issue, block);
}

static void write_block(struct infer *in, const struct issue *issue, int64_t block)
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

void write_blocks(struct infer *in, struct issue *issue, int64_t first)
{
    issue->holder = syncing_thread(in, issue->thread, issue->flags);
    for (int64_t k = 0; k < issue->blocks && !in->is_failed; k++)
        write_block(in, issue, first + k);
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
static void read_block(struct infer *in, const struct issue *issue, int64_t block)
{
    struct thread *thread = &in->threads[issue->thread];
    struct location *location = location_find(in, issue->dev, block);
    bool is_mapped;

    if (thread->reads.head == thread->reads.end)
        return;
    struct page page = thread->reads.pages[thread->reads.head++];
    is_mapped = location && location->file == page.file && location->block == page.block;
    add_result(in, issue, block, &page, issue->event, is_mapped ? RULE_READ_PLACE : RULE_READ);
    location = location_at(in, issue->dev, block);
    if (location)
        *location = (struct location){page.file, page.block, in->files[page.file].lifetime, location->result};
    if (issue->flags & FLAG_F2FS)
        f2fs_set_place(in, &page, block);
}

void read_blocks(struct infer *in, const struct issue *issue, int64_t first)
{
    find_read(&in->threads[issue->thread], issue->blocks);
    for (int64_t k = 0; k < issue->blocks && !in->is_failed; k++)
        read_block(in, issue, first + k);
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
