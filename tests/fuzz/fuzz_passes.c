// Fuzzes the passes over columns of events: repetitions, incarnations and
// inference.
#include "columns.h"

#include "events/incarnations.h"
#include "events/repetitions.h"
#include "infer/infer.h"
#include "intervals/stab.h"

static const uint32_t devices[] = {8 << 20, 253 << 20, 0, NO_UINT32};
static const int64_t inodes[] = {1, 2, 3, 11, 12, 13, 8 << 20, NO_INT64};
static const int32_t threads[] = {1, 2, 3, NO_INT32};
static const int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 64, 512, 8192, 1 << 20, (int64_t)1 << 48, 9, 10};

static void free_all(const void *const *columns, size_t count)
{
    for (size_t n = 0; n < count; n++)
        free((void *)columns[n]);
}

API int fuzz_repetitions(const uint8_t *data, size_t size)
{
    static const uint8_t kinds[] = {EVENT_OTHER, EVENT_PAGE, EVENT_LOOKUP, EVENT_HANDLE, EVENT_PATH, EVENT_OPEN};
    static const uint8_t events[] = {0, 1, 2, 3}, truths[] = {0, 1};
    static const uint32_t texts[] = {0, 1, 2, NO_STRING};
    static const int32_t orders[] = {0, 1, 9, NO_INT32};
    static const int64_t blocks[] = {0, 1, 8, NO_INT64};
    struct input input = input_of(data, size);
    struct rows all = rows_of(&input, 8), *rows = &all;
    uint8_t *is_kept = allocate(rows->count);
    struct repeating_events in = {
        .rows = rows->count,
        .kind = CHOSEN(uint8_t, rows, 0, 0, kinds),
        .event = CHOSEN(uint8_t, rows, 1, 0, events),
        .dev = CHOSEN(uint32_t, rows, 1, 2, devices),
        .ino = CHOSEN(int64_t, rows, 1, 4, inodes),
        .tid = CHOSEN(int32_t, rows, 2, 0, threads),
        .pid = CHOSEN(int32_t, rows, 2, 2, threads),
        .comm = CHOSEN(uint32_t, rows, 2, 4, texts),
        .name = CHOSEN(uint32_t, rows, 2, 6, texts),
        .status = CHOSEN(uint32_t, rows, 3, 0, texts),
        .page_order = CHOSEN(int32_t, rows, 3, 2, orders),
        .file_block = CHOSEN(int64_t, rows, 3, 4, blocks),
        .block = CHOSEN(int64_t, rows, 3, 6, blocks),
        .nr_blocks = CHOSEN(int64_t, rows, 4, 0, blocks),
        .transaction = CHOSEN(int64_t, rows, 4, 2, blocks),
        .states_block = CHOSEN(uint8_t, rows, 4, 4, truths),
    };
    const void *columns[] = {in.kind,       in.event, in.dev,       in.ino,         in.tid,
                             in.pid,        in.comm,  in.name,      in.status,      in.page_order,
                             in.file_block, in.block, in.nr_blocks, in.transaction, in.states_block};

    check(repetitions_find(&in, is_kept));
    for (size_t row = 0; row < rows->count; row++)
        check(is_kept[row] == 1 || (is_kept[row] == 0 && in.kind[row] != EVENT_OTHER && in.kind[row] != EVENT_PATH));
    free_all(columns, sizeof(columns) / sizeof(*columns));
    free(is_kept);
    return 0;
}

API int fuzz_incarnations(const uint8_t *data, size_t size)
{
    static const uint8_t kinds[] = {LIFETIME_OTHER, LIFETIME_CREATION, LIFETIME_DELETION, LIFETIME_FREED_BLOCKS};
    static const uint8_t truths[] = {0, 1};
    struct input input = input_of(data, size);
    struct incarnations *incarnations = incarnations_new();
    struct rows all = rows_of(&input, 2);

    for (size_t n = 0; n < 3; n++)
        check(incarnations_device(incarnations, devices[n], input.knobs[n] & 1, input.knobs[n] >> 1 & 1));
    while (all.count) {
        size_t count = input_chunk(&input);
        struct rows rows = {all.at, count < all.count ? count : all.count, all.width};
        uint32_t *dev = CHOSEN(uint32_t, &rows, 0, 0, devices);
        int64_t *ino = CHOSEN(int64_t, &rows, 0, 2, inodes);
        uint8_t *kind = CHOSEN(uint8_t, &rows, 1, 0, kinds), *is_free = CHOSEN(uint8_t, &rows, 1, 2, truths);
        int32_t *incarnation = allocate(rows.count * sizeof(*incarnation));

        if (input_choose(&input, 2))
            check(incarnations_deletions(incarnations, rows.count, dev, ino, is_free));
        check(incarnations_number(incarnations, rows.count, dev, ino, kind, incarnation));
        for (size_t row = 0; row < rows.count; row++)
            check(incarnation[row] >= 0);
        free(dev);
        free(ino);
        free(kind);
        free(is_free);
        free(incarnation);
        all.at += rows.count * rows.width;
        all.count -= rows.count;
    }
    incarnations_free(incarnations);
    return 0;
}

static void check_inferences(const struct infer *infer, const struct infer_events *events)
{
    size_t count;
    const struct inference *inferred = infer_result(infer, &count);

    for (size_t n = 0; n < count; n++) {
        const struct inference *one = &inferred[n];
        size_t event = (size_t)one->event;

        check(event < events->rows && events->kind[event] >= INFER_WRITES);
        check(one->block >= events->first[event] && one->block - events->first[event] < events->count[event]);
        check(one->author == NO_INT64 || (size_t)one->author < events->rows);
        check(one->rule >= RULE_NONE && one->rule <= RULE_LATER);
    }
}

