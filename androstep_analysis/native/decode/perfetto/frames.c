// Decodes FrameTimelineEvent: frames of SurfaceFlinger and of apps, each as a begin and an end event.
#include "decode/perfetto/state.h"

// Columns of table frame_events, in the order of schemas/frame_events.json.
enum frame_column {
    FRAME_TS_NS,
    FRAME_CLOCK,
    FRAME_PLACE,
    FRAME_COOKIE,
    FRAME_TIMELINE,
    FRAME_PID,
    FRAME_TOKEN,
    FRAME_DISPLAY_TOKEN,
    FRAME_LAYER,
    FRAME_PRESENT,
    FRAME_PREDICTION,
    FRAME_ON_TIME,
    FRAME_GPU,
    FRAME_IS_BUFFER,
    FRAME_JANK,
};

enum { FRAME_END = 5, NR_FRAME_FIELDS = 12, NONE = -1, NR_PRESENT = 6, NR_PREDICTION = 4 };

// Columns of the fields, by field number, of the messages 1 (expected display) to 5 (end).
static const int8_t columns[FRAME_END + 1][NR_FRAME_FIELDS] = {
    {NONE},
    {NONE, FRAME_COOKIE, FRAME_TOKEN, FRAME_PID, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE},
    {NONE, FRAME_COOKIE, FRAME_TOKEN, FRAME_PID, FRAME_PRESENT, FRAME_ON_TIME, FRAME_GPU, FRAME_JANK, FRAME_PREDICTION,
     NONE, NONE, NONE},
    {NONE, FRAME_COOKIE, FRAME_TOKEN, FRAME_DISPLAY_TOKEN, FRAME_PID, FRAME_LAYER, NONE, NONE, NONE, NONE, NONE, NONE},
    {NONE, FRAME_COOKIE, FRAME_TOKEN, FRAME_DISPLAY_TOKEN, FRAME_PID, FRAME_LAYER, FRAME_PRESENT, FRAME_ON_TIME,
     FRAME_GPU, FRAME_JANK, FRAME_PREDICTION, FRAME_IS_BUFFER},
    {NONE, FRAME_COOKIE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE},
};

static void put_field(struct table *table, size_t row, int column, const struct field *field)
{
    int64_t value = (int64_t)field->value;

    if (table->kinds[column] == KIND_STRING) {
        if (field->type == WIRE_BYTES)
            put_string(table, (size_t)column, row, field->bytes.at, (size_t)(field->bytes.end - field->bytes.at));
        return;
    }
    if (field->type != WIRE_VARINT)
        return;
    switch (table->kinds[column]) {
    case KIND_INT64:
        put_int64(table, (size_t)column, row, value);
        break;
    case KIND_INT32:
        if (value >= INT32_MIN && value <= INT32_MAX)
            put_int32(table, (size_t)column, row, (int32_t)value);
        break;
    case KIND_BOOL:
        put_code(table, (size_t)column, row, value != 0);
        break;
    default: // values that later versions of Android added are null
        if (field->value < (column == FRAME_PRESENT ? NR_PRESENT : NR_PREDICTION))
            put_code(table, (size_t)column, row, (uint8_t)value);
    }
}

// Checks whether a message is complete and has a cookie. The lowest integer is not one: it means null in a table.
static bool is_frame(struct wire message)
{
    bool has_cookie = false;
    struct field field;
    uint32_t number;

    while (wire_field(&message, &number, &field))
        if (number == 1 && field.type == WIRE_VARINT)
            has_cookie = (int64_t)field.value != NO_INT64;
    return has_cookie && message.at == message.end;
}

void read_frame(struct perfetto *trace, struct wire message, uint64_t timestamp, uint32_t clock, struct table *table)
{
    struct wire event = {0};
    struct field field;
    uint32_t number, kind = 0;
    size_t row;

    while (wire_field(&message, &number, &field)) {
        if (number >= 1 && number <= FRAME_END && field.type == WIRE_BYTES) {
            kind = number;
            event = field.bytes;
        }
    }
    if (message.at != message.end || (kind && !is_frame(event)) || timestamp > INT64_MAX) {
        trace->totals.unreadable_events++;
        return;
    }
    if (!kind || !table)
        return;
    row = table_row(table);
    put_int64(table, FRAME_TS_NS, row, (int64_t)timestamp);
    put_int32(table, FRAME_CLOCK, row, clock <= INT32_MAX ? (int32_t)clock : INT32_MAX);
    put_int64(table, FRAME_PLACE, row, trace->nr_frames++);
    if (kind < FRAME_END)
        put_code(table, FRAME_TIMELINE, row, (uint8_t)(kind - 1));
    while (wire_field(&event, &number, &field))
        if (number < NR_FRAME_FIELDS && columns[kind][number] != NONE)
            put_field(table, row, columns[kind][number], &field);
}
