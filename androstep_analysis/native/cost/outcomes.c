// Outcomes of the bytes written to files. Simulates a page cache of dirty bytes and their last writers
// (measures/write_outcomes.py, which mirrors these structures).

#include <string.h>

#include "core/array.h"
#include "core/map.h"
#include "core/table.h"

enum {
    GRAIN_BYTES = 4096, // granularity of lookups in files, independent of page and block size
    SECTOR_BYTES = 512,
};

// Kinds of rows:
// - ROW_WRITE: bytes are written to a file.
// - ROW_OUT: bytes are written back to the device.
// - ROW_DROP: bytes are dropped from the cache.
// - ROW_END: the inode is created or deleted; it has no bytes.
// - ROW_LOST: rows are missing here, so that the outcome of every dirty byte is unknown.
// - ROW_UNPLACED: a block of an unknown file is written to the device.
enum row_kind { ROW_WRITE, ROW_OUT, ROW_DROP, ROW_END, ROW_LOST, ROW_UNPLACED };

enum outcome { OUTCOME_OUT, OUTCOME_OVERWRITTEN, OUTCOME_DROPPED, OUTCOME_KEPT, OUTCOME_UNKNOWN, NR_OUTCOMES };

// Rows ordered by time; core/table.h defines the null values.
struct fate_rows {
    size_t rows;
    const int64_t *ts_ns;
    const uint32_t *dev;
    const int64_t *ino;
    const int64_t *begin; // bytes of the file
    const int64_t *end;
    const int32_t *tid;
    const int32_t *pid;
    const uint32_t *comm; // index of the name
    const uint8_t *kind;
    int64_t *repeated; // output for ROW_OUT: bytes that were written back before
};

// Bytes that a thread wrote to a file during one lifetime of its inode, by outcome.
struct writer {
    int64_t ts_ns; // of the first write
    int64_t ino;
    int64_t lifetime;
    int64_t writes;
    int64_t bytes[NR_OUTCOMES];
    uint32_t dev;
    int32_t tid;
    int32_t pid;
    uint32_t comm;
};

struct last_write {
    int64_t begin;
    int64_t end;
};

struct segment {
    uint32_t writer;
    uint16_t begin; // within the grain
    uint16_t end : 15;
    uint16_t may_be_out : 1;
};

// A lifetime of an inode: from its creation to its deletion.
struct lifetime {
    int64_t nth;          // index among the lifetimes of this inode
    int64_t end_losses;   // losses before its end, or NO_INT64
    int64_t end_unplaced; // `unplaced` of the device at its end
    uint32_t dev;
};

struct grain {
    struct segment *segments; // dirty bytes, ordered
    int64_t losses;           // losses when it was last changed
    int64_t unplaced;         // `unplaced` of the device when it was last changed
    uint32_t lifetime;
    uint16_t count;
    uint16_t capacity;
    uint8_t was_out; // a bit for each sector
};

struct outcomes {
    struct map of_files; // index of the current lifetime plus 1
    struct map of_grains;
    struct map of_writers;
    struct map unplaced; // number of blocks of unknown files written to each device
    struct lifetime *lifetimes;
    size_t nr_lifetimes, lifetimes_capacity;
    struct grain *grains;
    size_t nr_grains, grains_capacity;
    struct writer *writers;
    size_t nr_writers, writers_capacity;
    struct last_write *lasts; // of each writer
    size_t lasts_capacity;
    int64_t losses;
};

API struct outcomes *outcomes_new(void);
API void outcomes_free(struct outcomes *outcomes);
// Process the next rows. Returns false if memory runs out.
API bool outcomes_follow(struct outcomes *outcomes, const struct fate_rows *rows);
// Finish after the last row. Returns the writers with all their bytes accounted for.
API const struct writer *outcomes_finish(struct outcomes *outcomes, size_t *nr_writers);

struct outcomes *outcomes_new(void)
{
    return calloc(1, sizeof(struct outcomes));
}

void outcomes_free(struct outcomes *outcomes)
{
    for (size_t at = 0; at < outcomes->nr_grains; at++)
        free(outcomes->grains[at].segments);
    free(outcomes->lifetimes);
    free(outcomes->grains);
    free(outcomes->writers);
    free(outcomes->lasts);
    map_free(&outcomes->of_files);
    map_free(&outcomes->of_grains);
    map_free(&outcomes->of_writers);
    map_free(&outcomes->unplaced);
    free(outcomes);
}