API int fuzz_infer(const uint8_t *data, size_t size)
{
    static const uint8_t kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9, 10, 0, 0, 9};
    static const int64_t counts[] = {0, 1, 2, 3, 4, 8, 64, 512};
    static const int64_t known_inodes[] = {1, 2, 3, 11, 12, 13, 14, 8 << 20};
    struct input input = input_of(data, size);
    struct rows all = rows_of(&input, 6), *rows = &all;
    uint8_t *flags = allocate(rows->count);
    struct infer_events in = {
        .rows = rows->count,
        .ts = times(rows),
        .ino = CHOSEN(int64_t, rows, 1, 0, known_inodes),
        .first = CHOSEN(int64_t, rows, 2, 0, numbers),
        .count = CHOSEN(int64_t, rows, 1, 3, counts),
        .block = CHOSEN(int64_t, rows, 2, 4, numbers),
        .dev = CHOSEN(uint32_t, rows, 3, 0, devices),
        .tid = CHOSEN(int32_t, rows, 3, 2, threads),
        .kind = CHOSEN(uint8_t, rows, 3, 4, kinds),
        .flags = flags,
    };
    const void *columns[] = {in.ts, in.ino, in.first, in.count, in.block, in.dev, in.tid, in.kind, in.flags};
    struct infer *infer;

    for (size_t row = 0; row < rows->count; row++)
        flags[row] = byte_of(rows, row, 4) & 63;
    infer = infer_run(&in);
    check(infer != NULL);
    check_inferences(infer, &in);
    infer_free(infer);
    free_all(columns, sizeof(columns) / sizeof(*columns));
    return 0;
}

// Insert a number into an ascending list unless it is there. Returns the length of the list.
static size_t insert_edge(int64_t *edges, size_t count, int64_t edge)
{
    size_t at = count;

    for (size_t n = 0; n < count; n++)
        if (edges[n] == edge)
            return count;
    for (; at > 0 && edges[at - 1] > edge; at--)
        edges[at] = edges[at - 1];
    edges[at] = edge;
    return count + 1;
}

static bool covers(const struct stab_rows *rows, size_t row, int64_t sector, int64_t time)
{
    return sector >= rows->start[row] && sector < rows->start[row] + rows->length[row] &&
           time >= rows->valid_from[row] && time < rows->valid_to[row];
}

static void check_pieces(const struct stab_piece *pieces, size_t count, const struct stab_queries *queries,
                         const struct stab_rows *rows)
{
    size_t n = 0;

    for (size_t query = 0; query < queries->count; query++) {
        int64_t sector = queries->start[query], end = sector + queries->length[query];

        for (; sector < end; n++) {
            check(n < count && pieces[n].query == (int64_t)query && pieces[n].start == sector && pieces[n].length > 0);
            check(pieces[n].row < 0 || covers(rows, (size_t)pieces[n].row, sector, queries->time[query]));
            sector += pieces[n].length;
        }
        check(sector == end);
    }
    check(n == count);
}

API int fuzz_intervals(const uint8_t *data, size_t size)
{
    static const int64_t starts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, (int64_t)1 << 62};
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 9, 0, 16}, spans[] = {NO_INT64, 0, 1, 2, 3, 4, 5, INT64_MAX};
    static const int64_t times_of_queries[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct input input = input_of(data, size);
    struct rows all = rows_of(&input, 3), *rows = &all;
    int64_t *order = allocate(rows->count * sizeof(*order)), *edges = allocate(2 * rows->count * sizeof(*edges));
    int64_t *length = CHOSEN(int64_t, rows, 0, 4, lengths), *asked = allocate(rows->count * sizeof(*asked));
    struct stab_rows in = {
        .count = rows->count,
        .start = CHOSEN(int64_t, rows, 0, 0, starts),
        .length = length,
        .valid_from = CHOSEN(int64_t, rows, 1, 0, spans),
        .valid_to = CHOSEN(int64_t, rows, 1, 3, spans),
        .order = order,
        .edges = edges,
    };
    struct stab_queries queries = {
        .count = rows->count,
        .start = CHOSEN(int64_t, rows, 2, 0, starts),
        .length = asked,
        .time = CHOSEN(int64_t, rows, 2, 4, times_of_queries),
    };
    const void *columns[] = {in.start, length,        in.valid_from, in.valid_to, order,
                             edges,    queries.start, asked,         queries.time};
    struct stab_piece *pieces;
    size_t nr_pieces, nr_ordered = 0;

    for (size_t row = 0; row < rows->count; row++) {
        asked[row] = length[row] ? length[row] : 7;
        in.nr_edges = insert_edge(edges, in.nr_edges, in.start[row]);
        in.nr_edges = insert_edge(edges, in.nr_edges, in.start[row] + length[row]);
    }
    for (size_t n = 0; n < sizeof(spans) / sizeof(*spans); n++)
        for (size_t row = 0; row < rows->count; row++)
            if (in.valid_from[row] == spans[n])
                order[nr_ordered++] = (int64_t)row;
    pieces = stab_find(&queries, &in, &nr_pieces);
    check(pieces != NULL);
    check_pieces(pieces, nr_pieces, &queries, &in);
    stab_free(pieces);
    free_all(columns, sizeof(columns) / sizeof(*columns));
    return 0;
}
