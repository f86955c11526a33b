// Fuzzes blktrace files, fed as in ingest/block/blktrace.py.
#include "fuzz.h"

#include "decode/blktrace/state.h"

API struct blktrace *blktrace_new(struct strings *strings, size_t nr_streams);
API void blktrace_free(struct blktrace *trace);
API const struct blktrace_report *blktrace_report(const struct blktrace *trace);
API void blktrace_feed(struct blktrace *trace, size_t number, const uint8_t *data, size_t size, bool is_last);
API size_t blktrace_used(const struct blktrace *trace, size_t number);
API void blktrace_survey(struct blktrace *trace, size_t number);
API void blktrace_surveyed(struct blktrace *trace, int64_t shift_ns);
API size_t blktrace_merge(struct blktrace *trace, struct table *table);
API size_t blktrace_nr_names(const struct blktrace *trace);
API size_t blktrace_nr_threads(const struct blktrace *trace);
API void blktrace_threads(const struct blktrace *trace, uint32_t *pids, uint32_t *named, int64_t *ts_ns,
                          uint32_t *strings);

enum { MAX_STREAMS = 3 };

// A part of the input as a file, and the chunk of it that the decoder has.
struct file {
    const uint8_t *data;
    size_t size;
    size_t offset;
    size_t piece;
    uint8_t *fed;
    bool is_last;
};

static bool feed(struct blktrace *trace, struct input *input, struct file *files, size_t number)
{
    struct file *file = files + number;
    size_t used, size;

    if (file->is_last)
        return false;
    used = file->fed ? blktrace_used(trace, number) : 0;
    file->piece = used || !file->fed ? input_chunk(input) : 2 * file->piece; // the record is longer than the chunk
    file->offset += used;
    check(file->offset <= file->size);
    size = file->piece < file->size - file->offset ? file->piece : file->size - file->offset;
    free(file->fed);
    file->fed = exact(file->data + file->offset, size);
    file->is_last = file->offset + size >= file->size;
    blktrace_feed(trace, number, file->fed, size, file->is_last);
    return true;
}

static void rewind_file(struct file *file)
{
    free(file->fed);
    file->fed = NULL;
    file->offset = 0;
    file->is_last = false;
}

static void check_threads(const struct blktrace *trace, const struct strings *strings)
{
    size_t nr_names = blktrace_nr_names(trace), nr_threads = blktrace_nr_threads(trace);
    uint32_t *pids = allocate(nr_threads * sizeof(*pids)), *named = allocate(nr_names * sizeof(*named));
    uint32_t *numbers = allocate(nr_names * sizeof(*numbers));
    int64_t *ts_ns = allocate(nr_names * sizeof(*ts_ns));

    blktrace_threads(trace, pids, named, ts_ns, numbers);
    for (size_t n = 0; n < nr_names; n++)
        check(numbers[n] == NO_STRING || numbers[n] < strings_count(strings));
    free(pids);
    free(named);
    free(numbers);
    free(ts_ns);
}

API int fuzz_blktrace(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);
    size_t nr = 1 + input.knobs[0] % MAX_STREAMS, part = input.size / nr;
    struct table *table = prepared.tables[0];
    struct blktrace *trace;
    struct file files[MAX_STREAMS] = {0};

    table_renew(table);
    trace = blktrace_new(table->strings, nr);
    for (size_t n = 0; n < nr; n++) {
        files[n].data = input.data + n * part;
        files[n].size = n + 1 < nr ? part : input.size - n * part;
        while (feed(trace, &input, files, n))
            blktrace_survey(trace, n);
        rewind_file(files + n);
    }
    blktrace_surveyed(trace, (int64_t)input.knobs[1] - 128);
    for (size_t number = nr + 1; number != nr;) {
        number = blktrace_merge(trace, table);
        if (number < nr)
            feed(trace, &input, files, number);
        else
            table_clear(table);
    }
    check_threads(trace, table->strings);
    for (size_t n = 0; n < nr; n++)
        rewind_file(files + n);
    blktrace_free(trace);
    return 0;
}
