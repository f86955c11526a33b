// Reads the packets of a Perfetto trace. It decodes the event bundles and frames, lists other packets for Python, and
// resynchronizes after damage.
#include "decode/perfetto/state.h"

#include "core/array.h"

enum packet_field {
    PACKET_FTRACE = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_CLEARED = 41,
    PACKET_DROPPED = 42,
    PACKET_COMPRESSED = 50,
    PACKET_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_FRAME = 76,
    PACKET_FIRST = 87,
    PACKET_MACHINE = 98,
    PACKET_ZSTD = 133,
    IS_CLEARED = 1,
    NEEDS_STATE = 2,
};

// Checks for packets that Python decodes: process tree and statistics, clocks, counters, configuration and statistics
// of the recorder, system information, packages, compressed packets.
static bool is_noted(uint32_t number)
{
    static const uint8_t noted[] = {2, 6, 7, 9, 33, 34, 35, 45, 47, 50, 133};

    return number < 256 && memchr(noted, (int)number, sizeof(noted)) != NULL;
}

struct packet {
    struct wire ftrace;
    struct wire data;
    uint64_t timestamp;
    uint64_t flags;
    uint64_t dropped;
    uint32_t number;
    uint32_t clock;
    uint32_t default_clock;
    uint32_t sequence;
    bool is_timed;
    bool is_first;
    bool has_defaults;
    bool is_foreign;
};

static uint32_t default_clock(struct wire defaults)
{
    struct field field;
    uint32_t number, clock = 0;

    while (wire_field(&defaults, &number, &field))
        if (number == PACKET_CLOCK && field.type == WIRE_VARINT)
            clock = (uint32_t)field.value;
    return clock;
}

// Reads the fields of a packet. Returns false if it is damaged.
static bool open_packet(struct wire message, struct packet *packet)
{
    struct field field;
    uint32_t number;

    *packet = (struct packet){0};
    while (wire_field(&message, &number, &field)) {
        if (field.type == WIRE_BYTES) {
            if (number == PACKET_DEFAULTS) {
                packet->has_defaults = true;
                packet->default_clock = default_clock(field.bytes);
            } else if (number != PACKET_INTERNED) {
                packet->number = number;
                packet->data = field.bytes;
            }
            continue;
        }
        switch (number) {
        case PACKET_TIMESTAMP:
            packet->timestamp = field.value;
            packet->is_timed = true;
            break;
        case PACKET_SEQUENCE:
            packet->sequence = (uint32_t)field.value;
            break;
        case PACKET_FLAGS:
            packet->flags |= field.value;
            break;
        case PACKET_CLEARED:
            packet->flags |= field.value ? IS_CLEARED : 0;
            break;
        case PACKET_DROPPED:
            packet->dropped = field.value;
            break;
        case PACKET_FIRST:
            packet->is_first = field.value;
            break;
        case PACKET_CLOCK:
            packet->clock = (uint32_t)field.value;
            break;
        case PACKET_MACHINE:
            packet->is_foreign = field.value;
            break;
        default:
            break;
        }
    }
    return message.at == message.end;
}

// Reads the rest of a packet that the end of the file truncated: the bundle as far as it is there.
static bool open_truncated(struct wire message, struct packet *packet)
{
    struct field field;
    uint32_t number;
    uint64_t key, length;

    *packet = (struct packet){0};
    while (wire_field(&message, &number, &field)) {
        packet->is_foreign |= number == PACKET_MACHINE && field.value;
        if (number == PACKET_FTRACE && field.type == WIRE_BYTES) {
            packet->number = PACKET_FTRACE;
            packet->data = field.bytes;
        }
    }
    if (wire_varint(&message, &key) && key == (PACKET_FTRACE << 3 | WIRE_BYTES) && wire_varint(&message, &length)) {
        packet->number = PACKET_FTRACE;
        packet->data = message;
    }
    return packet->number == PACKET_FTRACE;
}

// Returns the state of the packet sequence with this id; NULL at the limit or without memory.
static struct sequence *sequence_of(struct perfetto *trace, uint32_t id, bool *is_new)
{
    uint64_t *slot = map_find(&trace->sequence_of, 0, id);

    *is_new = !slot;
    if (slot)
        return &trace->sequences[*slot - 1];
    if (trace->nr_sequences == MAX_SEQUENCES)
        return NULL;
    if (!array_reserve(&trace->sequences, trace->nr_sequences, &trace->sequences_capacity, sizeof(*trace->sequences)))
        return NULL;
    slot = map_add(&trace->sequence_of, 0, id);
    if (!slot)
        return NULL;
    trace->sequences[trace->nr_sequences] = (struct sequence){0};
    *slot = ++trace->nr_sequences;
    return &trace->sequences[trace->nr_sequences - 1];
}

