// The pass over events and requests described in infer.h.
#include "infer/state.h"

#include <stdlib.h>

static void on_write(struct infer *in, size_t row, size_t at, size_t tid)
{
    const struct infer_events *e = in->events;
    struct file *file = &in->files[at];
    struct thread *thread = &in->threads[tid];

    if (!file->is_written && (thread->last_row == file->first_row || file->first_row == (int64_t)row))
        file->is_new = e->first[row] == 0 && (e->flags[row] & FLAG_F2FS);
    if (!file->is_listed)
        list_add(in, at, f2fs_dirtied(in, at, row));
    file->author = (int64_t)row;
    file->is_written = true;
    if (file->bytes < e->block[row])
        file->bytes = e->block[row];
    for (int64_t k = 0; k < e->count[row]; k++)
        page_dirty(in, at, e->first[row] + k, (int64_t)row);
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
    drop(in, WAITING, &thread->issues);
    drop(in, ALLOCATED, &thread->allocated);
    if (in->events->flags[row] & FLAG_F2FS)
        f2fs_flush(in, at, (int64_t)row, thread);
    else
        flush(in, at, &thread->issues);
    if (grow(in, &in->syncing, in->nr_syncing, &in->syncing_capacity, sizeof(*in->syncing)))
        in->syncing[in->nr_syncing++] = tid;
}

static void on_synced(struct infer *in, size_t row, size_t tid)
{
    struct thread *thread = &in->threads[tid];
    size_t retained = 0;

    thread->syncing = NOTHING;
    drop(in, WAITING, &thread->issues);
    drop(in, WAITING, &thread->f2fs.rewrites);
    drop(in, ALLOCATED, &thread->allocated);
    for (size_t k = 0; k < in->nr_syncing; k++)
        if (in->syncing[k] != tid)
            in->syncing[retained++] = in->syncing[k];
    in->nr_syncing = retained;
    in->synced = row + 1;
}

static void on_cached(struct infer *in, size_t row, size_t at, size_t tid)
{
    const struct infer_events *e = in->events;
    struct thread *thread = &in->threads[tid];
    int64_t first = e->first[row];

    if (first > 0)
        in->files[at].has_blocks = true;
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
        queue_append(in, &thread->reads, (struct page){at, first + k, (int64_t)row});
}

// Return whether a lookup repeats the previous one of the file, as most do.
static bool is_repeated(const struct infer *in, const struct file *file, size_t row)
{
    const struct infer_events *e = in->events;

    if (!file->is_alive || file->nr_results != in->nr_results)
        return false;
    return file->first == e->first[row] && file->block == e->block[row] && file->count == e->count[row];
}

static void on_mapped(struct infer *in, size_t row, size_t at)
{
    const struct infer_events *e = in->events;
    struct file *file = &in->files[at];

    if (is_repeated(in, file, row))
        return;
    file->nr_results = in->nr_results;
    file->first = e->first[row];
    file->block = e->block[row];
    file->count = e->count[row];
    for (int64_t k = 0; k < e->count[row]; k++) {
        struct location *location = location_at(in, e->dev[row], e->block[row] + k);

        if (!location)
            return;
        *location = (struct location){at, e->first[row] + k, in->files[at].lifetime, location->result};
        if (e->flags[row] & FLAG_F2FS)
            f2fs_set_place(in, &(struct page){at, e->first[row] + k, NO_INT64}, e->block[row] + k);
        if (location->result != NOTHING && (e->flags[row] & (FLAG_WRITTEN | FLAG_FLUSHER | FLAG_KBLOCKD)))
            later(in, &in->results[location->result], at, e->first[row] + k);
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
        page_remove(in, at, page.block, &page.author);
        if (!queue_append(in, &thread->allocated, page))
            return;
        state_add(in, ALLOCATED, &page);
    }
}

static void on_gone(struct infer *in, size_t at)
{
    struct file *file = &in->files[at];

    flush(in, at, NULL);
    list_remove(in, at);
    file->is_alive = file->is_written = file->is_new = file->has_blocks = false;
    file->bytes = file->writeback_index = 0;
    file->lifetime++;
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

    if (e->kind[row] == INFER_READS)
        read_blocks(in, &issue, e->first[row]);
    else if (issue.flags & FLAG_F2FS)
        f2fs_write_requests(in, row, tid);
    else
        write_blocks(in, &issue, e->first[row]);
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
    if (file != NOTHING && kind != INFER_GONE && kind != INFER_DROPPED && !in->files[file].is_alive) {
        in->files[file].is_alive = true;
        in->files[file].first_row = (int64_t)row;
    }
    if (in->threads[tid].f2fs.node)
        f2fs_resume(in, row, &in->threads[tid]);
    switch (kind) {
    case INFER_WRITE:
        on_write(in, row, file, tid);
        break;
    case INFER_SYNC:
        on_sync(in, row, file, tid);
        break;
    case INFER_SYNCED:
        on_synced(in, row, tid);
        break;
    case INFER_CACHED:
        if (e->ino[row] == NODE_INODE && (e->flags[row] & FLAG_F2FS))
            f2fs_cache_nodes(in, row, &in->threads[tid]);
        on_cached(in, row, file, tid);
        break;
    case INFER_DROPPED:
        if (e->ino[row] == NODE_INODE && (e->flags[row] & FLAG_F2FS))
            f2fs_cache_nodes(in, row, &in->threads[tid]);
        for (int64_t k = 0; k < e->count[row]; k++)
            page_remove(in, file, e->first[row] + k, &author);
        if (e->ino[row] >= FIRST_FILE && !(e->flags[row] & FLAG_KERNEL))
            in->threads[tid].touched = file;
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
    if (kind < INFER_WRITES)
        in->threads[tid].last_row = (int64_t)row;
}

struct infer *infer_run(const struct infer_events *events)
{
    struct infer *in = calloc(1, sizeof(*in));

    if (!in)
        return NULL;
    in->events = events;
    in->is_failed = !f2fs_look_ahead(in);
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
        free(in->threads[k].f2fs.warm.pages);
        free(in->threads[k].f2fs.rewrites.pages);
    }
    map_free(&in->of_files);
    map_free(&in->of_threads);
    map_free(&in->of_locations);
    f2fs_free(in);
    for (size_t k = 0; k < NR_STATES; k++)
        map_free(&in->pages[k]);
    free(in->files);
    free(in->threads);
    free(in->locations);
    free(in->results);
    free(in->syncing);
    free(in);
}
