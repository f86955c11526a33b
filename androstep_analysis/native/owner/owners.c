// The pass: who the threads are, and the order of events and of what is written out.
#include "owner/owners.h"

#include "owner/events.h"
#include "owner/opens.h"

struct owners *owners_new(int64_t page_bytes)
{
    struct owners *owners = calloc(1, sizeof(*owners));

    if (!owners)
        return NULL;
    owners->page_bytes = page_bytes;
    owners->judge.sets = strings_new();
    if (owners->judge.sets)
        return owners;
    free(owners);
    return NULL;
}

void owners_free(struct owners *owners)
{
    for (size_t nth = 0; nth < owners->nr_opens; nth++) {
        opens_close(owners, &owners->opens[nth]);
        free(owners->opens[nth].waiting);
        free(owners->opens[nth].kept);
    }
    blocks_free(&owners->blocks);
    strings_free(owners->judge.sets);
    free(owners->judge.made.processes);
    free(owners->judge.dirtied.processes);
    free(owners->devices);
    free(owners->threads);
    free(owners->makers);
    free(owners->opens);
    free(owners->turns);
    map_free(&owners->of_devices);
    map_free(&owners->of_threads);
    map_free(&owners->of_makers);
    map_free(&owners->of_opens);
    free(owners);
}

bool owners_device(struct owners *owners, uint32_t dev, int64_t block_bytes, uint32_t flags)
{
    uint64_t *number;

    if (owners->nr_devices == owners->devices_room) {
        struct device *grown = array_grow(owners->devices, &owners->devices_room, sizeof(*grown));

        if (!grown)
            return false;
        owners->devices = grown;
    }
    number = map_add(&owners->of_devices, dev, 0);
    if (!number)
        return false;
    owners->devices[owners->nr_devices++] = (struct device){.size = block_bytes, .flags = flags};
    *number = owners->nr_devices;
    return true;
}

static uint64_t ids_of(const struct page_events *events, size_t row)
{
    return (uint64_t)(uint32_t)events->tid[row] << 32 | (uint32_t)events->pid[row];
}

// The process, or the thread where that is not known.
static int64_t process_of(int32_t tid, int32_t pid)
{
    if (pid != NO_INT32)
        return pid;
    return tid == NO_INT32 ? NO_INT64 : -(int64_t)tid;
}

static bool meet(struct owners *owners, const struct page_events *events, size_t row)
{
    uint64_t *number = map_add(&owners->of_threads, ids_of(events, row), events->comm[row]);

    if (!number)
        return false;
    if (*number)
        return true;
    if (owners->nr_threads == owners->threads_room) {
        struct thread *grown = array_grow(owners->threads, &owners->threads_room, sizeof(*grown));

        if (!grown) {
            *number = 1;
            return false;
        }
        owners->threads = grown;
    }
    owners->threads[owners->nr_threads] = (struct thread){
        .ts_ns = events->ts_ns[row],
        .process = process_of(events->tid[row], events->pid[row]),
        .tid = events->tid[row],
        .pid = events->pid[row],
        .comm = events->comm[row],
    };
    *number = ++owners->nr_threads;
    return true;
}

size_t owners_meet(struct owners *owners, const struct page_events *events)
{
    for (size_t row = 0; row < events->rows; row++)
        if (!meet(owners, events, row))
            return SIZE_MAX;
    owners->judge.threads = owners->threads;
    return owners->nr_threads;
}

struct thread *owners_threads(struct owners *owners)
{
    return owners->threads;
}

static uint32_t thread_of(const struct owners *owners, const struct page_events *events, size_t row)
{
    return (uint32_t)map_value(&owners->of_threads, ids_of(events, row), events->comm[row]) - 1;
}

bool owners_follow(struct owners *owners, const struct page_events *events, const struct outs *outs)
{
    size_t seen = 0, out = 0;

    owners->judge.threads = owners->threads;
    while (seen < events->rows || out < outs->rows) {
        bool is_out = seen == events->rows || (out < outs->rows && outs->ts_ns[out] < events->ts_ns[seen]);

        if (!(is_out ? outs_take(owners, outs, out++)
                     : events_take(owners, events, seen, thread_of(owners, events, seen))))
            return false;
        seen += !is_out;
    }
    return true;
}

bool owners_finish(struct owners *owners)
{
    for (size_t nth = 0; nth < owners->nr_opens; nth++)
        if (!opens_close(owners, &owners->opens[nth]))
            return false;
    return true;
}

const struct turn *owners_turns(struct owners *owners, size_t *rows)
{
    *rows = owners->nr_turns;
    owners->nr_turns = 0;
    return owners->turns;
}
