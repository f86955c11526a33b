// Decodes FtraceEventBundle: the events of one CPU as messages, and scheduler events as columns (CompactSched).
#include "decode/perfetto/state.h"

#include <stdio.h>
#include <stdlib.h>

static void count_event(struct perfetto *trace, struct event *kind, int64_t ts_ns)
{
    struct totals *totals = &trace->totals;

    kind->count++;
    totals->events++;
    totals->first_ns = ts_ns < totals->first_ns ? ts_ns : totals->first_ns;
    totals->last_ns = ts_ns > totals->last_ns ? ts_ns : totals->last_ns;
    trace->cpu_ns = ts_ns > trace->cpu_ns ? ts_ns : trace->cpu_ns;
}

// Returns the table that events with this target fill in the second run; NULL for none.
static struct table *table_for(const struct output *output, unsigned target)
{
    if (target == NEW_TASK)
        return output->tables[TO_IMPORTANCE];
    if (target == SWITCH)
        return output->tables[TO_SWITCHES];
    return target < NR_TABLES ? output->tables[target] : NULL;
}

static bool has_free_rows(const struct output *output, unsigned target)
{
    const struct table *table = table_for(output, target);
    size_t most = target == TO_SAMPLES ? MAX_EVENT_FIELDS : target == SWITCH ? 2 : 1;

    return !table || table->capacity - table->rows >= most;
}

// Reads a GenericFtraceEvent, which carries the names of its fields. Returns false if it is damaged.
static bool take_named(struct perfetto *trace, const struct event *kind, struct wire message)
{
    uint32_t number, inner_number;
    struct field field, inner, value;

    while (wire_field(&message, &number, &field)) {
        struct wire rest = field.bytes, name = {0};
        uint8_t role;

        if (number != 2 || field.type != WIRE_BYTES || !kind->nr_fields)
            continue;
        value.type = WIRE_FIXED32;
        while (wire_field(&rest, &inner_number, &inner)) {
            if (inner_number == 1 && inner.type == WIRE_BYTES)
                name = inner.bytes;
            else if (inner_number >= 3 && inner_number <= 5)
                value = inner;
        }
        role = role_of(kind, name.at ? name.at : (const uint8_t *)"", (size_t)(name.end - name.at));
        if (role != SLOT_none && (value.type == WIRE_BYTES || value.type == WIRE_VARINT))
            take_value(trace, role, &value);
    }
    return message.at == message.end;
}

static bool take_numbered(struct perfetto *trace, const struct shape *shape, struct wire message)
{
    struct field field;
    uint32_t number;

    while (wire_field(&message, &number, &field)) {
        uint8_t role = number < MAX_EVENT_FIELDS ? shape->roles[number] : SLOT_none;

        if (role != SLOT_none && (field.type == WIRE_BYTES || field.type == WIRE_VARINT))
            take_value(trace, role, &field);
    }
    return message.at == message.end;
}

static struct wire name_of(struct wire message)
{
    struct wire name = {0};
    struct field field;
    uint32_t number;

    while (wire_field(&message, &number, &field))
        if (number == 1 && field.type == WIRE_BYTES)
            name = field.bytes;
    return name;
}

enum { GENERIC_EVENT = 327 };

static void emit_event(struct perfetto *trace, const struct event *kind, struct output *output, int64_t ts_ns,
                       int32_t cpu, int32_t tid)
{
    struct table *table = table_for(output, kind->target);

    thread_seen(trace, ts_ns, tid,
                kind->target == TO_BLOCK && has_text(trace, SLOT_comm) ? text_number(trace, SLOT_comm) : NO_STRING);
    if (kind->target > TO_SAMPLES && !trace->is_named)
        append_task(trace, kind->target, ts_ns, tid);
    if (!table || (kind->target > TO_SAMPLES && !trace->is_named))
        return;
    give_value(trace, SLOT_ts_ns, (uint64_t)ts_ns);
    give_value(trace, SLOT_cpu, (uint64_t)(int64_t)cpu);
    give_value(trace, SLOT_tid, (uint64_t)(int64_t)tid);
    if (kind->target == NEW_TASK)
        append_new_task(trace, table);
    else if (kind->target == SWITCH)
        append_switch(trace, table, ts_ns);
    else
        append_row(trace, kind, table, ts_ns);
}

// Checks whether the current run uses events with this target: the first run needs thread names, the second one rows.
static bool is_wanted(const struct perfetto *trace, unsigned target)
{
    if (target == TO_NOTHING)
        return false;
    if (trace->is_named)
        return target < NR_TABLES || target == NEW_TASK || target == SWITCH;
    return target == TO_BLOCK || target >= NR_TABLES;
}

