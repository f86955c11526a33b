// Functions shared by the fuzzers of the compiled decoders. They split the input into chunks and set each decoder up
// with the calls that Python makes (driver.py).
//
// As with Python's chunks, each chunk is allocated at its exact size and freed before the next one.
#pragma once

#include "core/table.h"

#include <stdlib.h>
#include <string.h>

// The bytes for a decoder. The last bytes of the input are knobs: they select the sizes of the chunks and other
// variations of the fuzzer.
struct input {
    const uint8_t *data;
    size_t size;
    uint8_t knobs[4];
    uint64_t random;
    size_t longest;
};

struct input input_of(const uint8_t *data, size_t size);

// Returns a pseudorandom number below `limit`.
size_t input_choose(struct input *input, size_t limit);

// Returns the size of the next chunk, from one byte to thousands.
size_t input_chunk(struct input *input);

// Returns zeroed memory, to be freed.
void *allocate(size_t bytes);

// Returns a copy of exactly `size` bytes, to be freed.
uint8_t *exact(const uint8_t *data, size_t size);

// Aborts the process if the condition does not hold.
void check(bool holds);

// A call that Python makes with a handle and these arguments before it feeds the decoder.
struct setup_call {
    void (*function)(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    uint64_t arguments[7];
};

enum { MAX_TABLES = 8, MAX_SETUPS = 8 };

// Data from driver.py: tables, by the fuzzer's index of each, alternative sequences of setup calls, and further
// addresses.
struct prepared {
    struct table *tables[MAX_TABLES];
    const struct setup_call *setups[MAX_SETUPS];
    size_t nr_setup_calls[MAX_SETUPS];
    size_t nr_setups;
    const void *extra[8];
};

extern struct prepared prepared;

// Makes all setup calls of a sequence on `handle`.
void set_up(void *handle, size_t setup);

// Checks and drains a table; table_renew also gives it new strings. If `strings` is NULL, they belong to the caller and
// are not checked.
void table_renew(struct table *table);
void table_clear(struct table *table);
