// Structures shared by the decoders: tables with columns owned by the caller, and interned strings.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

// Values that become null in the table.
#define NO_INT64  INT64_MIN
#define NO_INT32  INT32_MIN
#define NO_UINT32 UINT32_MAX
#define NO_STRING UINT32_MAX
#define NO_CODE   UINT8_MAX

// Interned strings; the index of a string is its order of insertion.
struct strings;

API struct strings *strings_new(void);
API void strings_free(struct strings *strings);

// Return the index of the string, inserting it if it is new; NO_STRING if memory runs out.
API uint32_t strings_add(struct strings *strings, const uint8_t *text, size_t length);

// Return the index of the string, or NO_STRING if it is missing.
uint32_t strings_find(const struct strings *strings, const uint8_t *text, size_t length);

// Return the bytes of the string with this index, which must exist. They are valid until the next strings_add.
const uint8_t *strings_text(const struct strings *strings, uint32_t number, size_t *length);

API size_t strings_count(const struct strings *strings);
API size_t strings_bytes(const struct strings *strings);

// Copy all strings, concatenated, and the offsets of their starts (one more than strings).
API void strings_copy(const struct strings *strings, uint8_t *text, int32_t *offsets);

enum { MAX_COLUMNS = 48 };

enum kind { KIND_INT64, KIND_INT32, KIND_UINT32, KIND_BOOL, KIND_STRING, KIND_CODE };

// Rows of one of the tables in schemas/, by column: int64_t, int32_t, uint32_t, uint8_t (bool), uint32_t (index of a
// string) or uint8_t (index of an enum's value). `columns` have the order of the schema.
struct table {
    size_t rows;
    size_t nulled; // rows with values or nulls; more than `rows`, unless the table is full
    size_t capacity;
    size_t nr_columns;
    struct strings *strings;
    void *values[MAX_COLUMNS];
    uint8_t kinds[MAX_COLUMNS];
};

// Columns of table block_events; test_native compares them with schemas/block_events.json.
enum block_column {
    BLOCK_TS_NS,
    BLOCK_CPU,
    BLOCK_TID,
    BLOCK_PID,
    BLOCK_COMM,
    BLOCK_EVENT,
    BLOCK_ACTION,
    BLOCK_DEV,
    BLOCK_SECTOR,
    BLOCK_NR_SECTORS,
    BLOCK_RWBS,
    BLOCK_ERROR,
    BLOCK_OLD_DEV,
    BLOCK_OLD_SECTOR,
    BLOCK_BLOCK_TYPE,
    BLOCK_PATH,
    BLOCK_IOPRIO,
};

// Columns of table samples.
enum sample_column {
    SAMPLE_TS_NS,
    SAMPLE_SCOPE,
    SAMPLE_DEV,
    SAMPLE_PID,
    SAMPLE_INSTANCE,
    SAMPLE_COUNTER,
    SAMPLE_VALUE,
    SAMPLE_UNIT,
};

enum { SCOPE_DEVICE = 2 }; // a value of samples.scope

// Stages of a request, in the order of the values of block_events.action in the schema.
enum action {
    ACTION_QUEUE,
    ACTION_GETRQ,
    ACTION_INSERT,
    ACTION_ISSUE,
    ACTION_COMPLETE,
    ACTION_BACKMERGE,
    ACTION_FRONTMERGE,
    ACTION_RQMERGE,
    ACTION_REMAP,
    ACTION_SPLIT,
    ACTION_REQUEUE,
    ACTION_PLUG,
    ACTION_UNPLUG,
    ACTION_BOUNCE,
    ACTION_SLEEP,
    ACTION_OTHER,
};

static inline bool table_is_full(const struct table *table)
{
    return table->rows == table->capacity;
}

// Fill the next rows after `nulled` with null values.
API void table_null(struct table *table);

// Append a row without values and return its index. The table must not be full.
static inline size_t table_row(struct table *table)
{
    if (++table->rows == table->nulled)
        table_null(table);
    return table->rows - 1;
}

static inline void put_int64(struct table *table, size_t column, size_t row, int64_t value)
{
    ((int64_t *)table->values[column])[row] = value;
}

static inline void put_int32(struct table *table, size_t column, size_t row, int32_t value)
{
    ((int32_t *)table->values[column])[row] = value;
}

static inline void put_uint32(struct table *table, size_t column, size_t row, uint32_t value)
{
    ((uint32_t *)table->values[column])[row] = value;
}

static inline void put_code(struct table *table, size_t column, size_t row, uint8_t value)
{
    ((uint8_t *)table->values[column])[row] = value;
}

static inline void put_string(struct table *table, size_t column, size_t row, const uint8_t *text, size_t length)
{
    ((uint32_t *)table->values[column])[row] = strings_add(table->strings, text, length);
}