// Decodes one FtraceEvent. Returns false, without any change, if a table has no free row for it.
static bool read_event(struct perfetto *trace, struct wire event, struct output *output, int32_t cpu)
{
    const struct shape *shape = NULL;
    struct field field, body = {0};
    uint32_t number, body_number = 0;
    bool is_timed = false, is_whole = true;
    struct event *kind;
    int64_t ts_ns = 0;
    int32_t tid = 0;

    while (wire_field(&event, &number, &field)) {
        if (number == 1 && field.type == WIRE_VARINT) {
            ts_ns = (int64_t)field.value;
            is_timed = ts_ns >= 0;
        } else if (number == 2 && field.type == WIRE_VARINT) {
            tid = (int32_t)field.value;
        } else if (field.type == WIRE_BYTES && number > 2) {
            body = field;
            body_number = number;
        }
    }
    if (event.at != event.end || !is_timed || !body_number) {
        trace->totals.unreadable_events++;
        return true;
    }
    if (body_number < EVENT_NUMBERS) {
        shape = trace->shapes[body_number];
    } else if (body_number >= FIRST_DESCRIBED && body_number <= LAST_DESCRIBED && trace->described) {
        shape = trace->described[body_number - FIRST_DESCRIBED];
    }
    if (body_number == GENERIC_EVENT) {
        struct wire name = name_of(body.bytes);

        kind = kind_of(trace, name.at ? name.at : (const uint8_t *)"", (size_t)(name.end - name.at));
        shape = NULL;
    } else if (shape) {
        kind = shape->kind;
    } else {
        char name[32];
        int length = snprintf(name, sizeof(name), "event %u", body_number);

        kind = kind_of(trace, (const uint8_t *)name, (size_t)length);
    }
    if (!has_free_rows(output, kind->target))
        return false;
    count_event(trace, kind, ts_ns);
    if (is_wanted(trace, kind->target))
        is_whole = shape ? take_numbered(trace, shape, body.bytes) : take_named(trace, kind, body.bytes);
    if (is_whole)
        emit_event(trace, kind, output, ts_ns, cpu, tid);
    else
        trace->totals.unreadable_events++;
    forget_values(trace);
    return true;
}

// Columns of compact_sched: time differences, thread ids, and indices into the table of names.
struct compact {
    struct wire times;
    struct wire threads;
    struct wire names;
};

static void read_compact_rows(struct perfetto *trace, struct compact rows, const uint32_t *names, size_t nr_names,
                              struct event *kind)
{
    uint64_t ts_ns = 0, step, thread, name;

    while (wire_varint(&rows.times, &step)) {
        ts_ns += step;
        if (ts_ns > INT64_MAX) {
            trace->totals.unreadable_events++;
            return;
        }
        count_event(trace, kind, (int64_t)ts_ns);
        if (!wire_varint(&rows.threads, &thread) || !wire_varint(&rows.names, &name) || name >= nr_names)
            trace->totals.unreadable_events++;
        else
            thread_seen(trace, (int64_t)ts_ns, (int32_t)thread, names[name]);
    }
}

enum { SCHED_SWITCH = 4, SCHED_WAKING = 20, MAX_INTERNED = 1 << 16 };

