// A translation layer that writes everything where the last write ended (whatif/log_structured.py, whatif/flash.py): a
// map of pages, segments that are filled one after the other, and the cleaning of a segment that has few pages in use.

#include <float.h>
#include <string.h>

#include "core/array.h"
#include "core/table.h"

enum {
    PAGE_SECTORS = 8,
    MOST_SECTORS = 2048, // of one request: the block layer makes none much longer
};

// Which segment is cleaned: that with the fewest pages in use, or that where most is won for what it costs, the more
// the longer nothing was written there (Kawaguchi et al. 1995). The order is that of flash.POLICIES.
enum layer_policy { POLICY_GREEDY, POLICY_COST_BENEFIT };

enum layer_op { LAYER_READ, LAYER_WRITE, LAYER_DISCARD };

// Why the layer does what it does; the order is that of log_structured.KINDS.
enum layer_kind { KIND_HOST, KIND_PARTIAL, KIND_CLEANING, KIND_UNMAPPED };

struct access {
    int64_t row;    // of the request that caused it
    int64_t page;   // the first of the pages that are moved, as the host numbers them
    int64_t sector; // where on the device; of what is nowhere that of the host
    int64_t nr_sectors;
    uint8_t kind, op;
};

struct layer {
    uint32_t *place;  // of each page of the host, plus 1; 0: nowhere
    uint32_t *holder; // page of the host at each place, plus 1; 0: none
    uint32_t *used;   // pages in use, of each segment
    bool *is_free;
    size_t nr_segments, segment_pages, nr_free;
    size_t head, next; // the segment that is being filled, and its next page
    enum layer_policy policy;
    uint64_t clock;     // pages that were written
    uint64_t *filled;   // when each segment was last written to
    uint64_t *erases;   // of each segment
    uint32_t *writer;   // group of the last writer of each page of the host; NULL: nobody asks
    uint64_t *programs; // pages written for the host and moved, of each group
    uint32_t group;
    int64_t row;
    struct access *accesses;
    size_t nr_accesses, room;
};

API struct layer *layer_new(size_t pages, size_t segment_pages, size_t nr_segments, const uint8_t *is_in_use);
API void layer_first_use(size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors,
                         uint8_t *seen);
API void layer_free(struct layer *layer);
API bool layer_run(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors,
                   const int64_t *nr_sectors);
API bool layer_count_groups(struct layer *layer, size_t pages, size_t nr_groups, uint8_t policy);
API bool layer_run_groups(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors,
                          const int64_t *nr_sectors, const uint32_t *groups);
API void layer_copy_counts(const struct layer *layer, size_t nr_groups, uint64_t *programs, uint64_t *erases);
API size_t layer_count(const struct layer *layer);
API void layer_copy(const struct layer *layer, int64_t *row, int64_t *page, int64_t *sector, int64_t *nr_sectors,
                    uint8_t *kind, uint8_t *op);

// --- what is done ----------------------------------------------------------------------------------------------------

static bool add(struct layer *layer, struct access access)
{
    struct access *last = layer->nr_accesses ? &layer->accesses[layer->nr_accesses - 1] : NULL;

    if (layer->writer)
        return true;
    if (last && last->row == access.row && last->kind == access.kind && last->op == access.op &&
        last->sector + last->nr_sectors == access.sector && last->nr_sectors + access.nr_sectors <= MOST_SECTORS) {
        last->nr_sectors += access.nr_sectors;
        return true;
    }
    if (layer->nr_accesses == layer->room) {
        struct access *grown = array_grow(layer->accesses, &layer->room, sizeof(*grown));

        if (!grown)
            return false;
        layer->accesses = grown;
    }
    layer->accesses[layer->nr_accesses++] = access;
    return true;
}

// --- segments --------------------------------------------------------------------------------------------------------

static void drop(struct layer *layer, size_t page)
{
    size_t place;

    if (!layer->place[page])
        return;
    place = layer->place[page] - 1;
    layer->place[page] = 0;
    layer->holder[place] = 0;
    layer->used[place / layer->segment_pages]--;
}

static void put(struct layer *layer, size_t page, size_t place)
{
    drop(layer, page);
    layer->place[page] = (uint32_t)place + 1;
    layer->holder[place] = (uint32_t)page + 1;
    layer->used[place / layer->segment_pages]++;
}

