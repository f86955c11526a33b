// Fuzzes Perfetto traces, fed as in ingest/perfetto/decoder.py.
#include "fuzz.h"

#include "decode/perfetto/state.h"

API struct perfetto *perfetto_new(struct strings *strings);
API void perfetto_free(struct perfetto *trace);
API bool perfetto_names(struct perfetto *trace, const struct versions *versions);
API int perfetto_decode(struct perfetto *trace, const uint8_t *data, size_t length, unsigned flags,
                        struct output *output, size_t *used);
API const char *perfetto_counted(const struct perfetto *trace, unsigned number, uint64_t *count);
API const void *perfetto_tasks(struct perfetto *trace, size_t *rows);

enum { IS_FINAL = 1, IS_INNER = 2, NOTES = 16, NO_ACTIONS = 0, ACTIONS = 1 };

static void drain_tables(struct output *output)
{
    for (size_t number = 1; number < NR_TABLES; number++)
        if (output->tables[number])
            table_clear(output->tables[number]);
}

// Decodes a chunk to its end. The data of compressed packets is decoded as if it were not compressed.
static size_t decode_piece(struct perfetto *trace, struct output *output, const uint8_t *piece, size_t size,
                           unsigned flags)
{
    size_t offset = 0, used, rows;
    int status = FULL;

    while (status != DONE) {
        status = perfetto_decode(trace, piece + offset, size - offset, flags, output, &used);
        check(used <= size - offset);
        perfetto_tasks(trace, &rows);
        for (size_t n = 0; n < output->nr_notes; n++) {
            const struct note *note = output->notes + n;

            check(note->offset <= size - offset && note->length <= size - offset - note->offset);
            if (status == COMPRESSED && n + 1 == output->nr_notes && !(flags & IS_INNER)) {
                uint8_t *inner = exact(piece + offset + note->offset, note->length);
                size_t last = output->nr_notes;

                output->nr_notes = 0;
                decode_piece(trace, output, inner, note->length, IS_INNER | IS_FINAL);
                output->nr_notes = last;
                free(inner);
            }
        }
        output->nr_notes = 0;
        offset += used;
        if (status == FULL)
            drain_tables(output);
    }
    return offset;
}

static void decode(struct perfetto *trace, struct input input, struct output *output)
{
    uint8_t *rest = NULL;
    size_t held = 0;

    for (size_t at = 0; at < input.size;) {
        size_t size = input_chunk(&input), done;
        uint8_t *piece;

        size = size < input.size - at ? size : input.size - at;
        piece = allocate(held + size);
        if (held)
            memcpy(piece, rest, held);
        memcpy(piece + held, input.data + at, size);
        free(rest);
        at += size;
        size += held;
        done = decode_piece(trace, output, piece, size, at == input.size ? IS_FINAL : 0);
        held = size - done;
        rest = exact(piece + done, held);
        free(piece);
    }
    free(rest);
}

API int fuzz_perfetto(const uint8_t *data, size_t size)
{
    static const int32_t tids[] = {1, 1, 7, 9}, pids[] = {1, NO_INT32, 7, 8};
    static const int64_t from_ns[] = {0, 50, 0, 0};
    struct input input = input_of(data, size);
    struct strings *strings = strings_new();
    struct note notes[NOTES];
    struct output output = {.notes = notes, .notes_capacity = NOTES};
    struct perfetto *trace = perfetto_new(strings);
    uint32_t names[] = {0, NO_STRING, 1, 0};
    struct versions versions = {tids, from_ns, names, pids, 4};
    uint64_t count;

    set_up(trace, NO_ACTIONS);
    decode(trace, input, &output);
    for (unsigned number = 0; perfetto_counted(trace, number, &count);)
        number++;
    perfetto_free(trace);
    strings_free(strings);

    strings = strings_new();
    trace = perfetto_new(strings);
    set_up(trace, ACTIONS);
    strings_add(strings, (const uint8_t *)"a", 1);
    strings_add(strings, (const uint8_t *)"b", 1);
    perfetto_names(trace, &versions);
    for (size_t number = 1; number < NR_TABLES; number++) {
        struct table *table = prepared.tables[number - 1];

        table_renew(table);
        strings_free(table->strings);
        table->strings = strings;
        output.tables[number] = table;
    }
    decode(trace, input, &output);
    perfetto_free(trace);
    for (size_t number = 1; number < NR_TABLES; number++) {
        table_clear(prepared.tables[number - 1]);
        prepared.tables[number - 1]->strings = strings_new();
    }
    strings_free(strings);
    return 0;
}