// Updates the state of the packet's sequence. Returns false if the packet needs state that was lost.
static bool follow_sequence(struct perfetto *trace, struct packet *packet)
{
    struct sequence *sequence;
    bool is_new;

    if (!packet->sequence)
        return true;
    sequence = sequence_of(trace, packet->sequence, &is_new);
    if (!sequence)
        return true;
    if (packet->dropped && !packet->is_first && !is_new)
        trace->totals.dropped++;
    if (packet->dropped || packet->flags & IS_CLEARED) {
        sequence->is_whole = packet->flags & IS_CLEARED;
        sequence->clock = 0;
    }
    if (packet->has_defaults)
        sequence->clock = packet->default_clock;
    if (!packet->clock)
        packet->clock = sequence->clock;
    return !(packet->flags & NEEDS_STATE) || sequence->is_whole;
}

// Reads one packet. Returns DONE, FULL if it must be read again, or COMPRESSED if its note holds further packets.
static enum status read_packet(struct perfetto *trace, const struct packet *opened, const uint8_t *data,
                               struct output *output, struct cursor *cursor)
{
    struct packet packet = *opened;
    struct note *note;
    bool is_whole;

    if (output->nr_notes == output->notes_capacity)
        return FULL;
    if (packet.number == PACKET_FRAME && output->tables[TO_FRAMES] && table_is_full(output->tables[TO_FRAMES]))
        return FULL;
    if (packet.number == PACKET_FTRACE && !packet.is_foreign && cursor->is_inside)
        return read_bundle(trace, packet.data, output, cursor) ? DONE : FULL;
    is_whole = follow_sequence(trace, &packet);
    if (packet.number && packet.number < PACKET_FIELDS)
        trace->packets[packet.number]++;
    if (packet.is_foreign) {
        trace->totals.foreign++;
        return DONE;
    }
    if (packet.number == PACKET_FTRACE)
        return read_bundle(trace, packet.data, output, cursor) ? DONE : FULL;
    if (!is_noted(packet.number) && packet.number != PACKET_FRAME)
        return DONE;
    if (!is_whole) {
        trace->totals.stateless++;
        return DONE;
    }
    if (packet.number == PACKET_FRAME) {
        if (packet.is_timed)
            read_frame(trace, packet.data, packet.timestamp, packet.clock, output->tables[TO_FRAMES]);
        else
            trace->totals.unreadable_packets++;
        return DONE;
    }
    note = &output->notes[output->nr_notes++];
    *note = (struct note){
        .offset = (uint64_t)(packet.data.at - data),
        .length = (uint64_t)(packet.data.end - packet.data.at),
        .timestamp = packet.timestamp,
        .number = packet.number,
        .clock = packet.clock,
        .sequence = packet.sequence,
        .is_timed = packet.is_timed,
    };
    return packet.number == PACKET_COMPRESSED || packet.number == PACKET_ZSTD ? COMPRESSED : DONE;
}

// Splits the packet at the start of `rest` off. Returns false if there is none; `is_short` if more data may complete
// it.
static bool next_packet(struct wire *rest, struct wire *packet, bool *is_short)
{
    struct wire at = *rest;
    uint64_t key, length;

    *is_short = false;
    if (!wire_varint(&at, &key)) {
        *is_short = rest->end - rest->at < 10;
        return false;
    }
    if (key != (1 << 3 | WIRE_BYTES))
        return false;
    if (!wire_varint(&at, &length)) {
        *is_short = at.end - at.at < 10;
        return false;
    }
    if (length > MAX_PACKET)
        return false;
    if (length > (uint64_t)(at.end - at.at)) {
        *is_short = true;
        return false;
    }
    packet->at = at.at;
    packet->end = rest->at = at.at + length;
    return true;
}

// Checks whether packets begin here: each has a field that the tracing service writes, and none is damaged.
static bool is_plausible(struct wire rest, bool *is_short)
{
    unsigned packets = 0;
    struct wire packet;

    while (packets < PLAUSIBLE_PACKETS && next_packet(&rest, &packet, is_short)) {
        struct field field;
        uint32_t number;
        unsigned fields = 0;
        bool is_service = false;

        while (fields++ < PLAUSIBLE_FIELDS && wire_field(&packet, &number, &field)) {
            if (number >= PACKET_FIELDS)
                return false;
            is_service |= field.type == WIRE_VARINT && (number == 3 || number == 8 || number == 10);
        }
        if (!is_service || (fields <= PLAUSIBLE_FIELDS && packet.at != packet.end))
            return false;
        packets++;
    }
    if (packets) {
        bool is_at_end = rest.at == rest.end || *is_short;

        *is_short = false;
        return is_at_end || packets == PLAUSIBLE_PACKETS;
    }
    return false;
}

// Advances to the next plausible packet after damage.
static void resume(struct wire *rest, const uint8_t *after, bool is_final)
{
    bool is_short;
    struct wire at = *rest;

    if (after > at.at) {
        at.at = after;
        if (at.at == at.end || is_plausible(at, &is_short)) {
            *rest = at;
            return;
        }
        at.at = rest->at;
    }
    while (++at.at < at.end) {
        at.at = memchr(at.at, 1 << 3 | WIRE_BYTES, (size_t)(at.end - at.at));
        if (!at.at) {
            at.at = at.end;
            break;
        }
        if (is_plausible(at, &is_short) || (is_short && !is_final))
            break;
    }
    *rest = at;
}

