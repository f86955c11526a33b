// Find the topmost device of a sector: from the remaps of the trace, and from the partitions that the caller reports.
#include "link/linker.h"

#include "core/array.h"

// How many stacked devices are followed. Phones stack three (partition, dm-default-key, dm-linear).
enum { MAX_LAYERS = 8 };

// How many remaps are retained: far more than occur between the remap of a bio and the last event about it.
enum { MAX_REMAPS = 1 << 20 };

bool linker_partition(struct linker *linker, uint32_t dev, uint32_t parent, int64_t start, int64_t nr_sectors)
{
    if (!array_reserve(&linker->partitions, linker->nr_partitions, &linker->partition_capacity,
                       sizeof(*linker->partitions)))
        return false;
    linker->partitions[linker->nr_partitions++] = (struct partition){dev, parent, start, nr_sectors};
    return true;
}

void remap_add(struct linker *linker, struct remap remap)
{
    size_t index = linker->next_remap;
    uint64_t *value;

    if (!array_reserve(&linker->remaps, index, &linker->remap_capacity, sizeof(*linker->remaps))) {
        linker->is_out_of_memory = true;
        return;
    }
    if (index < linker->nr_remaps) {
        const struct remap *oldest = &linker->remaps[index];

        if (map_value(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector) == index + 1)
            map_remove(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector);
    }
    linker->remaps[index] = remap;
    value = map_add(&linker->remap_of, remap.dev, (uint64_t)remap.sector);
    if (!value) {
        linker->is_out_of_memory = true;
        return;
    }
    *value = index + 1;
    if (index == linker->nr_remaps)
        linker->nr_remaps++;
    linker->next_remap = (index + 1) % MAX_REMAPS;
}

struct origin origin_of(const struct linker *linker, uint32_t dev, int64_t sector)
{
    struct origin origin = {dev, 0};
    int64_t old_sector = sector;

    for (int layer = 0; layer < MAX_LAYERS; layer++) {
        uint64_t index = map_value(&linker->remap_of, origin.dev, (uint64_t)old_sector);

        if (!index)
            break;
        origin.dev = linker->remaps[index - 1].old_dev;
        old_sector = linker->remaps[index - 1].old_sector;
    }
    origin.offset = difference(sector, old_sector);
    return origin;
}

struct origin origin_in_partition(const struct linker *linker, struct origin origin, int64_t sector)
{
    for (size_t at = 0; at < linker->nr_partitions; at++) {
        const struct partition *partition = &linker->partitions[at];
        int64_t inside = difference(sector, origin.offset), start = partition->start_sector;

        if (origin.dev == partition->parent && inside >= start && inside < sum(start, partition->nr_sectors))
            origin = (struct origin){partition->dev, sum(origin.offset, start)};
    }
    return origin;
}

struct submission submission_of(const struct linker *linker, const struct event *event)
{
    return (struct submission){
        .stamp = event->stamp,
        .submit_ns = event->stamp.ts_ns,
        .tid = event->tid,
        .pid = event->pid,
        .comm = event->comm,
        .origin = origin_of(linker, event->device->dev, event->sector),
    };
}
