// Columns that fuzzers make of the bytes of an input.
#pragma once

#include "fuzz.h"

// Rows of an input, of `width` bytes each.
struct rows {
    const uint8_t *at;
    size_t count;
    size_t width;
};

static inline struct rows rows_of(const struct input *input, size_t width)
{
    return (struct rows){input->data, input->size / width, width};
}

static inline uint8_t byte_of(const struct rows *rows, size_t row, size_t byte)
{
    return rows->at[row * rows->width + byte];
}

// Builds a column in an allocation of its exact size. Some bits of a byte of
// each row select its value from `choices`.
#define CHOSEN(type, rows, byte, shift, choices)                                                                       \
    ({                                                                                                                 \
        type *column_ = allocate((rows)->count * sizeof(*column_));                                                    \
        for (size_t row_ = 0; row_ < (rows)->count; row_++)                                                            \
            column_[row_] =                                                                                            \
                (choices)[(byte_of(rows, row_, byte) >> (shift)) % (sizeof(choices) / sizeof(*(choices)))];            \
        column_;                                                                                                       \
    })

static inline int64_t *times(const struct rows *rows)
{
    int64_t *column = allocate(rows->count * sizeof(*column));
    int64_t now = 0;

    for (size_t row = 0; row < rows->count; row++)
        column[row] = now += byte_of(rows, row, 0) & 7;
    return column;
}
