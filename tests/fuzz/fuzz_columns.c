// Fuzzes functions on columns from Python: the linker of requests, the cleaner
// of calls and the dependencies of a replay. Bytes of the input select among
// values that such columns can have.
#include "columns.h"

#include "calls/calls.h"
#include "calls/dependencies.h"
#include "calls/input.h"
#include "calls/output.h"
#include "link/requests.h"

static const int64_t sector_values[] = {
    0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, INT64_MAX, NO_INT64, (int64_t)1 << 62, -8, 128};

// --- the linker
// -----------------------------------------------------------------------------------------------------

static const char *const words[] = {"W", "FWS", "R", "a name of more than twelve", "", "WS"};

enum { NR_WORDS = sizeof(words) / sizeof(*words), NR_MEANINGS = 5 };

// Builds texts, some of them null, selected by a byte of each row. The arrays
// begin at row `offset`.
static struct texts words_of(const struct rows *rows, size_t byte, size_t offset)
{
    struct text_view *views = allocate((rows->count + offset) * sizeof(*views));
    uint8_t *present = allocate((rows->count + offset + 7) / 8);
    const uint8_t **buffers = allocate(sizeof(*buffers));

    buffers[0] = (const uint8_t *)words[3];
    for (size_t row = 0; row < rows->count; row++) {
        size_t number = byte_of(rows, row, byte) % (NR_WORDS + 1);
        struct text_view *view = &views[row + offset];

        if (number == NR_WORDS)
            continue;
        present[(row + offset) / 8] |= (uint8_t)(1 << (row + offset) % 8);
        view->length = (int32_t)strlen(words[number]);
        if ((size_t)view->length <= sizeof(view->bytes))
            memcpy(view->bytes, words[number], (size_t)view->length);
    }
    return (struct texts){views, buffers, present, offset};
}

static void words_free(const struct texts *texts)
{
    free((void *)texts->views);
    free((void *)texts->buffers);
    free((void *)texts->present);
}

static void link_rows(struct linker *linker, const struct block_events *events, struct linked *linked)
{
    for (size_t done = 0; done < events->rows;) {
        int64_t linked_to = linker_link(linker, events, done, linked);

        check(linked_to >= (int64_t)done && (size_t)linked_to <= events->rows);
        done = (size_t)linked_to;
        check(done == events->rows || linked->requests->rows || linked->bios->rows);
        table_clear(linked->requests);
        table_clear(linked->bios);
    }
}