// --- files, grains and writers ---------------------------------------------------------------------------------------

// Begin another lifetime of the file. Returns false if memory runs out.
static bool lifetime_begin(struct outcomes *outcomes, uint64_t *number, uint32_t dev)
{
    int64_t nth = *number ? outcomes->lifetimes[*number - 1].nth + 1 : 0;

    if (!array_reserve(&outcomes->lifetimes, outcomes->nr_lifetimes, &outcomes->lifetimes_capacity,
                       sizeof(*outcomes->lifetimes))) {
        *number = 1; // never used: the caller stops
        return false;
    }
    outcomes->lifetimes[outcomes->nr_lifetimes] = (struct lifetime){.nth = nth, .end_losses = NO_INT64, .dev = dev};
    *number = ++outcomes->nr_lifetimes;
    return true;
}

static int64_t unplaced_of(const struct outcomes *outcomes, uint32_t dev)
{
    return (int64_t)map_value(&outcomes->unplaced, 0, dev);
}

static void account(struct outcomes *outcomes, const struct segment *segment, uint32_t begin, uint32_t end,
                    enum outcome outcome)
{
    if (segment->may_be_out && outcome != OUTCOME_OUT)
        outcome = OUTCOME_UNKNOWN;
    outcomes->writers[segment->writer].bytes[outcome] += (int64_t)end - begin;
}

static void account_all(struct outcomes *outcomes, struct grain *grain, enum outcome outcome)
{
    for (size_t at = 0; at < grain->count; at++)
        account(outcomes, &grain->segments[at], grain->segments[at].begin, grain->segments[at].end, outcome);
    grain->count = 0;
}

// Update the grain to the device's current `unplaced`. If it has increased since the last change, the grain's bytes may
// have been written back.
static void take_unplaced(struct grain *grain, int64_t unplaced)
{
    if (grain->unplaced == unplaced)
        return;
    for (size_t at = 0; at < grain->count; at++)
        grain->segments[at].may_be_out = 1;
    grain->unplaced = unplaced;
}

static struct grain *grain_add(struct outcomes *outcomes, uint32_t lifetime, int64_t number)
{
    struct grain *grain;
    int64_t unplaced = unplaced_of(outcomes, outcomes->lifetimes[lifetime].dev);
    uint64_t *place;

    if (!array_reserve(&outcomes->grains, outcomes->nr_grains, &outcomes->grains_capacity, sizeof(*outcomes->grains)))
        return NULL;
    place = map_add(&outcomes->of_grains, lifetime, (uint64_t)number);
    if (!place)
        return NULL;
    if (!*place) {
        outcomes->grains[outcomes->nr_grains] =
            (struct grain){.lifetime = lifetime, .losses = outcomes->losses, .unplaced = unplaced};
        *place = ++outcomes->nr_grains;
    }
    grain = &outcomes->grains[*place - 1];
    if (grain->losses != outcomes->losses)
        account_all(outcomes, grain, OUTCOME_UNKNOWN);
    grain->losses = outcomes->losses;
    take_unplaced(grain, unplaced);
    return grain;
}

// Return the thread as a writer of this lifetime of the file, or NULL if memory runs out. A thread ID may be reused;
// process and name distinguish its users.
static struct writer *writer_of(struct outcomes *outcomes, uint32_t lifetime, const struct fate_rows *rows, size_t row)
{
    const uint64_t thread = (uint64_t)(uint32_t)rows->pid[row] << 32 | (uint32_t)rows->tid[row];
    const uint64_t of_file = (uint64_t)rows->comm[row] << 32 | lifetime;
    uint64_t *number;

    if (!array_reserve(&outcomes->writers, outcomes->nr_writers, &outcomes->writers_capacity,
                       sizeof(*outcomes->writers)) ||
        !array_reserve(&outcomes->lasts, outcomes->nr_writers, &outcomes->lasts_capacity, sizeof(*outcomes->lasts)))
        return NULL;
    number = map_add(&outcomes->of_writers, of_file, thread);
    if (!number)
        return NULL;
    if (!*number) {
        outcomes->lasts[outcomes->nr_writers] = (struct last_write){0};
        outcomes->writers[outcomes->nr_writers] = (struct writer){
            .ts_ns = rows->ts_ns[row],
            .dev = rows->dev[row],
            .ino = rows->ino[row],
            .lifetime = outcomes->lifetimes[lifetime].nth,
            .tid = rows->tid[row],
            .pid = rows->pid[row],
            .comm = rows->comm[row],
        };
        *number = ++outcomes->nr_writers;
    }
    return &outcomes->writers[*number - 1];
}

