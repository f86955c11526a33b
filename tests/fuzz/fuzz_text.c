// Fuzzes lines of text, fed as in ingest/lines.py.
#include "fuzz.h"

#include "decode/text/lines.h"

struct ftrace_text;
struct blkparse_text;
struct most_po;
struct block_csv;
struct pairs;

API size_t text_read(struct reader *reader, const uint8_t *data, size_t size);
API size_t text_torn(struct reader *reader, uint8_t *first);
API bool text_threads(struct reader *reader);
API void text_tables(struct reader *reader, struct table *block, struct table *fs, struct table *commands,
                     struct table *threads, struct table *calls, struct table *importance, struct table *samples);
API struct ftrace_text *ftrace_text_new(struct strings *names, bool has_fences);
API void ftrace_text_free(struct ftrace_text *trace);
API void ftrace_text_end(struct ftrace_text *trace);
API struct blkparse_text *blkparse_text_new(struct strings *names);
API void blkparse_text_free(struct blkparse_text *trace);
API bool blkparse_text_end(struct blkparse_text *trace);
API struct most_po *most_po_new(struct strings *names, bool has_classes);
API void most_po_free(struct most_po *trace);
API struct block_csv *block_csv_new(struct strings *names, struct strings *hosts, uint8_t separator, uint8_t header,
                                    bool has_more, bool is_0_unknown, int64_t repeat_ns, uint8_t start);
API void block_csv_free(struct block_csv *csv);
API struct pairs *pairs_new(const void *known);
API void pairs_free(struct pairs *pairs);
API bool pairs_narrow(struct pairs *pairs, int32_t pid);
API void pairs_input(struct pairs *pairs, const struct table *events);
API void pairs_output(struct pairs *pairs, struct table *calls);
API size_t pairs_take(struct pairs *pairs, size_t row);
API bool pairs_finish(struct pairs *pairs);

enum { BLOCK, FS, COMMANDS, IMPORTANCE, SAMPLES, THREADS, EVENTS, CALLS, NR_KNOWLEDGE = 4 };

static void take_calls(struct pairs *pairs)
{
    struct table *events = prepared.tables[EVENTS], *calls = prepared.tables[CALLS];

    for (size_t row = 0; (row = pairs_take(pairs, row)) < events->rows;)
        table_clear(calls);
    if (strings_bytes(calls->strings) > 1000) {
        table_renew(calls);
        pairs_output(pairs, calls);
    }
    table_clear(events);
}

// Drains all tables or, with `only_full`, those that are half full, as Reader._hand_on does.
static void hand_on(struct reader *reader, struct pairs *pairs, bool only_full)
{
    struct table **tables = prepared.tables;

    for (size_t number = BLOCK; number <= THREADS; number++) {
        if (tables[number]->rows > (only_full ? tables[number]->capacity / 2 : 0)) {
            if (number == THREADS)
                table_clear(tables[number]);
            else
                table_renew(tables[number]);
        }
    }
    if (pairs)
        take_calls(pairs);
    text_tables(reader, tables[BLOCK], tables[FS], tables[COMMANDS], pairs ? tables[THREADS] : NULL,
                pairs ? tables[EVENTS] : NULL, tables[IMPORTANCE], tables[SAMPLES]);
}

static void read_lines(struct reader *reader, struct input *input, struct pairs *pairs)
{
    hand_on(reader, pairs, false);
    for (size_t at = 0; at < input->size;) {
        size_t size = input_chunk(input);
        size_t done = 0;
        uint8_t *piece;

        size = size < input->size - at ? size : input->size - at;
        piece = exact(input->data + at, size);
        while (done < size) {
            done += text_read(reader, piece + done, size - done);
            check(done <= size);
            hand_on(reader, pairs, done == size);
        }
        free(piece);
        at += size;
    }
}

static void read_end(struct reader *reader, struct pairs *pairs)
{
    uint8_t first[QUOTED];

    text_torn(reader, first);
    hand_on(reader, pairs, false);
    while (pairs && !text_threads(reader))
        hand_on(reader, pairs, false);
    hand_on(reader, pairs, false);
}

API int fuzz_ftrace_text(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct strings *names = strings_new();
    struct ftrace_text *trace = ftrace_text_new(names, input.knobs[0] & 1);
    struct pairs *pairs = pairs_new(prepared.extra[input.knobs[1] % NR_KNOWLEDGE]);

    for (size_t number = 0; number <= CALLS; number++)
        table_renew(prepared.tables[number]);
    if (input.knobs[2] & 1)
        pairs_narrow(pairs, input.knobs[2] >> 1);
    pairs_input(pairs, prepared.tables[EVENTS]);
    pairs_output(pairs, prepared.tables[CALLS]);
    set_up(trace, 0);
    read_lines((struct reader *)trace, &input, pairs);
    ftrace_text_end(trace);
    read_end((struct reader *)trace, pairs);
    while (!pairs_finish(pairs))
        table_clear(prepared.tables[CALLS]);
    pairs_free(pairs);
    ftrace_text_free(trace);
    strings_free(names);
    return 0;
}

API int fuzz_blkparse_text(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct strings *names = strings_new();
    struct blkparse_text *trace = blkparse_text_new(names);

    set_up(trace, 0);
    read_lines((struct reader *)trace, &input, NULL);
    blkparse_text_end(trace);
    read_end((struct reader *)trace, NULL);
    blkparse_text_free(trace);
    strings_free(names);
    return 0;
}

API int fuzz_most_po(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct strings *names = strings_new();
    struct most_po *trace = most_po_new(names, input.knobs[0] & 1);

    set_up(trace, 0);
    read_lines((struct reader *)trace, &input, NULL);
    read_end((struct reader *)trace, NULL);
    most_po_free(trace);
    strings_free(names);
    return 0;
}

API int fuzz_block_csv(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct strings *names = strings_new(), *hosts = strings_new();
    size_t setup = input.knobs[0] % prepared.nr_setups;
    uint8_t separator = *(const uint8_t *)prepared.extra[setup];
    struct block_csv *csv =
        block_csv_new(names, hosts, separator, input.knobs[1] % 3, input.knobs[2] & 1, input.knobs[2] >> 1 & 1,
                      input.knobs[3] & 1 ? 50000000 : 0, input.knobs[3] >> 1 & 1);

    set_up(csv, setup);
    read_lines((struct reader *)csv, &input, NULL);
    read_end((struct reader *)csv, NULL);
    block_csv_free(csv);
    strings_free(names);
    strings_free(hosts);
    return 0;
}
