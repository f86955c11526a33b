// The state of the pass over page events and writebacks.
#pragma once

#include "pagecache/blocks.h"
#include "pagecache/modifier.h"

// The last write or store of a thread to one file.
struct recent_write {
    int64_t begin;
    int64_t end;
    uint64_t event; // its last event that certainly modified a block, or 0
};

// A block of a file, within one lifetime of the inode.
struct block_key {
    uint64_t lifetime;
    int64_t file_block;
};

// The last write or store of a thread to any file. It is in flight until the thread begins another one: until then it
// may still dirty its pages, and its end may turn out to be another event's. Intervals that depend on that are pending.
struct in_flight_write {
    size_t file; // index
    uint64_t lifetime;
    uint64_t event;
    int64_t begin;
    int64_t end;
    int64_t block_bytes;
    bool is_write;
    struct pending_interval **pending;
    size_t nr_pending;
    size_t pending_capacity;
    struct block_key *retained; // blocks that were added to the cache or dropped during the write
    size_t nr_retained;
    size_t retained_capacity;
};

struct device {
    int64_t block_bytes;
    uint32_t flags;
};

// The maps contain the index of an object plus 1.
struct pagecache {
    int64_t page_bytes;
    uint64_t event; // sequence number of the last event or writeback
    struct blocks blocks;
    struct evaluator evaluator;
    struct device *devices;
    size_t nr_devices;
    size_t devices_capacity;
    struct thread *threads;
    size_t nr_threads;
    size_t threads_capacity;
    struct recent_write *recent_writes;
    size_t nr_recent_writes;
    size_t recent_writes_capacity;
    struct in_flight_write *in_flight;
    size_t nr_in_flight;
    size_t in_flight_capacity;
    struct dirty_interval *intervals;
    size_t nr_intervals;
    size_t intervals_capacity;
    struct map device_index;
    struct map thread_index;       // by tid and pid, and name
    struct map recent_write_index; // by file and tid
    struct map in_flight_index;    // by tid
};

struct event {
    int64_t ts_ns;
    size_t file; // index
    const struct device *device;
    int32_t tid;
    uint32_t thread;
    uint8_t kind;
    uint8_t order;
};

// Return the device, or the defaults of devices that were not added.
static inline const struct device *device_of(const struct pagecache *cache, uint32_t dev)
{
    static const struct device others = {.block_bytes = 512};
    uint64_t index = map_value(&cache->device_index, dev, 0);

    return index ? &cache->devices[index - 1] : &others;
}