// Reads FtraceEventBundle.CompactSched. Its fields are 1 and 7 (times), 3 and 8 (threads), 6 and 11 (indices of names)
// and 5 (names).
static void read_compact(struct perfetto *trace, struct wire message)
{
    struct compact switches = {{0}, {0}, {0}}, wakings = {{0}, {0}, {0}};
    struct wire rest = message;
    size_t nr_names = 0, nr_read = 0;
    uint32_t *names;
    struct field field;
    uint32_t number;

    while (wire_field(&rest, &number, &field))
        nr_names += number == 5 && field.type == WIRE_BYTES;
    nr_names = nr_names < MAX_INTERNED ? nr_names : MAX_INTERNED;
    names = calloc(nr_names + 1, sizeof(*names));
    if (!names)
        return;
    while (wire_field(&message, &number, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (number == 5 && nr_read < nr_names)
            names[nr_read++] = strings_add(trace->strings, field.bytes.at, (size_t)(field.bytes.end - field.bytes.at));
        else if (number == 1)
            switches.times = field.bytes;
        else if (number == 3)
            switches.threads = field.bytes;
        else if (number == 6)
            switches.names = field.bytes;
        else if (number == 7)
            wakings.times = field.bytes;
        else if (number == 8)
            wakings.threads = field.bytes;
        else if (number == 11)
            wakings.names = field.bytes;
    }
    if (trace->shapes[SCHED_SWITCH])
        read_compact_rows(trace, switches, names, nr_names, trace->shapes[SCHED_SWITCH]->kind);
    if (trace->shapes[SCHED_WAKING])
        read_compact_rows(trace, wakings, names, nr_names, trace->shapes[SCHED_WAKING]->kind);
    free(names);
}

// Advances `settled_ns`, before which no more events will come. The recorder reads the buffers CPU by CPU, in rounds.
// All that a CPU brings in one round is later than the last event of each CPU in the round before.
static void note_round(struct perfetto *trace, int32_t cpu)
{
    if (cpu < 0 || cpu >= MAX_CPUS || trace->cpu_ns == INT64_MIN)
        return;
    if (cpu != trace->round_cpu && trace->in_round[cpu / 8] >> (cpu % 8) & 1) {
        memset(trace->in_round, 0, sizeof(trace->in_round));
        if (trace->round_ns > trace->totals.settled_ns)
            trace->totals.settled_ns = trace->round_ns;
        trace->round_ns = INT64_MAX;
    }
    trace->in_round[cpu / 8] |= (uint8_t)(1 << (cpu % 8));
    trace->round_cpu = cpu;
    trace->round_ns = trace->cpu_ns < trace->round_ns ? trace->cpu_ns : trace->round_ns;
}

// Header fields of a bundle.
struct bundle {
    int64_t clock;
    int64_t ftrace_ns;
    int64_t boot_ns;
    int32_t cpu;
    bool has_lost;
    bool has_pair;
};

static struct bundle bundle_head(struct perfetto *trace, struct wire message)
{
    struct bundle bundle = {.cpu = NO_INT32};
    bool has_ftrace = false, has_boot = false;
    struct field field;
    uint32_t number;

    while (wire_field(&message, &number, &field)) {
        if (number == 2)
            continue;
        if (field.type == WIRE_VARINT) {
            if (number == 1)
                bundle.cpu = field.value <= INT32_MAX ? (int32_t)field.value : NO_INT32;
            else if (number == 3)
                bundle.has_lost = field.value;
            else if (number == 5)
                bundle.clock = field.value < 64 ? (int64_t)field.value : 1;
            else if (number == 6)
                bundle.ftrace_ns = (int64_t)field.value, has_ftrace = true;
            else if (number == 7)
                bundle.boot_ns = (int64_t)field.value, has_boot = true;
        } else if (number == 11 && field.type == WIRE_BYTES) {
            describe(trace, field.bytes);
        } else if (number == 8 || number == 512) {
            trace->totals.page_errors++;
        }
    }
    bundle.has_pair = has_ftrace && has_boot;
    return bundle;
}

static void count_bundle(struct totals *totals, const struct bundle *bundle)
{
    totals->lost_bundles += bundle->has_lost;
    totals->mixed_clocks += totals->bundles && bundle->clock != totals->clock;
    if (!totals->bundles++)
        totals->clock = bundle->clock;
    if (bundle->has_pair)
        totals->boot_offset = (int64_t)((uint64_t)bundle->boot_ns - (uint64_t)bundle->ftrace_ns);
}

bool read_bundle(struct perfetto *trace, struct wire message, struct output *output, struct cursor *cursor)
{
    struct bundle bundle;
    struct wire rest = message;
    struct field field;
    uint32_t number;

    if (!cursor->is_inside) {
        bundle = bundle_head(trace, message);
        count_bundle(&trace->totals, &bundle);
        trace->cpu_ns = INT64_MIN;
    } else {
        struct totals before = trace->totals;

        bundle = bundle_head(trace, message);
        trace->totals = before;
        rest.at += cursor->event;
    }
    for (;;) {
        size_t offset = (size_t)(rest.at - message.at);

        if (!wire_field(&rest, &number, &field))
            break;
        if (number == 2 && field.type == WIRE_BYTES && !read_event(trace, field.bytes, output, bundle.cpu)) {
            *cursor = (struct cursor){offset, true};
            return false;
        }
        if (number == 4 && field.type == WIRE_BYTES && !trace->is_named)
            read_compact(trace, field.bytes);
    }
    if (rest.at != rest.end)
        trace->totals.unreadable_events++;
    note_round(trace, bundle.cpu);
    *cursor = (struct cursor){0, false};
    return true;
}
