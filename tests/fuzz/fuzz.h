// What the fuzzers of the compiled decoders share: an input that is cut into pieces, and a decoder that was told what
// Python tells it (driver.py).
//
// Each piece is a block of its own of exactly its size, and gone before the next one comes, as Python's pieces are.
#pragma once

#include "core/table.h"

#include <stdlib.h>
#include <string.h>

// Bytes for a decoder, and the knobs behind them, which choose the cuts and whatever else a loop may do in several
// ways.
struct input {
    const uint8_t *data;
    size_t size;
    uint8_t knobs[4];
    uint64_t random;
    size_t longest;
};

struct input input_of(const uint8_t *data, size_t size);

// A number below `limit`.
size_t input_choose(struct input *input, size_t limit);

// Bytes of the next piece: as few as one, or as many as thousands.
size_t input_cut(struct input *input);

// Zeros, to be freed.
void *allocate(size_t bytes);

// A copy of some bytes, to be freed.
uint8_t *exact(const uint8_t *data, size_t size);

// Ends the process where what must hold does not.
void must(bool holds);

// A function that Python calls with a handle and these arguments before it feeds the decoder.
struct said {
    void (*function)(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    uint64_t arguments[7];
};

enum { MAX_TABLES = 8, MAX_WAYS = 8 };

// What driver.py prepared: tables, by the number that the fuzzer has for them, ways to set a decoder up, and whatever
// else it needs.
struct prepared {
    struct table *tables[MAX_TABLES];
    const struct said *ways[MAX_WAYS];
    size_t nr_said[MAX_WAYS];
    size_t nr_ways;
    const void *more[8];
};

extern struct prepared prepared;

// Tells `handle` all of a way.
void say(void *handle, size_t way);

// Hands a table's rows on: looks at them, and begins a table anew, with strings of its own or the same ones. The
// strings of a table without any are the caller's.
void table_renew(struct table *table);
void table_clear(struct table *table);
