#include "stamp.h"

#include <string.h>
#include <unistd.h>

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
    return value ^ (value >> 29);
}

static uint32_t stamp_check(const struct stamp_cell *cell)
{
    return (uint32_t)(cell->ino * 3 + cell->offset * 5 + cell->sequence * 7 + cell->pid * 11u + cell->generation);
}

static struct stamp_cell stamp_cell(uint64_t offset, struct identity id, uint64_t sequence)
{
    struct stamp_cell cell = {
        .magic = STAMP_MAGIC,
        .pid = (uint32_t)getpid(),
        .ino = id.ino,
        .generation = id.generation,
        .offset = offset,
        .sequence = sequence,
    };
    cell.check = stamp_check(&cell);
    for (size_t i = 0; i < sizeof(cell.filling) / sizeof(cell.filling[0]); i++)
        cell.filling[i] = mix(sequence * 131 + offset + i);
    return cell;
}

void stamp_fill(unsigned char *buffer, size_t length, uint64_t offset, struct identity id, uint64_t sequence)
{
    uint64_t end = offset + length;
    for (uint64_t at = offset - offset % STAMP_CELL_BYTES; at < end; at += STAMP_CELL_BYTES) {
        struct stamp_cell cell = stamp_cell(at, id, sequence);
        uint64_t first = at < offset ? offset : at;
        uint64_t last = at + STAMP_CELL_BYTES > end ? end : at + STAMP_CELL_BYTES;
        memcpy(buffer + (first - offset), (unsigned char *)&cell + (first - at), last - first);
    }
}
