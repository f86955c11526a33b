// Where a place lies on the topmost device.
#pragma once

#include "link/linker.h"

void remap_add(struct linker *linker, struct remap remap);

// Where the place came from, by the last remaps to it.
struct origin origin_by_remaps(const struct linker *linker, uint32_t dev, int64_t sector);

// The same; most traces have no remaps.
static inline struct origin origin_of(const struct linker *linker, uint32_t dev, int64_t sector)
{
    bool is_remapped = linker->remap_of.count && sector != NO_INT64;

    return is_remapped ? origin_by_remaps(linker, dev, sector) : (struct origin){dev, 0};
}

// The partition of a request's sectors, where one holds them.
struct origin origin_in_partition(const struct linker *linker, struct origin origin, int64_t sector);

// Who asked for it, and where.
static inline struct submission submission_of(const struct linker *linker, const struct step *step)
{
    return (struct submission){
        .event = step->event,
        .submit_ns = step->event.ts_ns,
        .tid = step->tid,
        .pid = step->pid,
        .comm = step->comm,
        .origin = origin_of(linker, step->device->dev, step->sector),
    };
}
