// Where a place lies on the topmost device: by the remaps of the trace, and by the partitions it is told of.
#include "link/origins.h"

#include "core/array.h"

// Devices stacked on each other that are followed; phones stack three (partition, dm-default-key, dm-linear).
enum { MAX_LAYERS = 8 };

// Remaps that are remembered: far more than are between a bio's remap and the last event that asks for it.
enum { MAX_REMAPS = 1 << 20 };

bool linker_partition(struct linker *linker, uint32_t dev, uint32_t parent, int64_t start, int64_t nr_sectors)
{
    if (linker->nr_partitions == linker->partition_room) {
        struct partition *partitions =
            array_grow(linker->partitions, &linker->partition_room, sizeof(*linker->partitions));

        if (!partitions)
            return false;
        linker->partitions = partitions;
    }
    linker->partitions[linker->nr_partitions++] = (struct partition){dev, parent, start, nr_sectors};
    return true;
}

void remap_add(struct linker *linker, struct remap remap)
{
    size_t number = linker->next_remap;
    uint64_t *place;

    if (number == linker->remap_room) {
        struct remap *remaps = array_grow(linker->remaps, &linker->remap_room, sizeof(*remaps));

        if (!remaps) {
            linker->is_out_of_memory = true;
            return;
        }
        linker->remaps = remaps;
    }
    if (number < linker->nr_remaps) {
        const struct remap *oldest = &linker->remaps[number];

        if (map_value(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector) == number + 1)
            map_remove(&linker->remap_of, oldest->dev, (uint64_t)oldest->sector);
    }
    linker->remaps[number] = remap;
    place = map_add(&linker->remap_of, remap.dev, (uint64_t)remap.sector);
    if (!place) {
        linker->is_out_of_memory = true;
        return;
    }
    *place = number + 1;
    if (number == linker->nr_remaps)
        linker->nr_remaps++;
    linker->next_remap = (number + 1) % MAX_REMAPS;
}

struct origin origin_by_remaps(const struct linker *linker, uint32_t dev, int64_t sector)
{
    struct origin origin = {dev, 0};
    int64_t place = sector;

    for (int layer = 0; layer < MAX_LAYERS; layer++) {
        uint64_t number = map_value(&linker->remap_of, origin.dev, (uint64_t)place);
        const struct remap *remap;

        if (!number)
            break;
        remap = &linker->remaps[number - 1];
        origin.dev = remap->old_dev;
        place = remap->old_sector;
    }
    origin.offset = difference(sector, place);
    return origin;
}

struct origin origin_in_partition(const struct linker *linker, struct origin origin, int64_t sector)
{
    for (size_t number = 0; number < linker->nr_partitions; number++) {
        const struct partition *partition = &linker->partitions[number];
        int64_t place = difference(sector, origin.offset);

        if (origin.dev == partition->parent && place >= partition->start_sector &&
            place < sum(partition->start_sector, partition->nr_sectors))
            origin = (struct origin){partition->dev, sum(origin.offset, partition->start_sector)};
    }
    return origin;
}
