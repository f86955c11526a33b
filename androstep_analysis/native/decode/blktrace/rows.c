// Makes rows of table block_events: event names in blkparse's letters, device, sector, process and thread name.
#include "decode/blktrace/state.h"

static const struct {
    const char *name;
    enum action action;
} EVENTS[NR_EVENTS] = {
    [EVENT_NONE] = {"", ACTION_OTHER},           [EVENT_QUEUE] = {"Q", ACTION_QUEUE},
    [EVENT_BACKMERGE] = {"M", ACTION_BACKMERGE}, [EVENT_FRONTMERGE] = {"F", ACTION_FRONTMERGE},
    [EVENT_GETRQ] = {"G", ACTION_GETRQ},         [EVENT_SLEEPRQ] = {"S", ACTION_SLEEP},
    [EVENT_REQUEUE] = {"R", ACTION_REQUEUE},     [EVENT_ISSUE] = {"D", ACTION_ISSUE},
    [EVENT_COMPLETE] = {"C", ACTION_COMPLETE},   [EVENT_PLUG] = {"P", ACTION_PLUG},
    [EVENT_UNPLUG_IO] = {"U", ACTION_UNPLUG},    [EVENT_UNPLUG_TIMER] = {"UT", ACTION_UNPLUG},
    [EVENT_INSERT] = {"I", ACTION_INSERT},       [EVENT_SPLIT] = {"X", ACTION_SPLIT},
    [EVENT_BOUNCE] = {"B", ACTION_BOUNCE},       [EVENT_REMAP] = {"A", ACTION_REMAP},
    [EVENT_ABORT] = {"abort", ACTION_OTHER},     [EVENT_DRV_DATA] = {"driver data", ACTION_OTHER},
    [EVENT_ZONE_PLUG] = {"ZP", ACTION_OTHER},    [EVENT_ZONE_UNPLUG] = {"ZU", ACTION_OTHER},
    [EVENT_ZONE_APPEND] = {"ZA", ACTION_OTHER},  [EVENT_MESSAGE] = {"m", ACTION_OTHER},
    [EVENT_UNKNOWN] = {"unknown", ACTION_OTHER},
};

static const char *const OPS[NR_OPS] = {"D", "ZA", "ZR", "ZRA", "ZF", "ZO", "ZC", "WZ", "W", "R", "N"};

enum { RWBS_BYTES = 16 };

static inline enum op op_of(uint64_t action, uint32_t bytes)
{
    if (action & TC_DISCARD)
        return OP_DISCARD;
    if (action >= TC_ZONE_APPEND) {
        if (action & TC_ZONE_APPEND)
            return OP_ZONE_APPEND;
        if (action & TC_ZONE_RESET)
            return OP_ZONE_RESET;
        if (action & TC_ZONE_RESET_ALL)
            return OP_ZONE_RESET_ALL;
        if (action & TC_ZONE_FINISH)
            return OP_ZONE_FINISH;
        if (action & TC_ZONE_OPEN)
            return OP_ZONE_OPEN;
        if (action & TC_ZONE_CLOSE)
            return OP_ZONE_CLOSE;
        if (action & TC_WRITE_ZEROES)
            return OP_WRITE_ZEROES;
    }
    if (action & TC_WRITE)
        return OP_WRITE;
    return bytes ? OP_READ : OP_NONE;
}

// Builds the rwbs string in the order of blkparse's fill_rwbs: F for a preflush, the operation, F for FUA, then A, S,
// M.
static uint32_t rwbs_string(struct blktrace *trace, uint64_t action, uint32_t bytes)
{
    static const struct {
        uint64_t bit;
        char letter;
    } FLAGS[NR_FLAGS] = {{TC_FLUSH, 'F'}, {TC_FUA, 'F'}, {TC_AHEAD, 'A'}, {TC_SYNC, 'S'}, {TC_META, 'M'}};
    enum op op = op_of(action, bytes);
    size_t index = op;
    char letters[RWBS_BYTES];
    size_t length = 0;

    for (size_t i = 0; i < NR_FLAGS; i++)
        index = index << 1 | !!(action & FLAGS[i].bit);
    if (trace->rwbs_strings[index] != NO_STRING)
        return trace->rwbs_strings[index];
    if (action & TC_FLUSH)
        letters[length++] = 'F';
    for (const char *letter = OPS[op]; *letter; letter++)
        letters[length++] = *letter;
    for (size_t i = 1; i < NR_FLAGS; i++) {
        if (action & FLAGS[i].bit)
            letters[length++] = FLAGS[i].letter;
    }
    return trace->rwbs_strings[index] = strings_add(trace->strings, (const uint8_t *)letters, length);
}

