// Files, threads, locations, and the pages that wait to be written.
#include "infer/state.h"

#include <string.h>

#include "core/array.h"

// --- tables ----------------------------------------------------------------------------------------------------------

// Return the index of a key, from 0; that of a new key is `count`. Returns NOTHING if memory runs out.
static size_t index_of(struct infer *in, struct map *map, uint64_t space, uint64_t key, size_t count)
{
    uint64_t *index = map_add(map, space, key);

    if (!index) {
        in->is_failed = true;
        return NOTHING;
    }
    if (!*index)
        *index = count + 1;
    return (size_t)*index - 1;
}

uint64_t elapsed_ns(const struct infer *in, size_t from, size_t to)
{
    return (uint64_t)in->events->ts[to] - (uint64_t)in->events->ts[from]; // does not overflow for any times
}

bool grow(struct infer *in, void *array, size_t count, size_t *capacity, size_t size)
{
    bool has_room = array_reserve(array, count, capacity, size);

    in->is_failed |= !has_room;
    return has_room;
}

size_t file_at(struct infer *in, uint32_t dev, int64_t ino)
{
    size_t at = index_of(in, &in->of_files, dev, (uint64_t)ino, in->nr_files);

    if (at == in->nr_files && at != NOTHING) {
        size_t flusher = thread_at(in, true, dev);

        if (flusher == NOTHING || !grow(in, &in->files, in->nr_files, &in->file_capacity, sizeof(*in->files)))
            return NOTHING;
        in->files[in->nr_files++] = (struct file){.dev = dev, .ino = ino, .author = NO_INT64, .flusher = flusher};
    }
    return at;
}

size_t thread_at(struct infer *in, bool is_flusher, uint32_t key)
{
    size_t at = index_of(in, &in->of_threads, is_flusher, key, in->nr_threads);

    if (at == in->nr_threads && at != NOTHING) {
        if (!grow(in, &in->threads, in->nr_threads, &in->thread_capacity, sizeof(*in->threads)))
            return NOTHING;
        in->threads[in->nr_threads++] = (struct thread){.syncing = NOTHING,
                                                        .wrote = NOTHING,
                                                        .touched = NOTHING,
                                                        .mapped = NOTHING,
                                                        .oldest = NOTHING,
                                                        .newest = NOTHING,
                                                        .sync = NO_INT64,
                                                        .last_row = NO_INT64};
    }
    return at;
}

struct location *location_find(struct infer *in, uint32_t dev, int64_t block)
{
    uint64_t index = map_value(&in->of_locations, dev, (uint64_t)block);

    return index ? &in->locations[index - 1] : NULL;
}

struct location *location_at(struct infer *in, uint32_t dev, int64_t block)
{
    size_t at = index_of(in, &in->of_locations, dev, (uint64_t)block, in->nr_locations);

    if (at == NOTHING)
        return NULL;
    if (at == in->nr_locations) {
        if (!grow(in, &in->locations, in->nr_locations, &in->location_capacity, sizeof(*in->locations)))
            return NULL;
        in->locations[in->nr_locations++] = (struct location){.file = NOTHING, .result = NOTHING};
    }
    return &in->locations[at];
}

