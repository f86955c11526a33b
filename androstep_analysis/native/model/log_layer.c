// A translation layer that appends every write to a log (whatif/log_structured.py, whatif/flash.py): a map of pages,
// segments filled one after another, and the cleaning of segments with few pages in use.

#include <float.h>
#include <string.h>

#include "core/array.h"
#include "core/table.h"
#include "model/runs.h"

enum { MOST_SECTORS = 2048 }; // of one request, about the limit of the block layer

// Policies for choosing the segment to clean: the fewest pages in use, or the best ratio of benefit to cost, which
// increases with the time since the last write (Kawaguchi et al. 1995). The order is that of flash.POLICIES.
enum layer_policy { POLICY_GREEDY, POLICY_COST_BENEFIT };

// Reasons for an access, in the order of log_structured.KINDS.
enum layer_kind { KIND_HOST, KIND_PARTIAL, KIND_CLEANING, KIND_UNMAPPED };

struct access {
    int64_t row;    // of the request that caused it
    int64_t page;   // first page moved, in the host's numbering
    int64_t sector; // on the device; for unmapped pages that of the host
    int64_t nr_sectors;
    uint8_t kind, op;
};

struct held {
    uint32_t place;  // location of the run's first page plus 1; 0: unmapped
    uint32_t pages;  // of the run
    uint32_t writer; // group of the last writer
};

struct layer {
    struct runs runs;
    struct held *held;  // of each run
    uint32_t **holders; // of each filled segment, the run written to each page, plus 1; NULL: initial layout
    uint32_t *moving;   // runs in use in the segment that is cleaned
    uint32_t *used;     // pages in use of each segment
    bool *is_free;
    size_t nr_segments, segment_pages, nr_free;
    size_t head, next; // the current segment and its next page
    enum layer_policy policy;
    uint64_t clock;     // pages written so far
    uint64_t *filled;   // time of the last write to each segment
    uint64_t *erases;   // of each segment
    uint64_t *programs; // pages written for the host and copied, of each group; NULL: not counted
    uint32_t group;     // of the current request
    int64_t row;
    struct access *accesses;
    size_t nr_accesses, room;
};

API struct layer *layer_new(size_t nr_runs, const uint32_t *first_pages, size_t segment_pages, size_t nr_segments,
                            const uint8_t *uses);
API void layer_free(struct layer *layer);
API bool layer_count_groups(struct layer *layer, size_t nr_groups, uint8_t policy);
API bool layer_run(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors,
                   const int64_t *nr_sectors, const uint32_t *groups);
API void layer_copy_counts(const struct layer *layer, size_t nr_groups, uint64_t *programs, uint64_t *erases);
API size_t layer_count(const struct layer *layer);
API void layer_copy(const struct layer *layer, int64_t *row, int64_t *page, int64_t *sector, int64_t *nr_sectors,
                    uint8_t *kind, uint8_t *op);

// --- accesses --------------------------------------------------------------------------------------------------------

static bool add(struct layer *layer, struct access access)
{
    struct access *last = layer->nr_accesses ? &layer->accesses[layer->nr_accesses - 1] : NULL;

    if (last && last->row == access.row && last->kind == access.kind && last->op == access.op &&
        last->sector + last->nr_sectors == access.sector && last->nr_sectors + access.nr_sectors <= MOST_SECTORS) {
        last->nr_sectors += access.nr_sectors;
        return true;
    }
    if (!array_reserve(&layer->accesses, layer->nr_accesses, &layer->room, sizeof(*layer->accesses)))
        return false;
    layer->accesses[layer->nr_accesses++] = access;
    return true;
}

// --- segments --------------------------------------------------------------------------------------------------------

static void drop(struct layer *layer, size_t run)
{
    struct held *held = &layer->held[run];

    if (!held->place)
        return;
    layer->used[(held->place - 1) / layer->segment_pages] -= held->pages;
    held->place = 0;
}

