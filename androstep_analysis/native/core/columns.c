// Fills columns of a table with null values, and copies them into Arrow's layout: values and a validity bitmap.
#include <string.h>

#include "core/table.h"

// Write one bit for each row, least significant first. `is` is an expression of `row`.
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

// So many rows get null values at once: most recordings do not need the whole table, and its pages cost time.
enum { NULLED_ROWS = 1024 };

void table_null(struct table *table)
{
    const size_t first = table->nulled, left = table->capacity - first;
    const size_t rows = left < NULLED_ROWS ? left : NULLED_ROWS;
    for (size_t column = 0; column < table->nr_columns; column++) {
        const uint8_t kind = table->kinds[column];
        if (kind == KIND_INT64) {
            for (size_t row = first; row < first + rows; row++)
                put_int64(table, column, row, NO_INT64);
        } else if (kind == KIND_BOOL || kind == KIND_CODE) {
            memset((uint8_t *)table->values[column] + first, NO_CODE, rows);
        } else {
            for (size_t row = first; row < first + rows; row++)
                put_uint32(table, column, row, none_32(kind));
        }
    }
    table->nulled += rows;
}

// Return the number of rows with a value in this column.
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

// Copy `rows` rows of a column: those with the indices in `order`, or the first ones if it is NULL. Integers are copied
// unchanged, codes become int32_t and booleans bits. `present` gets a validity bit for each row. Null strings and codes
// become 0, so that every index is valid. Returns the number of rows with a value.
API size_t table_copy(const struct table *table, size_t column, const int64_t *order, size_t rows, void *to,
                      uint8_t *present);

// Copy the values of the rows to `to`; they may have a narrower type.
#define GATHER(to, values, order, rows)                                                                                \
    if (order) {                                                                                                       \
        for (size_t row = 0; row < (rows); row++)                                                                      \
            (to)[row] = (values)[(order)[row]];                                                                        \
    } else {                                                                                                           \
        for (size_t row = 0; row < (rows); row++)                                                                      \
            (to)[row] = (values)[row];                                                                                 \
    }

static size_t count_bits(const uint8_t *bits, size_t rows)
{
    size_t count = 0;
    for (size_t byte = 0; byte < (rows + 7) / 8; byte++)
        count += (size_t)__builtin_popcount(bits[byte]);
    return count;
}

size_t table_copy(const struct table *table, size_t column, const int64_t *order, size_t rows, void *to,
                  uint8_t *present)
{
    const void *values = table->values[column];
    const uint8_t kind = table->kinds[column];
    if (kind == KIND_INT64) {
        int64_t *numbers = to;
        GATHER(numbers, (const int64_t *)values, order, rows)
        BITS(present, rows, numbers[row] != NO_INT64)
    } else if (kind == KIND_BOOL) {
        const uint8_t *bools = values;
        uint8_t *bits = to;
        BITS(bits, rows, bools[order ? (size_t)order[row] : row] == 1)
        BITS(present, rows, bools[order ? (size_t)order[row] : row] != NO_CODE)
    } else {
        const uint32_t none = kind == KIND_CODE ? NO_CODE : none_32(kind);
        uint32_t *numbers = to;
        if (kind == KIND_CODE) {
            GATHER(numbers, (const uint8_t *)values, order, rows)
        } else {
            GATHER(numbers, (const uint32_t *)values, order, rows)
        }
        BITS(present, rows, numbers[row] != none)
        if (kind == KIND_STRING || kind == KIND_CODE)
            for (size_t row = 0; row < rows; row++)
                numbers[row] = numbers[row] == none ? 0 : numbers[row];
    }
    return count_bits(present, rows);
}