// The next free one behind the head, round and round: the log goes on in one direction.
static void take_free(struct layer *layer)
{
    do
        layer->head = (layer->head + 1) % layer->nr_segments;
    while (!layer->is_free[layer->head]);
    layer->is_free[layer->head] = false;
    layer->nr_free--;
    layer->next = 0;
}

// Greater is better.
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

static void count(struct layer *layer, size_t page, enum layer_kind kind)
{
    layer->filled[layer->head] = ++layer->clock;
    if (!layer->writer)
        return;
    if (kind == KIND_HOST)
        layer->writer[page] = layer->group;
    layer->programs[2 * (size_t)layer->writer[page] + (kind == KIND_CLEANING)]++;
}

static bool move(struct layer *layer, size_t page, enum layer_kind kind)
{
    size_t place = layer->head * layer->segment_pages + layer->next++;

    put(layer, page, place);
    count(layer, page, kind);
    return add(layer, (struct access){layer->row, (int64_t)page, (int64_t)place * PAGE_SECTORS, PAGE_SECTORS, kind,
                                      LAYER_WRITE});
}

static bool read_page(struct layer *layer, size_t page, int64_t from, int64_t nr_sectors, enum layer_kind kind)
{
    bool is_mapped = layer->place[page] != 0;
    int64_t at = is_mapped ? (int64_t)layer->place[page] - 1 : (int64_t)page;

    if (!is_mapped && kind == KIND_PARTIAL)
        return true;
    return add(layer, (struct access){layer->row, (int64_t)page, at * PAGE_SECTORS + from, nr_sectors,
                                      is_mapped ? kind : KIND_UNMAPPED, LAYER_READ});
}

// What is in use of a segment is read, and goes to the head, which is empty and so has room for it.
static bool clean(struct layer *layer, size_t segment)
{
    size_t first = segment * layer->segment_pages, end = first + layer->segment_pages;

    for (size_t place = first; place < end; place++)
        if (layer->holder[place] && !read_page(layer, layer->holder[place] - 1, 0, PAGE_SECTORS, KIND_CLEANING))
            return false;
    for (size_t place = first; place < end; place++)
        if (layer->holder[place] && !move(layer, layer->holder[place] - 1, KIND_CLEANING))
            return false;
    layer->is_free[segment] = true;
    layer->erases[segment]++;
    layer->nr_free++;
    return true;
}

// One segment stays free for the next cleaning. A segment can be cleaned into an empty one with a page left over,
// because there are two segments more than the pages of the host fill: not all are in use everywhere.
static bool next_segment(struct layer *layer)
{
    take_free(layer);
    return layer->nr_free > 0 || clean(layer, to_clean(layer));
}

// --- requests --------------------------------------------------------------------------------------------------------

static bool do_read(struct layer *layer, int64_t sector, int64_t end)
{
    while (sector < end) {
        int64_t from = sector % PAGE_SECTORS;
        int64_t length = end - sector < PAGE_SECTORS - from ? end - sector : PAGE_SECTORS - from;

        if (!read_page(layer, (size_t)(sector / PAGE_SECTORS), from, length, KIND_HOST))
            return false;
        sector += length;
    }
    return true;
}

// The rest of a page of which only a part is written is read first.
static bool do_write(struct layer *layer, int64_t sector, int64_t end)
{
    size_t first = (size_t)(sector / PAGE_SECTORS), last = (size_t)((end - 1) / PAGE_SECTORS);
    bool is_cut_before = sector % PAGE_SECTORS, is_cut_behind = end % PAGE_SECTORS;

    if ((is_cut_before || (is_cut_behind && first == last)) && !read_page(layer, first, 0, PAGE_SECTORS, KIND_PARTIAL))
        return false;
    if (is_cut_behind && first != last && !read_page(layer, last, 0, PAGE_SECTORS, KIND_PARTIAL))
        return false;
    for (size_t page = first; page <= last; page++) {
        if (layer->next == layer->segment_pages && !next_segment(layer))
            return false;
        if (!move(layer, page, KIND_HOST))
            return false;
    }
    return true;
}

static void do_discard(struct layer *layer, int64_t sector, int64_t end)
{
    int64_t first = (sector + PAGE_SECTORS - 1) / PAGE_SECTORS;

    for (int64_t page = first; page < end / PAGE_SECTORS; page++)
        drop(layer, (size_t)page);
}

// --- before the first request ----------------------------------------------------------------------------------------