enum { IS_FINAL = 1, IS_INNER = 2 };

// Reads packets from `data`. `used` is the number of bytes consumed; pass the remaining ones again, with more data
// after them. Flags: IS_FINAL: no data follows `data`. IS_INNER: `data` was in a compressed packet.
//
// Returns FULL if the tables or notes must be drained before the next call, and COMPRESSED if the last note is a packet
// to decompress and to read next.
API int perfetto_decode(struct perfetto *trace, const uint8_t *data, size_t length, unsigned flags,
                        struct output *output, size_t *used)
{
    struct wire rest = {data, data + length}, message = {0};
    struct cursor *cursor = &trace->cursors[flags & IS_INNER ? 1 : 0];
    enum status status = DONE;
    struct packet packet;

    while (rest.at < rest.end) {
        const uint8_t *start = rest.at;
        bool is_short;

        if (!next_packet(&rest, &message, &is_short)) {
            if (is_short && !(flags & IS_FINAL))
                break;
            if (is_short) {
                int64_t unreadable = trace->totals.unreadable_events;
                struct wire truncated = rest;
                uint64_t skipped;

                // Skip the key and the length of the packet, then read as much of it as there is.
                if (wire_varint(&truncated, &skipped) && wire_varint(&truncated, &skipped) &&
                    open_truncated(truncated, &packet) && !packet.is_foreign &&
                    !read_bundle(trace, packet.data, output, cursor)) {
                    status = FULL;
                    break;
                }
                trace->totals.unreadable_events = unreadable; // the truncated event counts as truncated only
                trace->totals.torn++;
                rest.at = rest.end;
                break;
            }
            trace->totals.unreadable_packets++;
            resume(&rest, start, flags & IS_FINAL);
            continue;
        }
        if (!open_packet(message, &packet)) {
            const uint8_t *after = rest.at;

            trace->totals.unreadable_packets++;
            rest.at = start;
            resume(&rest, after, flags & IS_FINAL);
            continue;
        }
        if (flags & IS_INNER && (packet.number == PACKET_COMPRESSED || packet.number == PACKET_ZSTD)) {
            trace->totals.unreadable_packets++;
            continue;
        }
        status = read_packet(trace, &packet, data, output, cursor);
        if (status == FULL)
            rest.at = start;
        if (status != DONE)
            break;
    }
    *used = (size_t)(rest.at - data);
    return status;
}

// --- beginning, end and results ---

API void perfetto_free(struct perfetto *trace)
{
    if (!trace)
        return;
    free_kinds(trace);
    free(trace->sequences);
    map_free(&trace->sequence_of);
    free(trace->threads);
    map_free(&trace->thread_of);
    free(trace->tasks);
    free(trace);
}

// Creates the decoder. `strings` are the strings of the tables.
API struct perfetto *perfetto_new(struct strings *strings)
{
    static const char *const types[] = {"DATA", "NODE", "META"}; // enum page_type of fs/f2fs/f2fs.h
    struct perfetto *trace = calloc(1, sizeof(*trace));
    struct event *rest = calloc(1, sizeof(*rest));
    struct strings *kind_names = strings_new();

    if (!trace || !rest || !kind_names) {
        free(trace);
        free(rest);
        strings_free(kind_names);
        return NULL;
    }
    trace->kind_names = kind_names;
    memcpy(rest->name, "(other)", rest->length = 7);
    trace->kinds[MAX_KINDS] = rest;
    trace->strings = strings;
    trace->totals.first_ns = INT64_MAX;
    trace->totals.last_ns = trace->totals.settled_ns = INT64_MIN;
    trace->round_ns = INT64_MAX;
    trace->round_cpu = -1;
    memset(trace->columns, NO_COLUMN, sizeof(trace->columns));
    for (unsigned i = 0; i < 32; i++)
        trace->status_texts[i] = NO_STRING;
    for (unsigned i = 0; i < 3; i++)
        trace->types[i] = strings_add(strings, (const uint8_t *)types[i], 4);
    trace->no_text = strings_add(strings, (const uint8_t *)"", 0);
    return trace;
}

// Returns the name and the count of event `number`; NULL after the last one.
API const char *perfetto_counted(const struct perfetto *trace, unsigned index, uint64_t *count)
{
    const struct event *kind;

    if (index > trace->nr_kinds)
        return NULL;
    kind = trace->kinds[index < trace->nr_kinds ? index : MAX_KINDS];
    *count = kind->count;
    return kind->name;
}

API const uint64_t *perfetto_packets(const struct perfetto *trace)
{
    return trace->packets;
}

API const struct totals *perfetto_totals(const struct perfetto *trace)
{
    return &trace->totals;
}

// Returns the rows on tasks since the last call. They are valid until the next call of any function.
API const struct task_row *perfetto_tasks(struct perfetto *trace, size_t *rows)
{
    *rows = trace->nr_tasks;
    trace->nr_tasks = 0;
    return trace->tasks;
}
