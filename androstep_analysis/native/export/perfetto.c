// Slices and counters as packets of a Perfetto trace (google/perfetto: protos/perfetto/trace).
//
// Slices of a track must nest, so overlapping requests need several tracks, the lanes of a group. Perfetto displays
// tracks of one name and one parent as one.
#include "core/array.h"
#include "core/table.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PARENT = 5,
    EVENT_CATEGORY = 3,
    EVENT_ARGUMENT = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    EVENT_LAST_FLOW = 48,
    ARGUMENT_NAME = 1,
    ARGUMENT_BOOL = 2,
    ARGUMENT_INT = 4,
    ARGUMENT_STRING = 17,
};

enum { NEEDS_STATE = 2 };

enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

enum argument_kind { ARGUMENT_IS_INT, ARGUMENT_IS_STRING, ARGUMENT_IS_BOOL };

// Lengths are written in four bytes before the contents are known, so a message has at most 2^28 bytes.
enum { LENGTH_BYTES = 4, VARINT_BYTES = 10, TAG_BYTES = 2 };

// Most flow arrows that lead to one slice.
enum { MAX_FLOWS = 1000 };

struct lane {
    int64_t end;
    uint32_t number;
};

// A group of tracks. `lanes` is a heap with the lane that becomes free first on top.
struct group {
    uint64_t parent;
    uint8_t *name;
    size_t name_bytes;
    struct lane *lanes;
    uint32_t count;
};

struct trace {
    uint32_t sequence;
    uint64_t salt;
    struct group *groups;
    size_t nr_groups;
    size_t room;
};

// Slices of one kind, by column. `end` is NO_INT64 for an instant. Names, categories and texts are indices of interned
// strings. Row i has the nr_flows[i] flows from first_flow[i] on.
struct slices {
    size_t rows;
    const int64_t *begin;
    const int64_t *end;
    const uint32_t *group;
    const uint32_t *name;
    const uint64_t *first_flow;
    const uint32_t *nr_flows;
    size_t nr_arguments;
    const uint32_t *argument_names;
    const uint8_t *argument_kinds;
    const int64_t *const *arguments;
    uint32_t category;
    uint32_t flows_end;
};

API struct trace *trace_new(uint32_t sequence, uint64_t salt);
API void trace_free(struct trace *trace);
API uint32_t trace_group(struct trace *trace, uint64_t parent, const uint8_t *name, size_t name_bytes);
API uint64_t trace_number(uint64_t salt, uint64_t number);
API size_t trace_slices(struct trace *trace, const struct slices *slices, size_t *row, uint8_t *out, size_t room);
API size_t trace_counters(const struct trace *trace, uint64_t track, size_t *row, size_t rows, const int64_t *times,
                          const int64_t *values, uint8_t *out, size_t room);

struct trace *trace_new(uint32_t sequence, uint64_t salt)
{
    struct trace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    trace->sequence = sequence;
    trace->salt = salt;
    return trace;
}

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->nr_groups; i++) {
        free(trace->groups[i].name);
        free(trace->groups[i].lanes);
    }
    free(trace->groups);
    free(trace);
}

// Add a group of tracks with this name below track `parent`. Returns its index, or NO_UINT32 if memory runs out.
uint32_t trace_group(struct trace *trace, uint64_t parent, const uint8_t *name, size_t name_bytes)
{
    struct group *group;

    if (!array_reserve(&trace->groups, trace->nr_groups, &trace->room, sizeof(*trace->groups)))
        return NO_UINT32;
    group = &trace->groups[trace->nr_groups];
    *group = (struct group){.parent = parent, .name_bytes = name_bytes, .name = malloc(name_bytes + 1)};
    if (!group->name)
        return NO_UINT32;
    if (name_bytes)
        memcpy(group->name, name, name_bytes);
    return (uint32_t)trace->nr_groups++;
}

// Return an ID that is unlikely to occur in another trace (splitmix64), because IDs of tracks and flows are shared by
// all merged traces.
uint64_t trace_number(uint64_t salt, uint64_t number)
{
    uint64_t mixed = salt + (number + 1) * 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return mixed ? mixed : 1; // 0 is the default track of every trace
}

