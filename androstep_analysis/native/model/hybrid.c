// A flash device with the hybrid mapping of FAST (Lee et al. 2007; whatif/hybrid.py): data blocks that are mapped as a
// whole, and a log of few blocks for rewritten pages. One log block takes the pages of one data block in order from its
// first page; the others take all remaining pages as they come. Merges with data blocks free the log blocks.

#include <stdlib.h>
#include <string.h>

#include "core/table.h"
#include "model/runs.h"

enum { NO_BLOCK = UINT32_MAX };

// Location of the newest version of a run of pages. LOGGED and above: index of a log page written in arrival order.
enum { NOWHERE, IN_DATA, IN_SEQUENCE, LOGGED };

// Kinds of merges, in the order of hybrid.MERGES.
enum merge { MERGE_SWITCH, MERGE_PARTIAL, MERGE_FULL, NR_MERGES };

struct held {
    uint32_t place;
    uint32_t writer;    // group of the last writer
    bool is_programmed; // in the data block, whether or not it is the newest version
};

struct hybrid {
    struct runs runs;
    struct held *held; // of each run
    uint32_t *data;    // block that contains each block of the host, or none
    uint32_t *free;    // erased blocks, a queue in a ring
    size_t nr_blocks, block_pages, first_free, nr_free;
    uint32_t sequence, owner; // log block written in order, and its block of the host; or none
    size_t sequence_pages;
    uint32_t *log;     // other log blocks, from oldest to newest in a ring
    uint32_t **logged; // runs written to each of them
    size_t nr_log, newest, newest_pages;
    uint64_t *erases, *programs; // of each block; pages written for the host and copied, of each group
    uint64_t merges[NR_MERGES];
};

API struct hybrid *hybrid_new(size_t nr_runs, const uint32_t *first_pages, size_t block_pages, size_t nr_blocks,
                              const uint8_t *uses, size_t nr_groups);
API void hybrid_free(struct hybrid *hybrid);
API bool hybrid_run(struct hybrid *hybrid, size_t rows, const uint8_t *ops, const int64_t *sectors,
                    const int64_t *nr_sectors, const uint32_t *groups);
API void hybrid_copy(const struct hybrid *hybrid, size_t nr_groups, uint64_t *programs, uint64_t *erases,
                     uint64_t *merges);

// --- blocks ----------------------------------------------------------------------------------------------------------

static void add_free(struct hybrid *hybrid, uint32_t block)
{
    hybrid->free[(hybrid->first_free + hybrid->nr_free++) % hybrid->nr_blocks] = block;
}

// Return an erased block. There always is one: a merge fills at most one block before it erases another.
static uint32_t take_free(struct hybrid *hybrid)
{
    uint32_t block = hybrid->free[hybrid->first_free];

    hybrid->first_free = (hybrid->first_free + 1) % hybrid->nr_blocks;
    hybrid->nr_free--;
    return block;
}

static void erase(struct hybrid *hybrid, uint32_t block)
{
    hybrid->erases[block]++;
    add_free(hybrid, block);
}

static size_t owner_of(const struct hybrid *hybrid, size_t run)
{
    return hybrid->runs.first[run] / hybrid->block_pages;
}

// --- merges ----------------------------------------------------------------------------------------------------------

// Copy the run to the new data block. Pages without data stay erased there.
static void copy(struct hybrid *hybrid, size_t run)
{
    struct held *held = &hybrid->held[run];

    held->is_programmed = held->place != NOWHERE;
    if (!held->is_programmed)
        return;
    held->place = IN_DATA;
    hybrid->programs[2 * (size_t)held->writer + 1] += hybrid->runs.first[run + 1] - hybrid->runs.first[run];
}

static void replace_data(struct hybrid *hybrid, size_t owner, uint32_t block, enum merge merge)
{
    erase(hybrid, hybrid->data[owner]);
    hybrid->data[owner] = block;
    hybrid->merges[merge]++;
}

// Turn the log block written in order into the data block, after copying the missing pages to it.
static void end_sequence(struct hybrid *hybrid)
{
    uint32_t owner = hybrid->owner;
    size_t run = hybrid->runs.of_segment[owner], behind = hybrid->runs.of_segment[owner + 1];
    size_t in_order = run + hybrid->sequence_pages; // each written page is a run of its own

    replace_data(hybrid, owner, hybrid->sequence, in_order == behind ? MERGE_SWITCH : MERGE_PARTIAL);
    for (; run < in_order; run++) {
        hybrid->held[run].is_programmed = true;
        if (hybrid->held[run].place == IN_SEQUENCE)
            hybrid->held[run].place = IN_DATA;
    }
    for (; run < behind; run++)
        copy(hybrid, run);
    hybrid->owner = NO_BLOCK;
}