API int fuzz_linker(const uint8_t *data, size_t size)
{
    static const uint32_t devices[] = {8 << 20, 8 << 20 | 1, 253 << 20, 0};
    static const uint8_t flags[NR_MEANINGS] = {0, 2, 9, 1, 3};
    static const int32_t threads[] = {1, 2, 3, NO_INT32};
    static const uint8_t actions[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct input input = input_of(data, size);
    struct linked linked = {prepared.tables[0], prepared.tables[1]};
    struct strings *strings = linked.requests->strings = linked.bios->strings = strings_new();
    struct linker *linker = linker_new(strings);
    struct rows all = rows_of(&input, 8);

    for (size_t n = 0; n < 3; n++)
        linker_device(linker, devices[n], input.knobs[n] & 63);
    if (input.knobs[3] & 1)
        linker_partition(linker, devices[1], devices[0], 16, 64);
    for (uint8_t n = 0; n < NR_MEANINGS; n++)
        check(linker_meaning(linker, (const uint8_t *)words[n], strlen(words[n]), n % NR_OPERATIONS, flags[n]));
    while (all.count) {
        size_t count = input_chunk(&input);
        struct rows rows = {all.at, count < all.count ? count : all.count, all.width};
        int64_t *ts_ns = times(&rows), *sector = CHOSEN(int64_t, &rows, 4, 0, sector_values);
        int64_t *nr_sectors = CHOSEN(int64_t, &rows, 5, 0, sector_values),
                *old = CHOSEN(int64_t, &rows, 4, 4, sector_values);
        int32_t *tid = CHOSEN(int32_t, &rows, 1, 0, threads), *error = CHOSEN(int32_t, &rows, 7, 0, threads);
        struct texts comm = words_of(&rows, 1, 3), rwbs = words_of(&rows, 6, 0);
        uint32_t *dev = CHOSEN(uint32_t, &rows, 3, 0, devices), *old_dev = CHOSEN(uint32_t, &rows, 3, 2, devices);
        uint8_t *action = CHOSEN(uint8_t, &rows, 2, 0, actions);
        struct block_events events = {rows.count, ts_ns,      tid,  tid,   tid,     comm, action, dev,
                                      sector,     nr_sectors, rwbs, error, old_dev, old,  action, comm};

        link_rows(linker, &events, &linked);
        free(ts_ns);
        free(sector);
        free(nr_sectors);
        free(old);
        free(tid);
        free(error);
        words_free(&comm);
        words_free(&rwbs);
        free(dev);
        free(old_dev);
        free(action);
        all.at += rows.count * rows.width;
        all.count -= rows.count;
    }
    while (linker_finish(linker, &linked)) {
        check(linked.requests->rows || linked.bios->rows);
        table_clear(linked.requests);
        table_clear(linked.bios);
    }
    table_clear(linked.requests);
    table_clear(linked.bios);
    linked.requests->strings = linked.bios->strings = NULL;
    linker_free(linker);
    strings_free(strings);
    return 0;
}

// --- paths
// ----------------------------------------------------------------------------------------------------------

static const char *const paths[] = {"/",        "/a",        "/a/b",         "/a/b/c",     "a",
                                    "b",        "a/b",       "..",           ".",          "../a",
                                    "",         "//a//b/",   "/a/../b",      "socket:[1]", "/a (deleted)",
                                    "pipe:[2]", "/dev/null", "/proc/1/fd/3", "/dev/shm/x", "/a/./b/../../c"};

enum { NR_PATHS = sizeof(paths) / sizeof(*paths) };

struct paths {
    uint8_t *letters;
    int64_t starts[NR_PATHS + 1];
};

static struct paths paths_made(void)
{
    struct paths made = {.letters = NULL};
    size_t length = 0;

    for (size_t n = 0; n < NR_PATHS; n++) {
        made.starts[n] = (int64_t)length;
        length += strlen(paths[n]);
    }
    made.starts[NR_PATHS] = (int64_t)length;
    made.letters = allocate(length);
    for (size_t n = 0; n < NR_PATHS; n++)
        memcpy(made.letters + made.starts[n], paths[n], strlen(paths[n]));
    return made;
}

// --- the cleaner of calls
// -------------------------------------------------------------------------------------------

enum { NUMBERS, NR_NUMBERS, FLAGS };

static uint8_t *calls_of(const struct rows *rows)
{
    const uint8_t *numbers = prepared.extra[NUMBERS];
    size_t count = (size_t)prepared.extra[NR_NUMBERS];
    uint8_t *column = allocate(rows->count);

    for (size_t row = 0; row < rows->count; row++)
        column[row] = numbers[(byte_of(rows, row, 2) | (byte_of(rows, row, 3) & 1) << 8) % count];
    return column;
}

static uint32_t *paths_of(const struct rows *rows, size_t byte)
{
    uint32_t *column = allocate(rows->count * sizeof(*column));

    for (size_t row = 0; row < rows->count; row++)
        column[row] = byte_of(rows, row, byte) < NR_PATHS * 6 ? byte_of(rows, row, byte) % NR_PATHS : NO_STRING;
    return column;
}

API int fuzz_calls(const uint8_t *data, size_t size)
{
    static const int64_t sizes[] = {0, 1, 100, 4096, 1 << 20, INT64_MAX, -1, -2, -22, 3, 4, 5, 7, 9, NO_INT64, 6};
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, -100, -1, 1023, 1 << 30, NO_INT32, 8, 9, 10};
    static const int32_t tids[] = {1, 2, 3, 4}, tgids[] = {1, 1, 3, NO_INT32}, kept[] = {1, 3};
    static const uint8_t states[] = {0, 0, 0, 1}, failures[] = {0, 0, 0, 0, 0, 1, NO_CODE, 0};
    static const uint8_t kinds[] = {NO_CODE, 0, 1, 2, 3, 4, 5, 6, 7, 8, NO_CODE, 0, NO_CODE, 0, NO_CODE, NO_CODE};
    static const uint32_t devices[] = {8 << 20, 253 << 20, 0, NO_UINT32};
    struct input input = input_of(data, size);
    struct rows all = rows_of(&input, 16), *rows = &all;
    const int64_t *some_flags = prepared.extra[FLAGS];
    struct paths texts = paths_made();
    struct strings *strings = strings_new();
    uint8_t *reasons = allocate(rows->count);
    int64_t *flags = allocate(rows->count * sizeof(*flags));
    struct calls_counts counts;
    struct calls_input in = {
        .rows = rows->count,
        .ts_ns = times(rows),
        .duration_ns = CHOSEN(int64_t, rows, 0, 4, sizes),
        .tid = CHOSEN(int32_t, rows, 1, 0, tids),
        .pid = CHOSEN(int32_t, rows, 1, 0, tgids),
        .call = calls_of(rows),
        .state = CHOSEN(uint8_t, rows, 1, 2, states),
        .fd_kind = CHOSEN(uint8_t, rows, 1, 4, kinds),
        .failed = CHOSEN(uint8_t, rows, 3, 1, failures),
        .fd = CHOSEN(int32_t, rows, 4, 0, numbers),
        .fd2 = CHOSEN(int32_t, rows, 4, 4, numbers),
        .request = CHOSEN(int32_t, rows, 5, 0, numbers),
        .mode = CHOSEN(int32_t, rows, 5, 4, numbers),
        .path = paths_of(rows, 6),
        .path2 = paths_of(rows, 7),
        .fd_path = paths_of(rows, 8),
        .fd2_path = paths_of(rows, 9),
        .result_path = paths_of(rows, 10),
        .dev = CHOSEN(uint32_t, rows, 11, 0, devices),
        .flags = flags,
        .offset = CHOSEN(int64_t, rows, 12, 0, sizes),
        .offset2 = CHOSEN(int64_t, rows, 12, 4, sizes),
        .bytes = CHOSEN(int64_t, rows, 13, 0, sizes),
        .address = CHOSEN(int64_t, rows, 13, 4, sizes),
        .ino = CHOSEN(int64_t, rows, 14, 0, sizes),
        .size = CHOSEN(int64_t, rows, 14, 4, sizes),
        .result = CHOSEN(int64_t, rows, 15, 0, sizes),
        .text = texts.letters,
        .text_starts = texts.starts,
        .nr_texts = NR_PATHS,
        .page_bytes = UINT64_C(4096) << (input.knobs[1] >> 1) % 5,
    };
    const void *columns[] = {in.ts_ns,   in.duration_ns, in.tid,         in.pid,     in.call,  in.state,  in.fd_kind,
                             in.failed,  in.fd,          in.fd2,         in.request, in.mode,  in.path,   in.path2,
                             in.fd_path, in.fd2_path,    in.result_path, in.dev,     in.flags, in.offset, in.offset2,
                             in.bytes,   in.address,     in.ino,         in.size,    in.result};
    struct calls *calls;

    for (size_t row = 0; row < rows->count; row++)
        flags[row] = some_flags[byte_of(rows, row, 11) >> 4];
    calls = calls_clean(&in, strings, reasons, kept, input.knobs[0] % 3, input.knobs[1] & 1);
    calls_count(calls, &counts);
    // The capacity of the tables is that of the calls: the rows that the cleaner
    // counted must fit.
    for (size_t n = 0; n < 3; n++) {
        strings_free(prepared.tables[n]->strings);
        prepared.tables[n]->strings = strings;
    }
    if (counts.operations <= prepared.tables[0]->capacity && counts.files <= prepared.tables[1]->capacity &&
        counts.threads <= prepared.tables[2]->capacity) {
        size_t before[] = {counts.operations, counts.files, counts.threads};

        check(calls_tables(calls, prepared.tables[0], prepared.tables[1], prepared.tables[2]));
        for (size_t n = 0; n < 3; n++)
            check(prepared.tables[n]->rows <= before[n]);
    }
    for (size_t n = 0; n < 3; n++) {
        table_clear(prepared.tables[n]);
        prepared.tables[n]->strings = strings_new();
    }
    calls_free(calls);
    strings_free(strings);
    for (size_t n = 0; n < sizeof(columns) / sizeof(*columns); n++)
        free((void *)columns[n]);
    free(reasons);
    free(texts.letters);
    return 0;
}