// Append the run to the current segment, which must have enough space.
static void put(struct layer *layer, size_t run)
{
    struct held *held = &layer->held[run];
    uint32_t *holder = &layer->holders[layer->head][layer->next];

    drop(layer, run);
    held->place = (uint32_t)(layer->head * layer->segment_pages + layer->next) + 1;
    holder[0] = (uint32_t)run + 1;
    memset(holder + 1, 0, (held->pages - 1) * sizeof(*holder));
    layer->used[layer->head] += held->pages;
    layer->next += held->pages;
}

// List the runs in use of a segment in `moving`, ordered by location. Returns their number.
static size_t find_used(struct layer *layer, size_t segment)
{
    const uint32_t *holder = layer->holders[segment];
    size_t place = segment * layer->segment_pages, found = 0;

    if (!holder) {
        for (size_t run = layer->runs.of_segment[segment]; run < layer->runs.of_segment[segment + 1]; run++)
            if (layer->held[run].place == layer->runs.first[run] + 1)
                layer->moving[found++] = (uint32_t)run;
        return found;
    }
    for (size_t offset = 0; offset < layer->segment_pages; offset++)
        if (holder[offset] && layer->held[holder[offset] - 1].place == place + offset + 1)
            layer->moving[found++] = holder[offset] - 1;
    return found;
}

// Choose the next free segment after the current one, in a ring. Returns false if memory runs out.
static bool take_free(struct layer *layer)
{
    do
        layer->head = (layer->head + 1) % layer->nr_segments;
    while (!layer->is_free[layer->head]);
    layer->is_free[layer->head] = false;
    layer->nr_free--;
    layer->next = 0;
    if (!layer->holders[layer->head])
        layer->holders[layer->head] = calloc(layer->segment_pages, sizeof(**layer->holders));
    return layer->holders[layer->head] != NULL;
}

// Return the priority for cleaning; the greatest is cleaned first.
static double worth(const struct layer *layer, size_t segment)
{
    double used = (double)layer->used[segment] / (double)layer->segment_pages;

    if (layer->policy == POLICY_GREEDY || layer->used[segment] == 0)
        return layer->used[segment] == 0 ? DBL_MAX : -used;
    return (double)(layer->clock - layer->filled[segment]) * (1 - used) / (2 * used);
}

static size_t to_clean(const struct layer *layer)
{
    size_t best = layer->nr_segments;
    double most = 0;

    for (size_t segment = 0; segment < layer->nr_segments; segment++) {
        double now;

        if (segment == layer->head || layer->is_free[segment])
            continue;
        now = worth(layer, segment);
        if (best == layer->nr_segments || now > most) {
            best = segment;
            most = now;
        }
    }
    return best;
}

// Add an access to page `offset` of the run.
static bool add_page(struct layer *layer, size_t run, size_t offset, int64_t from, int64_t nr_sectors,
                     enum layer_kind kind, enum host_op op)
{
    int64_t page = (int64_t)(layer->runs.first[run] + offset);
    int64_t place = layer->held[run].place ? (int64_t)(layer->held[run].place - 1 + offset) : page;

    return add(layer, (struct access){layer->row, page, place * PAGE_SECTORS + from, nr_sectors, kind, op});
}

static bool add_run(struct layer *layer, size_t run, enum layer_kind kind, enum host_op op)
{
    for (size_t offset = 0; offset < layer->held[run].pages; offset++)
        if (!add_page(layer, run, offset, 0, PAGE_SECTORS, kind, op))
            return false;
    return true;
}

static bool move(struct layer *layer, size_t run, enum layer_kind kind)
{
    struct held *held = &layer->held[run];

    put(layer, run);
    layer->clock += held->pages;
    layer->filled[layer->head] = layer->clock;
    if (!layer->programs)
        return add_run(layer, run, kind, HOST_WRITE);
    if (kind == KIND_HOST)
        held->writer = layer->group;
    layer->programs[2 * (size_t)held->writer + (kind == KIND_CLEANING)] += held->pages;
    return true;
}