// Copy all newest pages to an erased block, except those of a sequence, which continues.
static void merge_full(struct hybrid *hybrid, size_t owner)
{
    replace_data(hybrid, owner, take_free(hybrid), MERGE_FULL);
    for (size_t run = hybrid->runs.of_segment[owner]; run < hybrid->runs.of_segment[owner + 1]; run++)
        if (hybrid->held[run].place != IN_SEQUENCE)
            copy(hybrid, run);
}

// Merge each data block that has a newest page in the log block.
static void empty_log_block(struct hybrid *hybrid, size_t number)
{
    for (size_t offset = 0; offset < hybrid->block_pages; offset++) {
        size_t run = hybrid->logged[number][offset];

        if (hybrid->held[run].place == LOGGED + number * hybrid->block_pages + offset)
            merge_full(hybrid, owner_of(hybrid, run));
    }
    erase(hybrid, hybrid->log[number]);
}

// --- requests --------------------------------------------------------------------------------------------------------

static void begin_sequence(struct hybrid *hybrid, size_t owner)
{
    if (hybrid->owner != NO_BLOCK)
        end_sequence(hybrid);
    hybrid->sequence = take_free(hybrid);
    hybrid->owner = (uint32_t)owner;
    hybrid->sequence_pages = 0;
}

// Start the next log block, and empty the oldest one if all are full. Returns false if memory runs out.
static bool next_log_block(struct hybrid *hybrid)
{
    size_t number = hybrid->newest = (hybrid->newest + 1) % hybrid->nr_log;

    if (hybrid->logged[number])
        empty_log_block(hybrid, number);
    else
        hybrid->logged[number] = calloc(hybrid->block_pages, sizeof(**hybrid->logged));
    hybrid->log[number] = take_free(hybrid);
    hybrid->newest_pages = 0;
    return hybrid->logged[number] != NULL;
}

static bool append(struct hybrid *hybrid, size_t run)
{
    if (hybrid->newest_pages == hybrid->block_pages && !next_log_block(hybrid))
        return false;
    hybrid->logged[hybrid->newest][hybrid->newest_pages] = (uint32_t)run;
    hybrid->held[run].place = (uint32_t)(LOGGED + hybrid->newest * hybrid->block_pages + hybrid->newest_pages++);
    return true;
}

static bool write_page(struct hybrid *hybrid, size_t run)
{
    struct held *held = &hybrid->held[run];
    size_t owner = owner_of(hybrid, run), offset = hybrid->runs.first[run] % hybrid->block_pages;
    bool is_in_sequence = owner == hybrid->owner && offset < hybrid->sequence_pages;

    if (!held->is_programmed && !is_in_sequence) {
        if (hybrid->data[owner] == NO_BLOCK)
            hybrid->data[owner] = take_free(hybrid);
        held->is_programmed = true;
        held->place = IN_DATA;
        return true;
    }
    if (offset == 0)
        begin_sequence(hybrid, owner);
    if (owner == hybrid->owner && offset == hybrid->sequence_pages) {
        hybrid->sequence_pages++;
        held->place = IN_SEQUENCE;
        return true;
    }
    if (owner == hybrid->owner)
        end_sequence(hybrid);
    return append(hybrid, run);
}

static bool do_write(struct hybrid *hybrid, int64_t sector, int64_t end, uint32_t group)
{
    size_t run = runs_find(&hybrid->runs, (size_t)(sector / PAGE_SECTORS));

    for (; hybrid->runs.first[run] < (end + PAGE_SECTORS - 1) / PAGE_SECTORS; run++) {
        if (!write_page(hybrid, run))
            return false;
        hybrid->held[run].writer = group;
        hybrid->programs[2 * (size_t)group]++;
    }
    return true;
}

static void do_discard(struct hybrid *hybrid, int64_t sector, int64_t end)
{
    int64_t first = (sector + PAGE_SECTORS - 1) / PAGE_SECTORS, behind = end / PAGE_SECTORS;

    if (first >= behind)
        return;
    for (size_t run = runs_find(&hybrid->runs, (size_t)first); hybrid->runs.first[run] < behind; run++)
        hybrid->held[run].place = NOWHERE;
}

