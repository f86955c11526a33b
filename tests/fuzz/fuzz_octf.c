// Fuzzes queues of Open-CAS, fed as in ingest/block/opencas.py.
#include "fuzz.h"

struct octf;

API struct octf *octf_new(bool has_unknown);
API void octf_free(struct octf *octf);
API size_t octf_names(struct octf *octf, const uint8_t *data, size_t length);
API size_t octf_decode(struct octf *octf, const uint8_t *data, size_t length, int32_t cpu, struct table *table);

enum { MESSAGE_BYTES = 1 << 10 };

static size_t decode_piece(struct octf *octf, const uint8_t *data, size_t size, int32_t cpu, struct table *table)
{
    const uint8_t *is_full = (const uint8_t *)octf + (size_t)prepared.extra[0];
    size_t done = 0;

    do {
        uint8_t *rest = exact(data + done, size - done);

        if (*is_full)
            table_clear(table);
        done += octf_decode(octf, rest, size - done, cpu, table);
        check(done <= size);
        free(rest);
    } while (*is_full);
    return done;
}

static void read_queue(struct octf *octf, struct input *input, const uint8_t *data, size_t size, int32_t cpu,
                       struct table *table)
{
    size_t piece_bytes = MESSAGE_BYTES + input_chunk(input);

    for (size_t offset = 0; offset < size;) {
        size_t length = piece_bytes < size - offset ? piece_bytes : size - offset;
        uint8_t *piece = exact(data + offset, length);
        size_t done = table ? decode_piece(octf, piece, length, cpu, table) : octf_names(octf, piece, length);

        check(done <= length);
        free(piece);
        offset += done;
        if (length - done > MESSAGE_BYTES || offset + length - done >= size)
            break;
        if (!done) // the message is longer than the limit or the rest of the queue
            break;
    }
}

API int fuzz_octf(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct octf *octf = octf_new(input.knobs[0] & 1);
    size_t first = input.knobs[0] & 2 ? input.size / 2 : input.size;

    table_renew(prepared.tables[0]);
    read_queue(octf, &input, input.data, first, 0, NULL);
    read_queue(octf, &input, input.data + first, input.size - first, 1, NULL);
    read_queue(octf, &input, input.data, first, 0, prepared.tables[0]);
    read_queue(octf, &input, input.data + first, input.size - first, 1, prepared.tables[0]);
    table_clear(prepared.tables[0]);
    octf_free(octf);
    return 0;
}
