// Columns of a table as Arrow keeps them: values beside a bitmap of those that are there.
#include <string.h>

#include "core/table.h"

// One bit for each row, from the least significant on. `is` is an expression of `row`.
#define BITS(bits, rows, is)                                                                                           \
    for (size_t first = 0; first < (rows); first += 8) {                                                               \
        const size_t end = (rows) - first < 8 ? (rows) : first + 8;                                                    \
        unsigned int byte = 0;                                                                                         \
        for (size_t row = first; row < end; row++)                                                                     \
            byte |= (unsigned int)(is) << (row - first);                                                               \
        (bits)[first / 8] = (uint8_t)byte;                                                                             \
    }

static size_t count_64(const int64_t *values, size_t rows)
{
    size_t count = 0;
    for (size_t row = 0; row < rows; row++)
        count += values[row] != NO_INT64;
    return count;
}

static size_t count_32(const uint32_t *values, size_t rows, uint32_t none)
{
    size_t count = 0;
    for (size_t row = 0; row < rows; row++)
        count += values[row] != none;
    return count;
}

static size_t count_8(const uint8_t *values, size_t rows)
{
    size_t count = 0;
    for (size_t row = 0; row < rows; row++)
        count += values[row] != NO_CODE;
    return count;
}

static uint32_t none_32(uint8_t kind)
{
    return kind == KIND_INT32 ? (uint32_t)NO_INT32 : UINT32_MAX;
}

// How many rows have a value in this column.
API size_t table_present(const struct table *table, size_t column);

size_t table_present(const struct table *table, size_t column)
{
    const void *values = table->values[column];
    switch (table->kinds[column]) {
    case KIND_INT64:
        return count_64(values, table->rows);
    case KIND_BOOL:
    case KIND_CODE:
        return count_8(values, table->rows);
    default:
        return count_32(values, table->rows, none_32(table->kinds[column]));
    }
}

// Copies a column: numbers as they are, codes as int32_t, bool as bits; `present` has a bit for each row with a value.
// Where strings and codes have none it is 0, so that whoever looks up all numbers finds something.
API void table_copy(const struct table *table, size_t column, void *to, uint8_t *present);

void table_copy(const struct table *table, size_t column, void *to, uint8_t *present)
{
    const size_t rows = table->rows;
    const uint8_t kind = table->kinds[column];
    if (kind == KIND_INT64) {
        const int64_t *values = table->values[column];
        memcpy(to, values, rows * sizeof *values);
        BITS(present, rows, values[row] != NO_INT64)
    } else if (kind == KIND_BOOL) {
        const uint8_t *values = table->values[column];
        uint8_t *bits = to;
        BITS(bits, rows, values[row] == 1)
        BITS(present, rows, values[row] != NO_CODE)
    } else if (kind == KIND_CODE) {
        const uint8_t *values = table->values[column];
        int32_t *numbers = to;
        for (size_t row = 0; row < rows; row++)
            numbers[row] = values[row] == NO_CODE ? 0 : values[row];
        BITS(present, rows, values[row] != NO_CODE)
    } else if (kind == KIND_STRING) {
        const uint32_t *values = table->values[column];
        uint32_t *numbers = to;
        for (size_t row = 0; row < rows; row++)
            numbers[row] = values[row] == NO_STRING ? 0 : values[row];
        BITS(present, rows, values[row] != NO_STRING)
    } else {
        const uint32_t *values = table->values[column];
        const uint32_t none = none_32(kind);
        memcpy(to, values, rows * sizeof *values);
        BITS(present, rows, values[row] != none)
    }
}