bool queue_append(struct infer *in, struct queue *queue, struct page page)
{
    if (queue->head == queue->end)
        queue->head = queue->end = 0;
    if (!grow(in, &queue->pages, queue->end, &queue->capacity, sizeof(page)))
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

bool has_page(const struct infer *in, enum state state, const struct page *page)
{
    return map_value(&in->pages[state], page->file, (uint64_t)page->block) == author_code(page->author);
}

void state_add(struct infer *in, enum state state, const struct page *page)
{
    uint64_t *code = map_add(&in->pages[state], page->file, (uint64_t)page->block);

    if (code)
        *code = author_code(page->author);
    else
        in->is_failed = true;
}

bool state_remove(struct infer *in, enum state state, size_t file, int64_t block, int64_t *author)
{
    uint64_t code = map_value(&in->pages[state], file, (uint64_t)block);

    if (!code)
        return false;
    *author = code == 1 ? NO_INT64 : (int64_t)(code - 2);
    map_remove(&in->pages[state], file, (uint64_t)block);
    return true;
}

void list_remove(struct infer *in, size_t at)
{
    struct file *file = &in->files[at];
    struct thread *flusher = &in->threads[file->flusher];

    if (!file->is_listed)
        return;
    file->is_listed = false;
    *(file->previous == NOTHING ? &flusher->oldest : &in->files[file->previous].next) = file->next;
    *(file->next == NOTHING ? &flusher->newest : &in->files[file->next].previous) = file->previous;
}

// Return whether a file became dirty before another one. An inode is dirty from its creation. Without an event of it,
// the first event of a new file may come after that of the next one. F2FS allocates inode numbers in ascending order.
static bool is_earlier(const struct infer *in, const struct file *file, int64_t row, const struct file *other)
{
    bool is_earlier_row = row < other->listed_row;
    size_t from = (size_t)(is_earlier_row ? row : other->listed_row),
           to = (size_t)(is_earlier_row ? other->listed_row : row);

    if (file->is_created && other->is_created && elapsed_ns(in, from, to) < CREATION_NS)
        return file->ino < other->ino;
    return is_earlier_row;
}

void list_add(struct infer *in, size_t at, int64_t row)
{
    struct file *file = &in->files[at];
    struct thread *flusher = &in->threads[file->flusher];
    size_t before = flusher->newest;

    if (file->is_listed)
        return;
    file->nr_unordered = 0;
    for (int step = 0; before != NOTHING && step < MAX_EARLIER && is_earlier(in, file, row, &in->files[before]); step++)
        before = in->files[before].previous;
    file->is_listed = true;
    file->listed_row = row;
    file->previous = before;
    file->next = before == NOTHING ? flusher->oldest : in->files[before].next;
    *(before == NOTHING ? &flusher->oldest : &in->files[before].next) = at;
    *(file->next == NOTHING ? &flusher->newest : &in->files[file->next].previous) = at;
}

bool page_clean(struct infer *in, size_t at, int64_t block, int64_t *author)
{
    bool was_dirty = state_remove(in, DIRTY, at, block, author);

    if (was_dirty && --in->files[at].nr_dirty == 0)
        in->files[at].dirty.end = 0;
    return was_dirty;
}

bool page_remove(struct infer *in, size_t at, int64_t block, int64_t *author)
{
    return page_clean(in, at, block, author) || state_remove(in, WAITING, at, block, author) ||
           state_remove(in, ALLOCATED, at, block, author);
}

static int by_block(const void *one, const void *other)
{
    int64_t a = ((const struct page *)one)->block, b = ((const struct page *)other)->block;

    return (a > b) - (a < b);
}

void sort_dirty(struct infer *in, struct file *file)
{
    struct queue *dirty = &file->dirty;
    size_t retained = 0;

    if (!dirty->end)
        return;
    qsort(dirty->pages, dirty->end, sizeof(*dirty->pages), by_block);
    for (size_t k = 0; k < dirty->end; k++) {
        struct page page = dirty->pages[k];

        if ((retained == 0 || dirty->pages[retained - 1].block != page.block) &&
            map_value(&in->pages[DIRTY], page.file, (uint64_t)page.block))
            dirty->pages[retained++] = page;
    }
    dirty->end = retained;
}

void page_dirty(struct infer *in, size_t at, int64_t block, int64_t author)
{
    struct page page = {at, block, author};
    struct file *file = &in->files[at];
    bool is_new = !map_value(&in->pages[DIRTY], at, (uint64_t)block);

    state_add(in, DIRTY, &page);
    if (!is_new || in->is_failed)
        return;
    if (file->dirty.end > 2 * file->nr_dirty + STALE_PAGES)
        sort_dirty(in, file);
    if (!queue_append(in, &file->dirty, page))
        return;
    file->nr_dirty++;
}

void flush(struct infer *in, size_t at, struct queue *queue)
{
    struct file *file = &in->files[at];
    size_t end;

    sort_dirty(in, file);
    end = file->dirty.end;
    for (size_t k = 0; k < end && !in->is_failed; k++) {
        struct page page = file->dirty.pages[k];

        page_clean(in, at, page.block, &page.author);
        if (queue && queue_append(in, queue, page))
            state_add(in, WAITING, &page);
    }
}

void drop(struct infer *in, enum state state, struct queue *queue)
{
    int64_t author;

    for (; queue->head < queue->end; queue->head++) {
        const struct page *page = &queue->pages[queue->head];

        if (has_page(in, state, page))
            state_remove(in, state, page->file, page->block, &author);
    }
}

bool is_waiting(const struct infer *in, enum state state, struct queue *queue)
{
    while (queue->head < queue->end && !has_page(in, state, &queue->pages[queue->head]))
        queue->head++;
    return queue->head < queue->end;
}

int64_t nr_waiting(const struct infer *in, const struct queue *queue)
{
    int64_t count = 0;

    for (size_t k = queue->head; k < queue->end; k++)
        count += has_page(in, WAITING, &queue->pages[k]);
    return count;
}