static void see(uint8_t *seen, int64_t first, int64_t end, uint8_t use)
{
    for (int64_t page = first; page < end; page++)
        if (!seen[page])
            seen[page] = use;
}

// `seen` becomes 1 for pages that are read, or written in part, before they are written or discarded as a whole, and 2
// for those that are so first; it is 0 before.
void layer_first_use(size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors, uint8_t *seen)
{
    for (size_t row = 0; row < rows; row++) {
        int64_t end = sectors[row] + nr_sectors[row];
        int64_t first = sectors[row] / PAGE_SECTORS, behind = (end + PAGE_SECTORS - 1) / PAGE_SECTORS;
        int64_t inner = (sectors[row] + PAGE_SECTORS - 1) / PAGE_SECTORS, whole = end / PAGE_SECTORS;

        if (ops[row] != LAYER_READ)
            see(seen, inner, whole, 2);
        if (ops[row] != LAYER_DISCARD)
            see(seen, first, behind, 1);
    }
}

// --- all -------------------------------------------------------------------------------------------------------------

// NULL where memory is short. Pages that are in use at the start lie where the host says. There must be two segments
// more than `pages` fill, and fewer than UINT32_MAX pages in all.
struct layer *layer_new(size_t pages, size_t segment_pages, size_t nr_segments, const uint8_t *is_in_use)
{
    struct layer *layer = calloc(1, sizeof(*layer));

    if (!layer)
        return NULL;
    *layer = (struct layer){.nr_segments = nr_segments, .segment_pages = segment_pages};
    layer->place = calloc(pages + 1, sizeof(*layer->place));
    layer->holder = calloc(nr_segments * segment_pages, sizeof(*layer->holder));
    layer->used = calloc(nr_segments, sizeof(*layer->used));
    layer->is_free = calloc(nr_segments, sizeof(*layer->is_free));
    layer->filled = calloc(nr_segments, sizeof(*layer->filled));
    layer->erases = calloc(nr_segments, sizeof(*layer->erases));
    if (!layer->place || !layer->holder || !layer->used || !layer->is_free || !layer->filled || !layer->erases) {
        layer_free(layer);
        return NULL;
    }
    for (size_t page = 0; page < pages; page++)
        if (is_in_use[page])
            put(layer, page, page);
    for (size_t segment = 0; segment < nr_segments; segment++) {
        layer->is_free[segment] = !layer->used[segment];
        layer->nr_free += !layer->used[segment];
    }
    layer->head = nr_segments - 1;
    take_free(layer);
    return layer;
}

void layer_free(struct layer *layer)
{
    free(layer->place);
    free(layer->holder);
    free(layer->used);
    free(layer->is_free);
    free(layer->filled);
    free(layer->erases);
    free(layer->writer);
    free(layer->programs);
    free(layer->accesses);
    free(layer);
}

// False where memory is short. Requests must have sectors and lie within the pages of the host.
bool layer_run(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors, const int64_t *nr_sectors)
{
    for (size_t row = 0; row < rows; row++) {
        int64_t end = sectors[row] + nr_sectors[row];

        layer->row = (int64_t)row;
        if (ops[row] == LAYER_DISCARD)
            do_discard(layer, sectors[row], end);
        else if (!(ops[row] == LAYER_WRITE ? do_write : do_read)(layer, sectors[row], end))
            return false;
    }
    return true;
}

// Has the layer count by groups instead of telling what it does; what is there at the start is of group `nr_groups`.
// False where memory is short.
bool layer_count_groups(struct layer *layer, size_t pages, size_t nr_groups, uint8_t policy)
{
    layer->policy = (enum layer_policy)policy;
    layer->writer = calloc(pages + 1, sizeof(*layer->writer));
    layer->programs = calloc(2 * (nr_groups + 1), sizeof(*layer->programs));
    for (size_t page = 0; layer->writer && page < pages; page++)
        layer->writer[page] = (uint32_t)nr_groups;
    return layer->writer && layer->programs;
}

// As layer_run, each request being of a group.
bool layer_run_groups(struct layer *layer, size_t rows, const uint8_t *ops, const int64_t *sectors,
                      const int64_t *nr_sectors, const uint32_t *groups)
{
    for (size_t row = 0; row < rows; row++) {
        layer->group = groups[row];
        if (!layer_run(layer, 1, ops + row, sectors + row, nr_sectors + row))
            return false;
    }
    return true;
}

// Of each group, and of what was there at the start, the pages written for the host and moved; erases of each segment.
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
