#include "pagecache/pagecache.h"

#include "core/array.h"
#include "pagecache/events.h"
#include "pagecache/in_flight.h"

struct pagecache *pagecache_new(int64_t page_bytes)
{
    struct pagecache *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return NULL;
    cache->page_bytes = page_bytes;
    cache->evaluator.sets = strings_new();
    if (cache->evaluator.sets)
        return cache;
    free(cache);
    return NULL;
}

void pagecache_free(struct pagecache *cache)
{
    for (size_t at = 0; at < cache->nr_in_flight; at++) {
        end_write(cache, &cache->in_flight[at]);
        free(cache->in_flight[at].pending);
        free(cache->in_flight[at].retained);
    }
    free_blocks(&cache->blocks);
    strings_free(cache->evaluator.sets);
    free(cache->evaluator.modifiers.processes);
    free(cache->evaluator.dirtiers.processes);
    free(cache->devices);
    free(cache->threads);
    free(cache->recent_writes);
    free(cache->in_flight);
    free(cache->intervals);
    map_free(&cache->device_index);
    map_free(&cache->thread_index);
    map_free(&cache->recent_write_index);
    map_free(&cache->in_flight_index);
    free(cache);
}

bool pagecache_add_device(struct pagecache *cache, uint32_t dev, int64_t block_bytes, uint32_t flags)
{
    uint64_t *index;

    if (!array_reserve(&cache->devices, cache->nr_devices, &cache->devices_capacity, sizeof(*cache->devices)))
        return false;
    index = map_add(&cache->device_index, dev, 0);
    if (!index)
        return false;
    cache->devices[cache->nr_devices++] = (struct device){.block_bytes = block_bytes, .flags = flags};
    *index = cache->nr_devices;
    return true;
}

static uint64_t thread_key(const struct page_events *events, size_t row)
{
    return (uint64_t)(uint32_t)events->tid[row] << 32 | (uint32_t)events->pid[row];
}

// Return the process, or minus the thread if the process is unknown.
static int64_t process_of(int32_t tid, int32_t pid)
{
    if (pid != NO_INT32)
        return pid;
    return tid == NO_INT32 ? NO_INT64 : -(int64_t)tid;
}

static bool register_thread(struct pagecache *cache, const struct page_events *events, size_t row)
{
    uint64_t *index = map_add(&cache->thread_index, thread_key(events, row), events->comm[row]);

    if (!index)
        return false;
    if (*index)
        return true;
    *index = cache->nr_threads + 1;
    if (!array_reserve(&cache->threads, cache->nr_threads, &cache->threads_capacity, sizeof(*cache->threads)))
        return false;
    cache->threads[cache->nr_threads++] = (struct thread){
        .ts_ns = events->ts_ns[row],
        .process = process_of(events->tid[row], events->pid[row]),
        .tid = events->tid[row],
        .pid = events->pid[row],
        .comm = events->comm[row],
    };
    cache->evaluator.threads = cache->threads;
    return true;
}

size_t pagecache_register_threads(struct pagecache *cache, const struct page_events *events)
{
    for (size_t row = 0; row < events->rows; row++)
        if (!register_thread(cache, events, row))
            return SIZE_MAX;
    return cache->nr_threads;
}

struct thread *pagecache_threads(struct pagecache *cache)
{
    return cache->threads;
}

static uint32_t find_thread(const struct pagecache *cache, const struct page_events *events, size_t row)
{
    return (uint32_t)map_value(&cache->thread_index, thread_key(events, row), events->comm[row]) - 1;
}

bool pagecache_process(struct pagecache *cache, const struct page_events *events, const struct writebacks *writebacks)
{
    size_t event = 0, writeback = 0;

    while (event < events->rows || writeback < writebacks->rows) {
        bool is_event = event < events->rows &&
                        (writeback == writebacks->rows || events->ts_ns[event] <= writebacks->ts_ns[writeback]);

        if (is_event && !take_event(cache, events, event, find_thread(cache, events, event)))
            return false;
        if (!is_event && !take_writeback(cache, writebacks, writeback))
            return false;
        event += is_event;
        writeback += !is_event;
    }
    return true;
}

bool pagecache_finish(struct pagecache *cache)
{
    for (size_t at = 0; at < cache->nr_in_flight; at++)
        if (!end_write(cache, &cache->in_flight[at]))
            return false;
    return true;
}

const struct dirty_interval *pagecache_intervals(struct pagecache *cache, size_t *rows)
{
    *rows = cache->nr_intervals;
    cache->nr_intervals = 0;
    return cache->intervals;
}
