// Inputs, chunks and tables of the fuzzers (fuzz.h).
#include "fuzz.h"

enum { KNOBS = 8, PIECES = 16 };

API struct prepared prepared;

struct input input_of(const uint8_t *data, size_t size)
{
    uint8_t knobs[KNOBS] = {0};
    size_t given = size < KNOBS ? size : KNOBS;
    struct input input;

    if (given)
        memcpy(knobs, data + size - given, given);
    input = (struct input){.data = data, .size = size - given, .longest = (size_t)1 << knobs[7] % 13};
    if (input.longest < input.size / PIECES) // limits the number of chunks of a long input
        input.longest = input.size / PIECES;
    memcpy(input.knobs, knobs, sizeof(input.knobs));
    memcpy(&input.random, knobs, sizeof(input.random));
    return input;
}

size_t input_choose(struct input *input, size_t limit)
{
    // Knuth's linear congruential generator (MMIX).
    input->random = input->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(input->random >> 33) % limit;
}

size_t input_chunk(struct input *input)
{
    return 1 + input_choose(input, input->longest);
}

void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);

    check(memory);
    return memory;
}

uint8_t *exact(const uint8_t *data, size_t size)
{
    uint8_t *copy = allocate(size);

    if (size)
        memcpy(copy, data, size);
    return copy;
}

void check(bool holds)
{
    if (!holds)
        abort();
}

void set_up(void *handle, size_t setup)
{
    const struct setup_call *end = prepared.setups[setup] + prepared.nr_setup_calls[setup];

    for (const struct setup_call *setup_call = prepared.setups[setup]; setup_call < end; setup_call++) {
        const uint64_t *a = setup_call->arguments;

        setup_call->function(handle, a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    }
}

void table_clear(struct table *table)
{
    check(table->rows <= table->nulled && table->nulled <= table->capacity);
    for (size_t column = 0; column < table->nr_columns; column++) {
        const uint32_t *numbers = table->values[column];

        for (size_t row = 0; row < table->rows && table->kinds[column] == KIND_STRING && table->strings; row++)
            check(numbers[row] == NO_STRING || numbers[row] < strings_count(table->strings));
    }
    table->rows = table->nulled = 0;
    table_null(table);
}

void table_renew(struct table *table)
{
    table_clear(table);
    strings_free(table->strings);
    table->strings = strings_new();
}

// Reads past the end of its chunk, for the test that a fuzzer finds such an error.
API int fuzz_broken(const uint8_t *data, size_t size)
{
    uint8_t *piece = exact(data, size);
    const char *wanted = "BAD";
    size_t same = 0;

    while (same < size && wanted[same] && piece[same] == wanted[same])
        same++;
    check(wanted[same] || piece[size] != 1);
    free(piece);
    return 0;
}
