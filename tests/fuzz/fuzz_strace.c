// Fuzzes logs of strace, fed as in ingest/syscalls/strace.py.
#include "fuzz.h"

#include "decode/strace/strace.h"

API struct strace *strace_new(int32_t tid, int64_t order, struct strings *notes);
API void strace_free(struct strace *strace);
API size_t strace_decode(struct strace *strace, const uint8_t *data, size_t length, bool is_last, struct table *table);
API bool strace_finish(struct strace *strace, struct table *table);
API uint64_t strace_note_count(const struct strace *strace, size_t note);
API size_t strace_pending(const struct strace *strace, size_t capacity, int64_t *rows);
API size_t strace_tasks(const struct strace *strace, size_t capacity, int32_t *tids, int32_t *parents, uint8_t *kinds,
                        uint32_t *comms);

enum { ROWS_OF_A_LINE = 4, LINE_BYTES = 1 << 14, STRINGS_BYTES = 1000 };

static void flush(struct strace *strace, struct table *table)
{
    size_t count = strace_pending(strace, 0, NULL);
    int64_t *pending = allocate(count * sizeof(*pending));

    strace_pending(strace, count, pending);
    for (size_t n = 0; table->rows && n < count; n++)
        check(pending[n] >= 0 && (size_t)pending[n] < table->rows);
    free(pending);
    if (strings_bytes(table->strings) > STRINGS_BYTES)
        table_renew(table);
    else
        table_clear(table);
}

static void check_tasks(const struct strace *strace, const struct strings *notes)
{
    size_t count = strace_tasks(strace, 0, NULL, NULL, NULL, NULL);
    int32_t *tids = allocate(count * sizeof(*tids)), *parents = allocate(count * sizeof(*parents));
    uint8_t *kinds = allocate(count * sizeof(*kinds));
    uint32_t *comms = allocate(count * sizeof(*comms));

    strace_tasks(strace, count, tids, parents, kinds, comms);
    for (size_t n = 0; n < count; n++)
        check(comms[n] == NO_STRING || comms[n] < strings_count(notes));
    for (size_t n = 0; n < strings_count(notes); n++)
        strace_note_count(strace, n);
    free(tids);
    free(parents);
    free(kinds);
    free(comms);
}

API int fuzz_strace(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    struct strings *notes = strings_new();
    struct table *table = prepared.tables[0];
    struct strace *strace = strace_new(input.knobs[0] & 1 ? 5 : NO_INT32, input.knobs[1], notes);
    size_t piece_bytes = input_chunk(&input);

    table_renew(table);
    for (size_t offset = 0, wanted = piece_bytes; offset < input.size;) {
        size_t length = wanted < input.size - offset ? wanted : input.size - offset;
        bool is_last = offset + length >= input.size;
        size_t done = 0;

        for (;;) { // Python passes the rest of the chunk again
            uint8_t *rest = exact(input.data + offset + done, length - done);

            done += strace_decode(strace, rest, length - done, is_last, table);
            free(rest);
            check(done <= length);
            if (done == length || table->capacity - table->rows >= ROWS_OF_A_LINE)
                break;
            flush(strace, table);
        }
        offset += done;
        wanted = done ? piece_bytes : 2 * length;
        if (!done && length >= LINE_BYTES) {
            const uint8_t *end = memchr(input.data + offset, '\n', input.size - offset);

            offset = end ? (size_t)(end + 1 - input.data) : input.size;
            wanted = piece_bytes;
        }
    }
    while (!strace_finish(strace, table))
        flush(strace, table);
    flush(strace, table);
    check_tasks(strace, notes);
    strace_free(strace);
    strings_free(notes);
    return 0;
}
