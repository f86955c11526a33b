// Decodes fields of ring buffer records and runs the programs that fill table rows with them.
#include "decode/ftrace/state.h"

#include "core/scsi.h"

#include <stdio.h>

enum { MAX_LEVELS = 16, NUMBER_BYTES = 24 };

// Reads a field as two's complement and reports its sign in *is_negative. An unsigned field may have the upper bit set.
static inline bool field_number(const struct record *record, const struct field *field, bool big_endian,
                                uint64_t *value, bool *is_negative)
{
    *is_negative = false;
    if (!field_unsigned(record, field, big_endian, value))
        return false;
    if (field->is_signed) {
        unsigned unused = 64 - 8 * field->size;

        *value = (uint64_t)((int64_t)(*value << unused) >> unused);
        *is_negative = *value >> 63;
    }
    return true;
}

// Finds the bytes of an array field; false if the record is too short or the array is empty.
static bool field_bytes(const struct record *record, const struct field *field, bool big_endian, struct text *bytes)
{
    size_t offset = field->offset;
    size_t length = field->size;
    uint32_t there;

    if (!field->is_there || offset > record->size)
        return false;
    if (field->location == LOCATION_INLINE) {
        if (!length)
            length = record->size - offset;
    } else {
        if (record->size < offset + sizeof(there))
            return false;
        there = get_u32(record->data + offset, big_endian);
        length = there >> 16;
        offset = (there & 0xffff) + (field->location == LOCATION_REL_LOC ? offset + sizeof(there) : 0);
    }
    if (!length || offset > record->size || length > record->size - offset)
        return false;
    *bytes = (struct text){record->data + offset, record->data + offset + length};
    return true;
}

bool field_text(const struct record *record, const struct field *field, bool big_endian, struct text *text)
{
    const uint8_t *nul;

    if (!field_bytes(record, field, big_endian, text))
        return false;
    nul = memchr(text->at, 0, text_length(*text));
    if (nul)
        text->end = nul;
    return true;
}

struct row {
    const struct code *code;
    const struct target *target;
    const struct record *record;
    bool big_endian;
    size_t index;
};

static bool row_number(const struct row *row, const struct field *field, uint64_t *value, bool *is_negative)
{
    return field_number(row->record, field, row->big_endian, value, is_negative);
}

static bool row_text(const struct row *row, const struct field *field, struct text *text)
{
    return field_text(row->record, field, row->big_endian, text);
}

// Stores a number if it fits into the type of the column.
static void put_number(const struct row *row, uint8_t column, uint64_t value, bool is_negative)
{
    struct table *table = row->target->table;

    switch (table->kinds[column]) {
    case KIND_INT64:
        if (is_negative || value <= INT64_MAX)
            put_int64(table, column, row->index, (int64_t)value);
        break;
    case KIND_INT32:
        if (is_negative ? (int64_t)value >= INT32_MIN : value <= INT32_MAX)
            put_int32(table, column, row->index, (int32_t)(int64_t)value);
        break;
    case KIND_UINT32:
        if (!is_negative && value <= UINT32_MAX)
            put_uint32(table, column, row->index, (uint32_t)value);
        break;
    case KIND_CODE:
        put_code(table, column, row->index, (uint8_t)value);
        break;
    default:
        break;
    }
}

// Stores the bits of a number or pointer, whatever its sign.
static void put_bits(const struct row *row, const struct op *op)
{
    uint64_t value;

    if (field_unsigned(row->record, &op->field, row->big_endian, &value))
        put_int64(row->target->table, op->column, row->index, (int64_t)value);
}

// Stores the choice `stands` as a string or a code, depending on the type of the column.
static void put_choice(const struct row *row, uint8_t column, uint32_t stands)
{
    struct table *table = row->target->table;

    if (table->kinds[column] == KIND_STRING)
        put_uint32(table, column, row->index, row->target->numbers[stands]);
    else
        put_number(row, column, stands, false);
}

static void put_flags(const struct row *row, const struct op *op, uint64_t value)
{
    const struct choice *choices = row->code->choices + op->value;
    char text[UINT8_MAX + NUMBER_BYTES];
    size_t length = 0;
    uint64_t rest = value;

    for (size_t n = 0; n < op->count && length < UINT8_MAX; n++) {
        if (value & choices[n].number)
            text[length++] = (char)choices[n].stands;
        rest &= ~choices[n].number;
    }
    if (rest)
        length += (size_t)snprintf(text + length, NUMBER_BYTES, "0x%llx", (unsigned long long)rest);
    put_string(row->target->table, op->column, row->index, (const uint8_t *)text, length);
}

// Joins the path components that a probe recorded, one field for each level.
static void put_path(const struct row *row, const struct op *op)
{
    const struct field *fields = row->code->fields + op->value;
    struct text names[MAX_LEVELS] = {{NULL, NULL}};
    struct table *table = row->target->table;
    size_t levels = op->count < MAX_LEVELS ? op->count : MAX_LEVELS;

    for (size_t level = 0; level < levels; level++)
        row_text(row, &fields[level], &names[level]);
    put_uint32(table, op->column, row->index, path_of_names(table->strings, names, levels));
}

static void put_first(const struct row *row, const struct op *op)
{
    const struct field *fields = row->code->fields + op->value;
    uint64_t value, first = 0;
    bool is_negative, is_first_negative = false, is_there = false;

    for (size_t n = 0; n < op->count && !first; n++) {
        if (!row_number(row, &fields[n], &value, &is_negative))
            continue;
        is_there = true;
        first = value;
        is_first_negative = is_negative;
    }
    if (is_there)
        put_number(row, op->column, first, is_first_negative);
}

