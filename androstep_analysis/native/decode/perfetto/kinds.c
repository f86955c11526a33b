// Registers the names of ftrace events and of their fields, with the table and column that each one fills.
#include "decode/perfetto/state.h"

#include <stdlib.h>

#define SLOT_NAME(name) #name
static const char *const slot_names[] = {SLOTS(SLOT_NAME)};

struct event *kind_of(struct perfetto *trace, const uint8_t *name, size_t length)
{
    struct event *kind;
    uint32_t index;

    length = length < MAX_NAME - 1 ? length : MAX_NAME - 1;
    index = strings_find(trace->kind_names, name, length);
    if (index != NO_STRING)
        return trace->kinds[index];
    if (trace->nr_kinds == MAX_KINDS || !(kind = calloc(1, sizeof(*kind))))
        return trace->kinds[MAX_KINDS];
    if (strings_add(trace->kind_names, name, length) == NO_STRING) {
        free(kind);
        return trace->kinds[MAX_KINDS];
    }
    if (length)
        memcpy(kind->name, name, length);
    kind->length = (uint8_t)length;
    kind->event = NO_STRING;
    trace->kinds[trace->nr_kinds++] = kind;
    return kind;
}

void free_kinds(struct perfetto *trace)
{
    for (unsigned i = 0; i < trace->nr_kinds; i++)
        free(trace->kinds[i]);
    free(trace->kinds[MAX_KINDS]);
    for (unsigned i = 0; i < EVENT_NUMBERS; i++)
        free(trace->shapes[i]);
    for (size_t i = 0; trace->described && i <= LAST_DESCRIBED - FIRST_DESCRIBED; i++)
        free(trace->described[i]);
    free(trace->described);
    strings_free(trace->kind_names);
}

uint8_t role_of(const struct event *kind, const uint8_t *name, size_t length)
{
    for (unsigned i = 0; i < kind->nr_fields; i++) {
        const struct named_field *field = &kind->fields[i];

        if (strlen(field->name) == length && !memcmp(field->name, name, length))
            return field->role;
    }
    return SLOT_none;
}

API int perfetto_slot(const char *name)
{
    for (int slot = 0; slot < NR_SLOTS; slot++)
        if (!strcmp(slot_names[slot], name))
            return slot;
    return -1;
}

API void perfetto_column(struct perfetto *trace, unsigned table, unsigned slot, unsigned column)
{
    trace->columns[table][slot] = (uint8_t)column;
}

// Registers a counter and returns its role; -1 at the limit.
API int perfetto_counter(struct perfetto *trace, const char *name, const char *unit)
{
    struct counter *counter = &trace->counters[trace->nr_counters];

    if (trace->nr_counters == MAX_COUNTERS)
        return -1;
    counter->name = strings_add(trace->strings, (const uint8_t *)name, strlen(name));
    counter->unit = strings_add(trace->strings, (const uint8_t *)unit, strlen(unit));
    return FIRST_COUNTER + (int)trace->nr_counters++;
}

API void perfetto_event(struct perfetto *trace, const char *name, unsigned target, unsigned code)
{
    struct event *kind = kind_of(trace, (const uint8_t *)name, strlen(name));

    kind->target = (uint8_t)target;
    kind->code = (uint8_t)code;
    kind->event = strings_add(trace->strings, (const uint8_t *)name, strlen(name));
}

// Assigns a role to field `field` of event `name`; false at the limits.
API bool perfetto_field(struct perfetto *trace, const char *name, const char *field, unsigned role)
{
    struct event *kind = kind_of(trace, (const uint8_t *)name, strlen(name));
    struct named_field *named = &kind->fields[kind->nr_fields];

    if (kind->nr_fields == MAX_NAMED_FIELDS || strlen(field) >= sizeof(named->name))
        return false;
    memcpy(named->name, field, strlen(field) + 1);
    named->role = (uint8_t)role;
    kind->nr_fields++;
    return true;
}

// Maps field `number` of FtraceEvent to event `name`. `fields` has the names of its own fields, separated by blanks,
// from number 1 on.
API bool perfetto_number(struct perfetto *trace, unsigned number, const char *name, const char *fields)
{
    struct shape *shape = number < EVENT_NUMBERS ? calloc(1, sizeof(*shape)) : NULL;
    unsigned field_number = 1;

    if (!shape)
        return false;
    shape->kind = kind_of(trace, (const uint8_t *)name, strlen(name));
    for (const char *at = fields; *at && field_number < MAX_EVENT_FIELDS; field_number++) {
        size_t length = strcspn(at, " ");

        shape->roles[field_number] = role_of(shape->kind, (const uint8_t *)at, length);
        at += length;
        at += *at == ' ';
    }
    free(trace->shapes[number]);
    trace->shapes[number] = shape;
    return true;
}

void describe(struct perfetto *trace, struct wire descriptor)
{
    struct wire event = {0}, name = {0};
    struct shape *shape, **slot;
    struct field field;
    uint32_t number;
    uint64_t id = 0;

    while (wire_field(&descriptor, &number, &field)) {
        if (number == 1 && field.type == WIRE_VARINT)
            id = field.value;
        else if (number == 2 && field.type == WIRE_BYTES)
            event = field.bytes;
    }
    if (id < FIRST_DESCRIBED || id > LAST_DESCRIBED || !event.at)
        return;
    if (!trace->described)
        trace->described = calloc(LAST_DESCRIBED - FIRST_DESCRIBED + 1, sizeof(*trace->described));
    if (!trace->described)
        return;
    slot = &trace->described[id - FIRST_DESCRIBED];
    for (struct wire rest = event; wire_field(&rest, &number, &field);)
        if (number == 1 && field.type == WIRE_BYTES)
            name = field.bytes;
    shape = *slot ? *slot : calloc(1, sizeof(*shape));
    if (!shape)
        return;
    memset(shape, 0, sizeof(*shape));
    shape->kind = kind_of(trace, name.at ? name.at : (const uint8_t *)"", (size_t)(name.end - name.at));
    *slot = shape;
    while (wire_field(&event, &number, &field)) {
        struct wire rest = field.bytes, of_field = {0};
        uint64_t of_number = 0;
        uint32_t inner_number;
        struct field inner;

        if (number != 2 || field.type != WIRE_BYTES)
            continue;
        while (wire_field(&rest, &inner_number, &inner)) {
            if (inner_number == 1 && inner.type == WIRE_BYTES)
                of_field = inner.bytes;
            else if (inner_number == 3 && inner.type == WIRE_VARINT)
                of_number = inner.value;
        }
        if (of_number < MAX_EVENT_FIELDS && of_field.at)
            shape->roles[of_number] = role_of(shape->kind, of_field.at, (size_t)(of_field.end - of_field.at));
    }
}