// --- segments --------------------------------------------------------------------------------------------------------

static bool segments_reserve(struct grain *grain, size_t count)
{
    struct segment *grown;
    size_t capacity = grain->capacity ? grain->capacity : 2;

    while (capacity < count)
        capacity *= 2;
    if (capacity == grain->capacity)
        return true;
    grown = realloc(grain->segments, capacity * sizeof(*grown));
    if (!grown)
        return false;
    grain->segments = grown;
    grain->capacity = (uint16_t)capacity;
    return true;
}

// Replace the segments from `first` to before `limit` with `count` others.
static bool segments_replace(struct grain *grain, size_t first, size_t limit, const struct segment *by, size_t count)
{
    size_t after = grain->count - limit;

    if (!segments_reserve(grain, first + count + after))
        return false;
    memmove(&grain->segments[first + count], &grain->segments[limit], after * sizeof(*by));
    for (size_t at = 0; at < count; at++)
        grain->segments[first + at] = by[at];
    grain->count = (uint16_t)(first + count + after);
    return true;
}

// Assign this outcome to the dirty bytes of [begin, end), and replace them by bytes of `writer` unless it is NULL. With
// NR_OUTCOMES no outcome is counted: the rest of a short write replaces its own bytes.
static bool settle(struct outcomes *outcomes, struct grain *grain, uint32_t begin, uint32_t end, enum outcome outcome,
                   const uint32_t *writer)
{
    struct segment left[3];
    size_t first = 0, limit, count = 0;

    while (first < grain->count && grain->segments[first].end <= begin)
        first++;
    for (limit = first; limit < grain->count && grain->segments[limit].begin < end; limit++) {
        const struct segment *segment = &grain->segments[limit];

        if (outcome != NR_OUTCOMES)
            account(outcomes, segment, segment->begin > begin ? segment->begin : begin,
                    segment->end < end ? segment->end : end, outcome);
    }
    if (first < limit && grain->segments[first].begin < begin) {
        left[count] = grain->segments[first];
        left[count++].end = begin & 0x7fff;
    }
    if (writer)
        left[count++] = (struct segment){.writer = *writer, .begin = (uint16_t)begin, .end = end & 0x7fff};
    if (first < limit && grain->segments[limit - 1].end > end) {
        left[count] = grain->segments[limit - 1];
        left[count++].begin = (uint16_t)end;
    }
    return segments_replace(grain, first, limit, left, count);
}

// Return the sectors of the grain that overlap [begin, end).
static uint8_t sectors_of(uint32_t begin, uint32_t end)
{
    uint32_t first = begin / SECTOR_BYTES, limit = (end + SECTOR_BYTES - 1) / SECTOR_BYTES;

    return (uint8_t)((1u << limit) - (1u << first));
}

static int64_t count_bits(uint8_t bits)
{
    int64_t count = 0;

    for (; bits; bits &= (uint8_t)(bits - 1))
        count++;
    return count;
}

// --- rows ------------------------------------------------------------------------------------------------------------

static bool take_grain(struct outcomes *outcomes, struct grain *grain, uint32_t begin, uint32_t end, enum row_kind kind,
                       enum outcome outcome, const uint32_t *writer, int64_t *repeated)
{
    uint8_t sectors = sectors_of(begin, end);

    if (kind == ROW_OUT) {
        *repeated += count_bits(grain->was_out & sectors) * SECTOR_BYTES;
        grain->was_out |= sectors;
    }
    return settle(outcomes, grain, begin, end, outcome, writer);
}

static bool take_bytes(struct outcomes *outcomes, uint32_t lifetime, const struct fate_rows *rows, size_t row,
                       enum outcome outcome, const uint32_t *writer)
{
    int64_t repeated = 0, limit = rows->end[row];