static uint8_t *varint(uint8_t *out, uint64_t value)
{
    while (value > 127) {
        *out++ = (uint8_t)(value | 128);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

static uint8_t *number_field(uint8_t *out, uint32_t field, uint64_t value)
{
    return varint(varint(out, (uint64_t)field << 3), value);
}

static uint8_t *fixed_field(uint8_t *out, uint32_t field, uint64_t value)
{
    out = varint(out, (uint64_t)field << 3 | 1);
    for (size_t i = 0; i < 8; i++)
        *out++ = (uint8_t)(value >> 8 * i);
    return out;
}

static uint8_t *bytes_field(uint8_t *out, uint32_t field, const uint8_t *bytes, size_t length)
{
    out = varint(varint(out, (uint64_t)field << 3 | 2), length);
    if (length)
        memcpy(out, bytes, length);
    return out + length;
}

// Begin a nested message. Returns the start of its contents, which `finish` needs.
static uint8_t *begin(uint8_t *out, uint32_t field)
{
    return varint(out, (uint64_t)field << 3 | 2) + LENGTH_BYTES;
}

static uint8_t *finish(uint8_t *contents, uint8_t *out)
{
    size_t length = (size_t)(out - contents);

    for (size_t i = 0; i < LENGTH_BYTES; i++)
        contents[i - LENGTH_BYTES] = (uint8_t)((length >> 7 * i & 127) | (i + 1 < LENGTH_BYTES ? 128 : 0));
    return out;
}

static uint64_t track_of(const struct trace *trace, uint32_t group, uint32_t lane)
{
    return trace_number(trace->salt, (uint64_t)group << 32 | lane);
}

static uint8_t *put_track(const struct trace *trace, uint32_t group, uint32_t lane, uint8_t *out)
{
    const struct group *of = &trace->groups[group];
    uint8_t *packet = begin(out, TRACE_PACKET);
    uint8_t *track;

    out = number_field(packet, PACKET_SEQUENCE, trace->sequence);
    track = begin(out, PACKET_TRACK);
    out = number_field(track, TRACK_UUID, track_of(trace, group, lane));
    out = number_field(out, TRACK_PARENT, of->parent);
    out = bytes_field(out, TRACK_NAME, of->name, of->name_bytes);
    return finish(packet, finish(track, out));
}

static void sift_down(struct lane *lanes, uint32_t count)
{
    struct lane moved = lanes[0];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && lanes[child + 1].end < lanes[child].end)
            child++;
        if (lanes[child].end >= moved.end)
            break;
        lanes[at] = lanes[child];
        at = child;
    }
    lanes[at] = moved;
}

// Reserve a lane of the group that is free at `start` until `end`; the track of a new lane is written to `*out`.
// Returns NO_UINT32 if memory runs out.
static uint32_t take_lane(const struct trace *trace, uint32_t number, int64_t start, int64_t end, uint8_t **out)
{
    struct group *group = &trace->groups[number];
    struct lane *lanes;
    uint32_t at;

    if (group->count && group->lanes[0].end <= start) {
        uint32_t lane = group->lanes[0].number;

        group->lanes[0].end = end;
        sift_down(group->lanes, group->count);
        return lane;
    }
    lanes = realloc(group->lanes, (group->count + 1) * sizeof(*lanes));
    if (!lanes)
        return NO_UINT32;
    group->lanes = lanes;
    *out = put_track(trace, number, group->count, *out);
    for (at = group->count; at && lanes[(at - 1) / 2].end > end; at = (at - 1) / 2)
        lanes[at] = lanes[(at - 1) / 2];
    lanes[at] = (struct lane){end, group->count};
    return group->count++;
}

static uint8_t *put_argument(uint8_t *out, uint32_t name, uint8_t kind, int64_t value)
{
    static const uint32_t fields[] = {
        [ARGUMENT_IS_INT] = ARGUMENT_INT, [ARGUMENT_IS_STRING] = ARGUMENT_STRING, [ARGUMENT_IS_BOOL] = ARGUMENT_BOOL};
    uint8_t *argument = begin(out, EVENT_ARGUMENT);

    out = number_field(argument, ARGUMENT_NAME, name);
    return finish(argument, number_field(out, fields[kind], (uint64_t)value));
}

static uint8_t *begin_packet(const struct trace *trace, int64_t time, uint8_t *out)
{
    out = number_field(out, PACKET_TIMESTAMP, (uint64_t)time);
    out = number_field(out, PACKET_SEQUENCE, trace->sequence);
    return number_field(out, PACKET_FLAGS, NEEDS_STATE);
}