// Clean a segment: read the pages in use and append them to the current segment, which is empty and so has enough
// space.
static bool clean(struct layer *layer, size_t segment)
{
    size_t nr_moving = find_used(layer, segment);

    for (size_t number = 0; number < nr_moving && !layer->programs; number++)
        if (!add_run(layer, layer->moving[number], KIND_CLEANING, HOST_READ))
            return false;
    for (size_t number = 0; number < nr_moving; number++)
        if (!move(layer, layer->moving[number], KIND_CLEANING))
            return false;
    layer->is_free[segment] = true;
    layer->erases[segment]++;
    layer->nr_free++;
    return true;
}

// Start the next segment and clean one if no free segment is left for the next cleaning. A segment can be cleaned into
// an empty one with a page left over, because there are two segments more than the host's pages fill: not all pages can
// be in use everywhere.
static bool next_segment(struct layer *layer)
{
    if (!take_free(layer))
        return false;
    return layer->nr_free > 0 || clean(layer, to_clean(layer));
}

// --- requests --------------------------------------------------------------------------------------------------------

static bool do_read(struct layer *layer, int64_t sector, int64_t end)
{
    size_t run = runs_find(&layer->runs, (size_t)(sector / PAGE_SECTORS));

    while (sector < end) {
        size_t page = (size_t)(sector / PAGE_SECTORS);
        int64_t from = sector % PAGE_SECTORS;
        int64_t length = end - sector < PAGE_SECTORS - from ? end - sector : PAGE_SECTORS - from;

        if (page == layer->runs.first[run + 1])
            run++;
        if (!add_page(layer, run, page - layer->runs.first[run], from, length,
                      layer->held[run].place ? KIND_HOST : KIND_UNMAPPED, HOST_READ))
            return false;
        sector += length;
    }
    return true;
}

// Read a mapped page before a partial write to it.
static bool read_rest(struct layer *layer, size_t run)
{
    return layer->programs || !layer->held[run].place || add_run(layer, run, KIND_PARTIAL, HOST_READ);
}

static bool do_write(struct layer *layer, int64_t sector, int64_t end)
{
    size_t first = runs_find(&layer->runs, (size_t)(sector / PAGE_SECTORS));
    size_t last = first + (size_t)((end - 1) / PAGE_SECTORS - sector / PAGE_SECTORS);
    bool is_cut_before = sector % PAGE_SECTORS, is_cut_behind = end % PAGE_SECTORS;

    if ((is_cut_before || (is_cut_behind && first == last)) && !read_rest(layer, first))
        return false;
    if (is_cut_behind && first != last && !read_rest(layer, last))
        return false;
    for (size_t run = first; run <= last; run++) {
        if (layer->next == layer->segment_pages && !next_segment(layer))
            return false;
        if (!move(layer, run, KIND_HOST))
            return false;
    }
    return true;
}

static void do_discard(struct layer *layer, int64_t sector, int64_t end)
{
    int64_t first = (sector + PAGE_SECTORS - 1) / PAGE_SECTORS, behind = end / PAGE_SECTORS;

    if (first >= behind)
        return;
    for (size_t run = runs_find(&layer->runs, (size_t)first); layer->runs.first[run] < behind; run++)
        drop(layer, run);
}

// --- entry points ----------------------------------------------------------------------------------------------------

static void lay(struct layer *layer, size_t run, bool is_used)
{
    uint32_t first = layer->runs.first[run], pages = layer->runs.first[run + 1] - first;

    layer->held[run] = (struct held){.place = is_used ? first + 1 : 0, .pages = pages};
    if (is_used)
        layer->used[first / layer->segment_pages] += pages;
}