    for (int64_t begin = rows->begin[row], end; begin < limit; begin = end) {
        int64_t number = begin / GRAIN_BYTES, base = number * GRAIN_BYTES;
        uint64_t known = map_value(&outcomes->of_grains, lifetime, (uint64_t)number);
        struct grain *grain;

        end = base + GRAIN_BYTES < limit ? base + GRAIN_BYTES : limit;
        if (!known && rows->kind[row] == ROW_DROP)
            continue; // it has no known dirty bytes
        grain = grain_add(outcomes, lifetime, number);
        if (!grain || !take_grain(outcomes, grain, (uint32_t)(begin - base), (uint32_t)(end - base), rows->kind[row],
                                  outcome, writer, &repeated))
            return false;
    }
    if (rows->kind[row] == ROW_OUT)
        rows->repeated[row] = repeated;
    return true;
}

// Return whether a write continues a short write: the kernel reports everything that remains each time.
static bool goes_on(const struct last_write *last, int64_t begin, int64_t end)
{
    return begin > last->begin && begin < last->end && end == last->end;
}

static bool take_write(struct outcomes *outcomes, uint32_t lifetime, const struct fate_rows *rows, size_t row)
{
    struct writer *writer = writer_of(outcomes, lifetime, rows, row);
    uint32_t number;
    bool is_rest;

    if (!writer)
        return false;
    number = (uint32_t)(writer - outcomes->writers);
    is_rest = goes_on(&outcomes->lasts[number], rows->begin[row], rows->end[row]);
    outcomes->lasts[number] = (struct last_write){rows->begin[row], rows->end[row]};
    writer->writes += !is_rest;
    return take_bytes(outcomes, lifetime, rows, row, is_rest ? NR_OUTCOMES : OUTCOME_OVERWRITTEN, &number);
}

static bool take_row(struct outcomes *outcomes, const struct fate_rows *rows, size_t row)
{
    uint64_t *number;
    uint32_t lifetime;

    if (rows->kind[row] == ROW_LOST) {
        outcomes->losses++;
        return true;
    }
    if (rows->kind[row] == ROW_UNPLACED) {
        number = map_add(&outcomes->unplaced, 0, rows->dev[row]);
        if (number)
            ++*number;
        return number;
    }
    number = map_add(&outcomes->of_files, rows->dev[row], (uint64_t)rows->ino[row]);
    if (!number || (!*number && !lifetime_begin(outcomes, number, rows->dev[row])))
        return false;
    lifetime = (uint32_t)(*number - 1);
    switch ((enum row_kind)rows->kind[row]) {
    case ROW_WRITE:
        return take_write(outcomes, lifetime, rows, row);
    case ROW_OUT:
        return take_bytes(outcomes, lifetime, rows, row, OUTCOME_OUT, NULL);
    case ROW_DROP:
        return take_bytes(outcomes, lifetime, rows, row, OUTCOME_DROPPED, NULL);
    case ROW_END:
        outcomes->lifetimes[lifetime].end_losses = outcomes->losses;
        outcomes->lifetimes[lifetime].end_unplaced = unplaced_of(outcomes, rows->dev[row]);
        return lifetime_begin(outcomes, number, rows->dev[row]);
    case ROW_LOST:
    case ROW_UNPLACED:
        break;
    }
    return true;
}

bool outcomes_follow(struct outcomes *outcomes, const struct fate_rows *rows)
{
    for (size_t row = 0; row < rows->rows; row++)
        if (!take_row(outcomes, rows, row))
            return false;
    return true;
}

const struct writer *outcomes_finish(struct outcomes *outcomes, size_t *nr_writers)
{
    for (size_t at = 0; at < outcomes->nr_grains; at++) {
        struct grain *grain = &outcomes->grains[at];
        const struct lifetime *lifetime = &outcomes->lifetimes[grain->lifetime];
        int64_t end = lifetime->end_losses;

        take_unplaced(grain, end == NO_INT64 ? unplaced_of(outcomes, lifetime->dev) : lifetime->end_unplaced);
        // Bytes still dirty at the end of the lifetime were dropped.
        if (grain->losses != (end == NO_INT64 ? outcomes->losses : end))
            account_all(outcomes, grain, OUTCOME_UNKNOWN);
        else
            account_all(outcomes, grain, end == NO_INT64 ? OUTCOME_KEPT : OUTCOME_DROPPED);
    }
    *nr_writers = outcomes->nr_writers;
    return outcomes->writers;
}