static uint8_t *put_begin(const struct trace *trace, const struct slices *slices, size_t row, uint64_t track,
                          uint8_t *out)
{
    bool is_instant = slices->end[row] == NO_INT64;
    uint32_t flows = slices->nr_flows[row] < MAX_FLOWS ? slices->nr_flows[row] : MAX_FLOWS;
    uint8_t *packet = begin(out, TRACE_PACKET);
    uint8_t *event;

    out = begin_packet(trace, slices->begin[row], packet);
    event = begin(out, PACKET_TRACK_EVENT);
    out = number_field(event, EVENT_TYPE, is_instant ? TYPE_INSTANT : TYPE_BEGIN);
    out = number_field(out, EVENT_CATEGORY, slices->category);
    out = number_field(out, EVENT_NAME, slices->name[row]);
    out = number_field(out, EVENT_TRACK, track);
    for (uint32_t i = 0; i < flows; i++)
        out = fixed_field(out, slices->flows_end ? EVENT_LAST_FLOW : EVENT_FLOW,
                          trace_number(~trace->salt, slices->first_flow[row] + i));
    for (size_t i = 0; i < slices->nr_arguments; i++)
        if (slices->arguments[i][row] != NO_INT64)
            out = put_argument(out, slices->argument_names[i], slices->argument_kinds[i], slices->arguments[i][row]);
    return finish(packet, finish(event, out));
}

static uint8_t *put_end(const struct trace *trace, int64_t time, uint64_t track, uint8_t *out)
{
    uint8_t *packet = begin(out, TRACE_PACKET);
    uint8_t *event;

    out = begin_packet(trace, time, packet);
    event = begin(out, PACKET_TRACK_EVENT);
    out = number_field(event, EVENT_TYPE, TYPE_END);
    return finish(packet, finish(event, number_field(out, EVENT_TRACK, track)));
}

// Return an upper bound of the bytes in the packets of a row.
static size_t most_bytes(const struct trace *trace, const struct slices *slices, size_t row)
{
    enum { FIELD = TAG_BYTES + VARINT_BYTES, MESSAGE = TAG_BYTES + LENGTH_BYTES, FIELDS = 24, MESSAGES = 6 };
    size_t argument = MESSAGE + 2 * FIELD;

    return FIELDS * FIELD + MESSAGES * MESSAGE + trace->groups[slices->group[row]].name_bytes + MAX_FLOWS * FIELD +
           slices->nr_arguments * argument;
}

// Write packets of the rows from `*row` on, as many as fit, and advance `*row` past the last one. Returns the number of
// bytes written; 0 if memory runs out.
size_t trace_slices(struct trace *trace, const struct slices *slices, size_t *row, uint8_t *out, size_t room)
{
    uint8_t *at = out;

    for (; *row < slices->rows; (*row)++) {
        uint32_t group = slices->group[*row];
        int64_t end = slices->end[*row];
        uint32_t lane = 0;
        uint64_t track;

        if (room - (size_t)(at - out) < most_bytes(trace, slices, *row))
            break;
        if (end != NO_INT64 || !trace->groups[group].count)
            lane = take_lane(trace, group, slices->begin[*row], end == NO_INT64 ? slices->begin[*row] : end, &at);
        if (lane == NO_UINT32)
            return 0;
        track = track_of(trace, group, lane);
        at = put_begin(trace, slices, *row, track, at);
        if (end != NO_INT64)
            at = put_end(trace, end, track, at);
    }
    return (size_t)(at - out);
}

// Write packets of the values of one counter in the same way.
size_t trace_counters(const struct trace *trace, uint64_t track, size_t *row, size_t rows, const int64_t *times,
                      const int64_t *values, uint8_t *out, size_t room)
{
    enum { MOST = 128 };
    uint8_t *at = out;

    for (; *row < rows && room - (size_t)(at - out) >= MOST; (*row)++) {
        uint8_t *packet = begin(at, TRACE_PACKET);
        uint8_t *event;

        at = begin_packet(trace, times[*row], packet);
        event = begin(at, PACKET_TRACK_EVENT);
        at = number_field(event, EVENT_TYPE, TYPE_COUNTER);
        at = number_field(at, EVENT_TRACK, track);
        at = number_field(at, EVENT_COUNTER, (uint64_t)values[*row]);
        at = finish(packet, finish(event, at));
    }
    return (size_t)(at - out);
}