// Create a layer; NULL if memory runs out. Runs with use 1 (all, if there are no uses) are at the host's locations.
// There must be two segments more than the pages fill, and fewer than INT32_MAX pages in all.
struct layer *layer_new(size_t nr_runs, const uint32_t *first_pages, size_t segment_pages, size_t nr_segments,
                        const uint8_t *uses)
{
    struct layer *layer = calloc(1, sizeof(*layer));

    if (!layer)
        return NULL;
    *layer = (struct layer){.nr_segments = nr_segments, .segment_pages = segment_pages};
    layer->held = calloc(nr_runs + 1, sizeof(*layer->held));
    layer->holders = calloc(nr_segments, sizeof(*layer->holders));
    layer->moving = calloc(segment_pages, sizeof(*layer->moving));
    layer->used = calloc(nr_segments, sizeof(*layer->used));
    layer->is_free = calloc(nr_segments, sizeof(*layer->is_free));
    layer->filled = calloc(nr_segments, sizeof(*layer->filled));
    layer->erases = calloc(nr_segments, sizeof(*layer->erases));
    if (!runs_open(&layer->runs, nr_runs, first_pages, segment_pages) || !layer->held || !layer->holders ||
        !layer->moving || !layer->used || !layer->is_free || !layer->filled || !layer->erases) {
        layer_free(layer);
        return NULL;
    }
    for (size_t run = 0; run < nr_runs; run++)
        lay(layer, run, !uses || uses[run] == 1);
    for (size_t segment = 0; segment < nr_segments; segment++) {
        layer->is_free[segment] = !layer->used[segment];
        layer->nr_free += !layer->used[segment];
    }
    layer->head = nr_segments - 1;
    if (take_free(layer))
        return layer;
    layer_free(layer);
    return NULL;
}

void layer_free(struct layer *layer)
{
    for (size_t segment = 0; layer->holders && segment < layer->nr_segments; segment++)
        free(layer->holders[segment]);
    runs_close(&layer->runs);
    free(layer->held);
    free(layer->holders);
    free(layer->moving);
    free(layer->programs);
    free(layer->used);
    free(layer->is_free);
    free(layer->filled);
    free(layer->erases);
    free(layer->accesses);
    free(layer);
}

static bool do_request(struct layer *layer, uint8_t op, int64_t sector, int64_t end)
{
    if (op == HOST_DISCARD) {
        do_discard(layer, sector, end);
        return true;
    }
    if (op == HOST_READ)
        return layer->programs || do_read(layer, sector, end);
    return do_write(layer, sector, end);
}

// Make the layer count by groups instead of recording accesses; the initial data has group `nr_groups`. Returns false
// if memory runs out.
bool layer_count_groups(struct layer *layer, size_t nr_groups, uint8_t policy)
{
    layer->policy = (enum layer_policy)policy;
    layer->programs = calloc(2 * (nr_groups + 1), sizeof(*layer->programs));
    for (size_t run = 0; run < layer->runs.nr; run++)
        layer->held[run].writer = (uint32_t)nr_groups;
    return layer->programs != NULL;
}

// Run requests. Returns false if memory runs out. Requests must have sectors and be within the pages of the host;
// `groups` are those of the requests, if the layer counts.
bool layer_run(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors,
               const uint32_t *groups)
{
    for (size_t row = 0; row < rows; row++) {
        layer->row = (int64_t)row;
        layer->group = groups ? groups[row] : 0;
        if (!do_request(layer, ops[row], sectors[row], sectors[row] + nr_sectors[row]))
            return false;
    }
    return true;
}

// Copy the pages written for the host and moved, of each group and of the initial data, and the erases of each segment.
void layer_copy_counts(const struct layer *layer, size_t nr_groups, uint64_t *programs, uint64_t *erases)
{
    memcpy(programs, layer->programs, 2 * (nr_groups + 1) * sizeof(*programs));
    memcpy(erases, layer->erases, layer->nr_segments * sizeof(*erases));
}

size_t layer_count(const struct layer *layer)
{
    return layer->nr_accesses;
}

void layer_copy(const struct layer *layer, int64_t *row, int64_t *page, int64_t *sector, int64_t *nr_sectors,
                uint8_t *kind, uint8_t *op)
{
    for (size_t number = 0; number < layer->nr_accesses; number++) {
        const struct access *access = &layer->accesses[number];

        row[number] = access->row;
        page[number] = access->page;
        sector[number] = access->sector;
        nr_sectors[number] = access->nr_sectors;
        kind[number] = access->kind;
        op[number] = access->op;
    }
}
