// Fuzzes pages of the kernel's ring buffer, fed as in ingest/ftrace/binary.py: one run for names and counts, one for
// rows.
#include "fuzz.h"

#include "decode/ftrace/state.h"

struct ftrace;
struct pairs;

API struct ftrace *ftrace_new(size_t nr_streams, const struct field *kind, const struct field *tid, const void *clock);
API void ftrace_free(struct ftrace *ftrace);
API void ftrace_stream(struct ftrace *ftrace, size_t number, const struct layout *layout, int32_t cpu);
API void ftrace_code(struct ftrace *ftrace, const struct program *programs, const struct code *code);
API void ftrace_census(struct ftrace *ftrace, void *task_events, struct strings *names);
API bool ftrace_versions(struct ftrace *ftrace, const void *versions);
API void ftrace_feed(struct ftrace *ftrace, size_t number, const uint8_t *data, size_t size);
API const struct page_totals *ftrace_totals(const struct ftrace *ftrace);
API int64_t ftrace_run(struct ftrace *ftrace);
API size_t ftrace_records(const struct layout *layout, const uint8_t *data, size_t size, uint64_t *starts,
                          uint64_t *sizes, uint64_t *times, size_t capacity, struct page_totals *totals);

enum { DONE = -1, FULL = -2, MAX_STREAMS = 3, TASK_EVENT_BYTES = 56, CAPACITY = 16, CENSUS = 0, ROWS = 1 };
enum { PROGRAMS, CODE, VERSIONS };

struct task_events {
    void *rows;
    uint64_t count;
    uint64_t capacity;
};

struct clock {
    uint32_t multiplier;
    uint32_t shift;
    int64_t offset_ns;
};

// A part of the input as the pages of a CPU, and the pages that the decoder has.
struct cpu {
    const uint8_t *data;
    size_t size;
    uint8_t *fed;
};

struct run {
    struct input input;
    struct layout layout;
    struct cpu cpus[MAX_STREAMS];
    size_t nr_cpus;
    struct ftrace *ftrace;
};

static void feed(struct run *run, size_t number)
{
    struct cpu *cpu = run->cpus + number;
    size_t bytes = run->layout.page_bytes, size = bytes * (1 + input_choose(&run->input, 3));
    size_t given = size < cpu->size ? size : cpu->size, padded = (given + bytes - 1) / bytes * bytes;

    free(cpu->fed);
    cpu->fed = allocate(padded);
    if (given)
        memcpy(cpu->fed, cpu->data, given);
    cpu->data += given;
    cpu->size -= given;
    ftrace_feed(run->ftrace, number, cpu->fed, padded);
}

static void begin(struct run *run, struct input input)
{
    static const uint32_t pages[] = {512, 1024, 4096, 512};
    static const struct field kind = {0, 2, 0, LOCATION_INLINE, 1, 0}, tid = {4, 4, 0, LOCATION_INLINE, 1, 0};
    uint8_t knob = input.knobs[1];
    uint32_t commit = knob & 8 ? 4 : 8;
    struct clock clock = {input.knobs[2] & 1 ? input.knobs[2] : 0, input.knobs[2] >> 2, 0};
    size_t part;

    *run = (struct run){.input = input, .nr_cpus = 1 + input.knobs[0] % MAX_STREAMS};
    run->layout = (struct layout){pages[knob & 3], 8, commit, 8 + commit, knob >> 2 & 1};
    run->ftrace = ftrace_new(run->nr_cpus, &kind, &tid, &clock);
    part = input.size / run->nr_cpus;
    for (size_t n = 0; n < run->nr_cpus; n++) {
        run->cpus[n].data = input.data + n * part;
        run->cpus[n].size = n + 1 < run->nr_cpus ? part : input.size - n * part;
        ftrace_stream(run->ftrace, n, &run->layout, (int32_t)n);
    }
}

static void end(struct run *run)
{
    for (size_t n = 0; n < run->nr_cpus; n++)
        free(run->cpus[n].fed);
    ftrace_free(run->ftrace);
}

static void census(struct input input)
{
    struct strings *names = strings_new();
    struct code code = {0};
    uint8_t *rows = allocate(CAPACITY * TASK_EVENT_BYTES);
    struct task_events events = {rows, 0, CAPACITY};
    size_t pages[MAX_STREAMS];
    struct run run;

    begin(&run, input);
    for (size_t n = 0; n < run.nr_cpus; n++)
        pages[n] = (run.cpus[n].size + run.layout.page_bytes - 1) / run.layout.page_bytes;
    ftrace_code(run.ftrace, prepared.extra[PROGRAMS], &code);
    set_up(run.ftrace, CENSUS);
    ftrace_census(run.ftrace, &events, names);
    for (int64_t number; (number = ftrace_run(run.ftrace)) != DONE;) {
        if (number == FULL)
            events.count = 0;
        else
            feed(&run, (size_t)number);
    }
    for (size_t n = 0; n < run.nr_cpus; n++)
        check(ftrace_totals(run.ftrace)[n].broken <= pages[n]);
    end(&run);
    strings_free(names);
    free(rows);
}

static void rows(struct input input)
{
    const struct code *code = prepared.extra[CODE];
    struct run run;

    begin(&run, input);
    set_up(run.ftrace, ROWS);
    ftrace_versions(run.ftrace, prepared.extra[VERSIONS]);
    ftrace_code(run.ftrace, prepared.extra[PROGRAMS + 3], code);
    for (int64_t number; (number = ftrace_run(run.ftrace)) != DONE;) {
        if (number != FULL)
            feed(&run, (size_t)number);
        for (size_t n = 0; number == FULL && n < NR_TABLES; n++) {
            if (code->targets[n].table)
                table_clear(code->targets[n].table);
        }
    }
    for (size_t n = 0; n < NR_TABLES; n++) {
        if (code->targets[n].table)
            table_clear(code->targets[n].table);
    }
    end(&run);
}

// Reads the records of one page, as ftrace/raw.py does at the start of a file.
static void records(struct input input)
{
    size_t size = input.size / 8 * 8, most = size / 4;
    struct layout layout = {(uint32_t)size, 8, 8, 16, input.knobs[3] & 1};
    struct page_totals totals = {0};
    uint64_t *columns = allocate(3 * most * sizeof(*columns));
    uint8_t *page = exact(input.data, size);

    if (size >= 512)
        ftrace_records(&layout, page, size, columns, columns + most, columns + 2 * most, most, &totals);
    check(totals.broken <= 1);
    free(columns);
    free(page);
}

API int fuzz_ftrace_pages(const uint8_t *data, size_t size)
{
    struct input input = input_of(data, size);

    census(input);
    rows(input);
    records(input);
    return 0;
}
