// What the pass over the events knows at one time.
#pragma once

#include "owner/blocks.h"
#include "owner/decide.h"
#include "owner/owners.h"

// The last write or store of a thread to a file.
struct maker {
    int64_t begin;
    int64_t end;
    uint64_t event; // the last one that certainly changed a block, or 0
};

// A block, by what stays the same.
struct place {
    uint64_t life;
    int64_t file_block;
};

// The last write or store of a thread, and what depends on how it goes on.
struct open_write {
    size_t file; // number
    uint64_t life;
    uint64_t event;
    int64_t begin;
    int64_t end;
    int64_t size; // of a block
    bool is_write;
    struct waiting **waiting;
    size_t nr_waiting;
    size_t waiting_room;
    struct place *kept; // blocks that were absent since
    size_t nr_kept;
    size_t kept_room;
};

// In units of how many bytes a device's files are written out, and what its trace tells.
struct device {
    int64_t size;
    uint32_t flags;
};

struct owners {
    int64_t page_bytes;
    uint64_t event; // the number of the last one
    struct blocks blocks;
    struct judge judge;
    struct device *devices;
    size_t nr_devices;
    size_t devices_room;
    struct thread *threads;
    size_t nr_threads;
    size_t threads_room;
    struct maker *makers;
    size_t nr_makers;
    size_t makers_room;
    struct open_write *opens;
    size_t nr_opens;
    size_t opens_room;
    struct turn *turns;
    size_t nr_turns;
    size_t turns_room;
    struct map of_devices; // by device: number, from 1 on, as of all
    struct map of_threads; // by tid and pid, and name
    struct map of_makers;  // by file and tid
    struct map of_opens;   // by tid
};

// An event with what it needs.
struct event {
    int64_t ts_ns;
    size_t file;
    const struct device *device;
    int32_t tid;
    uint32_t thread;
    uint8_t kind;
    uint8_t order;
};

// The device of that number, or what holds for those nobody told of.
static inline const struct device *device_of(const struct owners *owners, uint32_t dev)
{
    static const struct device others = {.size = 512};
    uint64_t number = map_value(&owners->of_devices, dev, 0);

    return number ? &owners->devices[number - 1] : &others;
}