// --- the orders of a replay
// -----------------------------------------------------------------------------------------

API int fuzz_dependencies(const uint8_t *data, size_t size)
{
    enum { THREADS = 3 };
    static const uint32_t threads[] = {0, 1, 2};
    static const int32_t numbers[] = {-1, 0, 1, 2, 3, 4, 5, 6};
    struct input input = input_of(data, size);
    struct rows all = rows_of(&input, 8), *rows = &all;
    struct paths texts = paths_made();
    uint32_t *thread = CHOSEN(uint32_t, rows, 1, 0, threads), *does = allocate(rows->count * sizeof(*does));
    int32_t *path = allocate(rows->count * sizeof(*path)), *path2 = allocate(rows->count * sizeof(*path2));
    int32_t *descriptor = CHOSEN(int32_t, rows, 4, 0, numbers), *descriptor2 = CHOSEN(int32_t, rows, 4, 4, numbers);
    int32_t *file = CHOSEN(int32_t, rows, 5, 0, numbers), *file2 = CHOSEN(int32_t, rows, 5, 4, numbers);
    int64_t *begin = times(rows), *end = allocate(rows->count * sizeof(*end)), next[THREADS];
    struct operations in = {rows->count, begin, end,   thread,  does,     descriptor,    descriptor2, file,
                            file2,       path,  path2, THREADS, NR_PATHS, texts.letters, texts.starts};
    struct dependencies *found;
    int64_t *operation, *after;
    size_t count;

    for (size_t n = 0; n < THREADS; n++)
        next[n] = INT64_MAX;
    for (size_t row = rows->count; row-- > 0;) {
        does[row] = (byte_of(rows, row, 2) | (uint32_t)byte_of(rows, row, 3) << 8 |
                     (uint32_t)(byte_of(rows, row, 1) >> 6) << 16);
        path[row] = byte_of(rows, row, 6) % (NR_PATHS + 1) - 1;
        path2[row] = byte_of(rows, row, 7) % (NR_PATHS + 1) - 1;
        end[row] = begin[row] + (byte_of(rows, row, 0) >> 3);
        if (end[row] > next[thread[row]])
            end[row] = next[thread[row]];
        next[thread[row]] = begin[row];
    }
    found = dependencies_new(&in);
    count = dependencies_count(found);
    operation = allocate(count * sizeof(*operation));
    after = allocate(count * sizeof(*after));
    dependencies_copy(found, operation, after);
    for (size_t n = 0; n < count; n++)
        check(after[n] >= 0 && after[n] < operation[n] && operation[n] < (int64_t)rows->count);
    dependencies_free(found);
    free(operation);
    free(after);
    free(thread);
    free(does);
    free(path);
    free(path2);
    free(descriptor);
    free(descriptor2);
    free(file);
    free(file2);
    free(begin);
    free(end);
    free(texts.letters);
    return 0;
}