API const char *blktrace_event(size_t index)
{
    return index < NR_EVENTS ? EVENTS[index].name : NULL;
}

static uint32_t event_string(struct blktrace *trace, enum event event)
{
    uint32_t *string = trace->event_strings + event;

    if (*string == NO_STRING)
        *string = strings_add(trace->strings, (const uint8_t *)EVENTS[event].name, strlen(EVENTS[event].name));
    return *string;
}

static uint64_t big_number(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

// Writes device, sector and length. A passthrough request has no sector.
static void put_sectors(struct table *table, size_t row, const struct record *record, enum event event, uint64_t action)
{
    uint64_t sector = number64(record, 16);
    int64_t nr_sectors = number32(record, 24) >> 9;
    size_t length;
    const uint8_t *pdu = record_payload(record, action, &length);

    switch (event) {
    case EVENT_PLUG:
    case EVENT_UNPLUG_IO:
    case EVENT_UNPLUG_TIMER:
        return;
    case EVENT_SPLIT: // the payload is the sector where the second part begins
        nr_sectors = NO_INT64;
        if (length >= 8) {
            uint64_t cut = big_number(pdu, 8);

            if (cut >= sector && cut - sector <= INT64_MAX)
                nr_sectors = (int64_t)(cut - sector);
        }
        break;
    case EVENT_REMAP: // the payload is the original device, the device now and the original sector
        if (length >= 16) {
            uint64_t old_sector = big_number(pdu + 8, 8);

            put_uint32(table, BLOCK_DEV, row, (uint32_t)big_number(pdu + 4, 4));
            put_uint32(table, BLOCK_OLD_DEV, row, (uint32_t)big_number(pdu, 4));
            if (old_sector <= INT64_MAX)
                put_int64(table, BLOCK_OLD_SECTOR, row, (int64_t)old_sector);
        }
        break;
    default:
        break;
    }
    if (sector <= INT64_MAX && !(action & TC_PC))
        put_int64(table, BLOCK_SECTOR, row, (int64_t)sector);
    put_int64(table, BLOCK_NR_SECTORS, row, nr_sectors);
}

void append_record(struct blktrace *trace, struct table *table, const struct stream *stream, enum event event,
                   uint64_t action)
{
    const struct record *record = &stream->record;
    size_t row = table_row(table);
    uint32_t pid = pid_of(record);
    uint32_t cpu = number32(record, device_offset(record) + 4);
    const struct thread *thread = thread_get(trace, pid);

    put_int64(table, BLOCK_TS_NS, row, stream->ts_ns);
    if (cpu <= INT32_MAX)
        put_int32(table, BLOCK_CPU, row, (int32_t)cpu);
    if (pid <= INT32_MAX)
        put_int32(table, BLOCK_TID, row, (int32_t)pid);
    put_uint32(table, BLOCK_EVENT, row, event_string(trace, event));
    put_code(table, BLOCK_ACTION, row, (uint8_t)EVENTS[event].action);
    put_uint32(table, BLOCK_DEV, row, number32(record, device_offset(record)));
    put_uint32(table, BLOCK_RWBS, row, rwbs_string(trace, action, number32(record, 24)));
    put_sectors(table, row, record, event, action);
    if (event == EVENT_COMPLETE)
        put_int32(table, BLOCK_ERROR, row, (int16_t)number16(record, device_offset(record) + 8));
    else if (thread && event != EVENT_REQUEUE && event != EVENT_REMAP)
        put_uint32(table, BLOCK_COMM, row, thread_name_at(trace, thread, stream->ts_ns));
}