static void put_address(const struct row *row, const struct op *op)
{
    const struct field *fields = row->code->fields + op->value;
    char text[MAX_LEVELS * NUMBER_BYTES] = "";
    size_t length = 0;
    uint64_t value;

    for (size_t n = 0; n < op->count && n < MAX_LEVELS; n++) {
        if (!field_unsigned(row->record, &fields[n], row->big_endian, &value))
            return;
        length += (size_t)snprintf(text + length, NUMBER_BYTES, n ? ":%llu" : "%llu", (unsigned long long)value);
    }
    put_string(row->target->table, op->column, row->index, (const uint8_t *)text, length);
}

static void put_step(const struct row *row, const struct op *op, struct text text)
{
    const struct names *names = &row->code->names;
    const struct choice *choices = row->code->choices + op->value;

    for (size_t n = 0; n < op->count; n++) {
        uint32_t name = choices[n].stands;
        size_t start = name ? names->ends[name - 1] : 0;

        if (names->ends[name] - start == text_length(text) &&
            !memcmp(names->text + start, text.at, text_length(text))) {
            put_number(row, op->column, choices[n].number, false);
            return;
        }
    }
}

static bool is_all_ones(uint64_t value, size_t size)
{
    return value << (64 - 8 * size) == UINT64_MAX << (64 - 8 * size);
}

// Runs an instruction with one number as input.
static void put_of_number(const struct row *row, const struct op *op)
{
    const struct choice *choices = row->code->choices + op->value;
    uint64_t value, other;
    bool is_negative, is_other_negative;

    if (!row_number(row, &op->field, &value, &is_negative))
        return;
    switch (op->what) {
    case OP_PLACE:
        if (is_all_ones(value, op->field.size))
            return;
        if (row_number(row, &op->other, &other, &is_other_negative) && is_all_ones(other, op->other.size))
            return;
        break;
    case OP_CUT:
        if (!row_number(row, &op->other, &other, &is_other_negative) || (value | other) >> 63 || other < value)
            return;
        value = other - value;
        break;
    case OP_ERRNO:
        if (value && !is_negative)
            return;
        break;
    case OP_CHILD:
        if (!row_number(row, &op->other, &other, &is_other_negative) || other || value == UINT32_MAX)
            return;
        break;
    case OP_PRODUCT:
        if (!row_number(row, &op->other, &other, &is_other_negative) || (value | other) >> 32)
            return;
        value *= other;
        break;
    case OP_WITH:
        if (!row_number(row, &op->other, &other, &is_other_negative) || !other)
            return;
        break;
    case OP_CHOICE:
        for (size_t n = 0; n < op->count; n++) {
            if (choices[n].number == value)
                put_choice(row, op->column, choices[n].stands);
        }
        return;
    default:
        break;
    }
    put_number(row, op->column, value, is_negative);
}

// Runs an instruction with one text or array as input.
static void put_of_text(const struct row *row, const struct op *op)
{
    struct text text;
    uint64_t lba, blocks;

    if (!row_text(row, &op->field, &text))
        return;
    switch (op->what) {
    case OP_DEVICE:
        put_uint32(row->target->table, op->column, row->index, device_of_name(text));
        break;
    case OP_STEP:
        put_step(row, op, text);
        break;
    case OP_SCSI_LBA:
    case OP_SCSI_BLOCKS:
        if (field_bytes(row->record, &op->field, row->big_endian, &text) &&
            scsi_blocks(text.at, text_length(text), &lba, &blocks))
            put_number(row, op->column, op->what == OP_SCSI_LBA ? lba : blocks, false);
        break;
    case OP_SOME_TEXT:
        if (text_length(text))
            put_text(row->target->table, op->column, row->index, text);
        break;
    default:
        put_text(row->target->table, op->column, row->index, text);
    }
}

static bool is_zero(const struct row *row, const struct field *field)
{
    uint64_t value;

    return !field_unsigned(row->record, field, row->big_endian, &value) || !value;
}

void row_fill(const struct code *code, const struct program *program, const struct record *record, bool big_endian,
              size_t index)
{
    struct row row = {code, &code->targets[program->target], record, big_endian, index};
    const struct op *end = code->ops + program->first + program->count;
    uint64_t value;

    for (const struct op *op = code->ops + program->first; op < end; op++) {
        switch (op->what) {
        case OP_CONSTANT:
            put_number(&row, op->column, (uint64_t)op->value, op->value < 0);
            break;
        case OP_BITS:
            put_bits(&row, op);
            break;
        case OP_NAME:
            put_choice(&row, op->column, (uint32_t)op->value);
            break;
        case OP_FLAGS:
            if (field_unsigned(record, &op->field, big_endian, &value))
                put_flags(&row, op, value);
            break;
        case OP_UNLESS:
            if (is_zero(&row, &op->field))
                put_number(&row, op->column, (uint64_t)op->value, op->value < 0);
            break;
        case OP_NO_TEXT:
            if (is_zero(&row, &op->field))
                put_string(row.target->table, op->column, row.index, record->data, 0);
            break;
        case OP_PATH:
            put_path(&row, op);
            break;
        case OP_FIRST:
            put_first(&row, op);
            break;
        case OP_ADDRESS:
            put_address(&row, op);
            break;
        case OP_TEXT:
        case OP_SOME_TEXT:
        case OP_DEVICE:
        case OP_STEP:
        case OP_SCSI_LBA:
        case OP_SCSI_BLOCKS:
            put_of_text(&row, op);
            break;
        default:
            put_of_number(&row, op);
        }
    }
}