// --- entry points ----------------------------------------------------------------------------------------------------

static bool allocate(struct hybrid *hybrid, size_t nr_groups)
{
    hybrid->held = calloc(hybrid->runs.nr + 1, sizeof(*hybrid->held));
    hybrid->data = calloc(hybrid->nr_blocks, sizeof(*hybrid->data));
    hybrid->free = calloc(hybrid->nr_blocks, sizeof(*hybrid->free));
    hybrid->log = calloc(hybrid->nr_log, sizeof(*hybrid->log));
    hybrid->logged = calloc(hybrid->nr_log, sizeof(*hybrid->logged));
    hybrid->erases = calloc(hybrid->nr_blocks, sizeof(*hybrid->erases));
    hybrid->programs = calloc(2 * (nr_groups + 1), sizeof(*hybrid->programs));
    return hybrid->held && hybrid->data && hybrid->free && hybrid->log && hybrid->logged && hybrid->erases &&
           hybrid->programs;
}

// Create a device; NULL if memory runs out. Runs with use 1 (all, if there are no uses) are in data blocks. There must
// be three blocks more than the pages fill: one for a sequence, one for a merge, and the log.
struct hybrid *hybrid_new(size_t nr_runs, const uint32_t *first_pages, size_t block_pages, size_t nr_blocks,
                          const uint8_t *uses, size_t nr_groups)
{
    size_t nr_filled = (first_pages[nr_runs] + block_pages - 1) / block_pages;
    struct hybrid *hybrid = calloc(1, sizeof(*hybrid));

    if (!hybrid)
        return NULL;
    *hybrid = (struct hybrid){.nr_blocks = nr_blocks,
                              .block_pages = block_pages,
                              .owner = NO_BLOCK,
                              .nr_log = nr_blocks - nr_filled - 2,
                              .newest_pages = block_pages};
    hybrid->newest = hybrid->nr_log - 1;
    if (!runs_open(&hybrid->runs, nr_runs, first_pages, block_pages) || !allocate(hybrid, nr_groups)) {
        hybrid_free(hybrid);
        return NULL;
    }
    memset(hybrid->data, UINT8_MAX, nr_blocks * sizeof(*hybrid->data));
    for (size_t run = 0; run < nr_runs; run++) {
        bool is_used = !uses || uses[run] == 1;

        hybrid->held[run] = (struct held){is_used ? IN_DATA : NOWHERE, (uint32_t)nr_groups, is_used};
        if (is_used)
            hybrid->data[owner_of(hybrid, run)] = (uint32_t)owner_of(hybrid, run);
    }
    for (uint32_t block = 0; block < nr_blocks; block++)
        if (hybrid->data[block] == NO_BLOCK)
            add_free(hybrid, block);
    return hybrid;
}

void hybrid_free(struct hybrid *hybrid)
{
    for (size_t number = 0; hybrid->logged && number < hybrid->nr_log; number++)
        free(hybrid->logged[number]);
    runs_close(&hybrid->runs);
    free(hybrid->held);
    free(hybrid->data);
    free(hybrid->free);
    free(hybrid->log);
    free(hybrid->logged);
    free(hybrid->erases);
    free(hybrid->programs);
    free(hybrid);
}

// Run requests. Returns false if memory runs out. Requests must have sectors and be within the pages of the host.
bool hybrid_run(struct hybrid *hybrid, size_t rows, const uint8_t *ops, const int64_t *sectors,
                const int64_t *nr_sectors, const uint32_t *groups)
{
    for (size_t row = 0; row < rows; row++) {
        int64_t end = sectors[row] + nr_sectors[row];

        if (ops[row] == HOST_DISCARD)
            do_discard(hybrid, sectors[row], end);
        else if (ops[row] == HOST_WRITE && !do_write(hybrid, sectors[row], end, groups[row]))
            return false;
    }
    return true;
}

// Copy the pages written for the host and copied, of each group and of the initial data; the erases of each block; and
// the number of merges of each kind.
void hybrid_copy(const struct hybrid *hybrid, size_t nr_groups, uint64_t *programs, uint64_t *erases, uint64_t *merges)
{
    memcpy(programs, hybrid->programs, 2 * (nr_groups + 1) * sizeof(*programs));
    memcpy(erases, hybrid->erases, hybrid->nr_blocks * sizeof(*erases));
    memcpy(merges, hybrid->merges, sizeof(hybrid->merges));
}
