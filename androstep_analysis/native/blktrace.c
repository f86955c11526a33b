// blktrace's binary records (Linux, include/uapi/linux/blktrace_api.h): several streams, one a CPU, merged by time.
//
// The streams are read twice: first for the names of threads (`blktrace_survey`), which may stand behind the events
// they are of where the CPUs were dumped one after the other, then for the rows (`blktrace_merge`).
#include "array.h"
#include "map.h"
#include "native.h"

#include <string.h>

// Versions 7 and, since Linux 6.19 on request (BLKTRACESETUP2), 8, whose action is wider.
enum { VERSION = 7, VERSION2 = 8, HEADER_BYTES = 48, HEADER2_BYTES = 64, MAGIC_BYTES = 4, CGROUP_BYTES = 8 };

// What follows a header is mostly shorter: messages have up to 128 bytes (BLK_TN_MAX_MSG), commands up to 32.
enum { USUAL_PDU_BYTES = 128 + CGROUP_BYTES };

// What an action is made of: in its lower half what happened, above that of which category it is.
enum { TC_SHIFT = 16, TA_CGROUP = 1 << 8, TA_MASK = 0xffff & ~TA_CGROUP };

#define TC(bit)           ((uint64_t)1 << (TC_SHIFT + (bit)))
#define TC_WRITE          TC(1)
#define TC_FLUSH          TC(2)
#define TC_SYNC           TC(3)
#define TC_COMPLETE       TC(7)
#define TC_PC             TC(9)
#define TC_NOTIFY         TC(10)
#define TC_AHEAD          TC(11)
#define TC_META           TC(12)
#define TC_DISCARD        TC(13)
#define TC_FUA            TC(15)
#define TC_ZONE_APPEND    TC(16)
#define TC_ZONE_RESET     TC(17)
#define TC_ZONE_RESET_ALL TC(18)
#define TC_ZONE_FINISH    TC(19)
#define TC_ZONE_OPEN      TC(20)
#define TC_ZONE_CLOSE     TC(21)
#define TC_WRITE_ZEROES   TC(22)

enum { NOTE_PROCESS, NOTE_TIMESTAMP, NOTE_MESSAGE };

// Events by the kernel's numbers (enum blktrace_act); those blkparse prints by its letters. The last three have no
// number of their own: the place where a zone append was written, a message, and what no kernel documents.
enum event {
    EVENT_NONE,
    EVENT_QUEUE,
    EVENT_BACKMERGE,
    EVENT_FRONTMERGE,
    EVENT_GETRQ,
    EVENT_SLEEPRQ,
    EVENT_REQUEUE,
    EVENT_ISSUE,
    EVENT_COMPLETE,
    EVENT_PLUG,
    EVENT_UNPLUG_IO,
    EVENT_UNPLUG_TIMER,
    EVENT_INSERT,
    EVENT_SPLIT,
    EVENT_BOUNCE,
    EVENT_REMAP,
    EVENT_ABORT,
    EVENT_DRV_DATA,
    EVENT_ZONE_PLUG,
    EVENT_ZONE_UNPLUG,
    EVENT_ZONE_APPEND,
    EVENT_MESSAGE,
    EVENT_UNKNOWN,
    NR_EVENTS,
};

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

// Operations as blkparse and, for the zones, blk_fill_rwbs of Linux 6.19 write them.
enum op {
    OP_DISCARD,
    OP_ZONE_APPEND,
    OP_ZONE_RESET,
    OP_ZONE_RESET_ALL,
    OP_ZONE_FINISH,
    OP_ZONE_OPEN,
    OP_ZONE_CLOSE,
    OP_WRITE_ZEROES,
    OP_WRITE,
    OP_READ,
    OP_NONE,
    NR_OPS,
};

static const char *const OPS[NR_OPS] = {"D", "ZA", "ZR", "ZRA", "ZF", "ZO", "ZC", "WZ", "W", "R", "N"};

enum { NR_FLAGS = 5, NR_RWBS = NR_OPS << NR_FLAGS, RWBS_BYTES = 16 };

// Linux gives no numbers above to threads (PID_MAX_LIMIT), so that no file can make the tables below grow for ever.
enum { MAX_THREADS = 1 << 22, MAX_NAMES = 1 << 22, MAX_COUNTERS = 1 << 16 };

// What the records say besides rows. Python reads it as it lies.
struct blktrace_report {
    uint64_t counts[NR_EVENTS];
    int64_t first_ns; // of all events; NO_INT64 where there is none
    int64_t last_ns;
    uint64_t torn;          // records that are not whole
    uint64_t gaps;          // places where no record begins
    uint64_t gap_bytes;     // and what lies there
    uint64_t missing;       // events that are not there, by the sequence numbers of the others
    uint64_t names_left;    // names that found no room
    int64_t clock_ns;       // of the first note that tells the time of day; NO_INT64 where there is none
    int64_t realtime_ns;    // that time
    int64_t first_name_ns;  // when the first name of a thread was noted; NO_INT64 where there is none
    int64_t earliest_ns;    // as first_ns, after the survey; NO_INT64 where there is none
    uint32_t is_disordered; // a stream goes back in time
};

struct name {
    int64_t ts_ns;
    uint32_t pid;
    uint32_t string;
};

struct thread {
    uint32_t pid;
    uint32_t first; // number of its first name, of which those after it are the next
    uint32_t nr_names;
    uint32_t string; // its last name, while names are taken in
};

struct counter {
    uint32_t sequence;
    uint32_t doubtful; // the number of the event after that, which is not the next one
    bool is_doubtful;
};

struct record {
    const uint8_t *at;
    size_t header;
    size_t pdu;
    bool is_big;
};

struct stream {
    const uint8_t *data;
    size_t length;
    size_t place;
    bool is_last; // nothing comes behind the data
    bool is_ended;
    bool has_record;
    bool in_gap;
    bool is_begun; // a record was taken
    int64_t ts_ns; // of the record
    struct record record;
};

struct blktrace {
    struct blktrace_report report;
    struct strings *strings;
    struct stream *streams;
    size_t nr_streams;
    struct thread *threads;
    size_t nr_threads;
    size_t room_threads;
    struct map thread_of; // number in `threads` and one, by pid
    struct name *names;
    size_t nr_names;
    size_t room_names;
    struct counter *counters;
    size_t nr_counters;
    size_t room_counters;
    struct map counter_of; // number in `counters` and one, by device and CPU
    uint32_t event_strings[NR_EVENTS];
    uint32_t rwbs_strings[NR_RWBS];
};

// --- numbers -------------------------------------------------------------------------------------------------------

static uint64_t big_number(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static inline uint16_t number16(const struct record *record, size_t offset)
{
    uint16_t value;

    memcpy(&value, record->at + offset, sizeof(value));
    return record->is_big ? __builtin_bswap16(value) : value;
}

static inline uint32_t number32(const struct record *record, size_t offset)
{
    uint32_t value;

    memcpy(&value, record->at + offset, sizeof(value));
    return record->is_big ? __builtin_bswap32(value) : value;
}

static inline uint64_t number64(const struct record *record, size_t offset)
{
    uint64_t value;

    memcpy(&value, record->at + offset, sizeof(value));
    return record->is_big ? __builtin_bswap64(value) : value;
}

// Where the fields lie: up to `bytes` both versions agree.
static inline uint64_t action_of(const struct record *record)
{
    return record->header == HEADER_BYTES ? number32(record, 28) : number64(record, 32);
}

static inline uint32_t pid_of(const struct record *record)
{
    return number32(record, record->header == HEADER_BYTES ? 32 : 28);
}

static inline size_t device_offset(const struct record *record)
{
    return record->header == HEADER_BYTES ? 36 : 40;
}

static inline int64_t time_of(const struct record *record)
{
    int64_t ts_ns = (int64_t)number64(record, 8);

    return ts_ns == NO_INT64 ? NO_INT64 + 1 : ts_ns;
}

// --- records -------------------------------------------------------------------------------------------------------

// Bytes of the header of a record that begins here; 0 where none does.
static inline size_t header_at(const uint8_t *at, bool *is_big)
{
    uint8_t version;

    if (at[1] == 0x74 && at[2] == 0x61 && at[3] == 0x65) {
        version = at[0];
        *is_big = false;
    } else if (at[0] == 0x65 && at[1] == 0x61 && at[2] == 0x74) {
        version = at[3];
        *is_big = true;
    } else {
        return 0;
    }
    return version == VERSION ? HEADER_BYTES : version == VERSION2 ? HEADER2_BYTES : 0;
}

// Bytes before the first place where a record may begin; all but the last three where there is none.
static size_t before_magic(const uint8_t *data, size_t length)
{
    bool is_big;

    for (size_t i = 0; i + MAGIC_BYTES <= length; i++) {
        if (header_at(data + i, &is_big))
            return i;
    }
    return length < MAGIC_BYTES ? 0 : length - MAGIC_BYTES + 1;
}

static void skip_gap(struct blktrace *trace, struct stream *stream)
{
    size_t left = stream->length - stream->place;
    size_t bytes = before_magic(stream->data + stream->place, left);

    if (stream->is_last && left - bytes < MAGIC_BYTES)
        bytes = left;
    if (!bytes)
        return;
    trace->report.gaps += !stream->in_gap;
    trace->report.gap_bytes += bytes;
    stream->in_gap = true;
    stream->place += bytes;
}

enum found { FOUND, MORE, ENDED };

// The next record of a stream, which is not taken from it yet. Where no record follows it, or it is unusually long, it
// may be torn: then the next one begins within it.
static enum found next_record(struct blktrace *trace, struct stream *stream)
{
    struct record *record = &stream->record;
    bool is_big;

    for (;;) {
        size_t left = stream->length - stream->place;
        const uint8_t *at;
        size_t size, inside;

        if (!left && stream->is_last)
            return ENDED;
        if (left < MAGIC_BYTES && !stream->is_last)
            return MORE;
        at = stream->data + stream->place;
        if (left < MAGIC_BYTES && !stream->in_gap) {
            trace->report.torn++;
            stream->place = stream->length;
            return ENDED;
        }
        record->header = left < MAGIC_BYTES ? 0 : header_at(at, &record->is_big);
        if (!record->header) {
            skip_gap(trace, stream);
            continue;
        }
        stream->in_gap = false;
        if (left < HEADER2_BYTES && !stream->is_last)
            return MORE;
        record->at = at;
        record->pdu = 0;
        size = record->header;
        if (left >= size) {
            record->pdu = number16(record, device_offset(record) + 10);
            size += record->pdu;
        }
        if (left < size + MAGIC_BYTES && !stream->is_last)
            return MORE;
        if (record->pdu <= USUAL_PDU_BYTES &&
            (left == size || (left >= size + MAGIC_BYTES && header_at(at + size, &is_big))))
            return FOUND;
        inside = MAGIC_BYTES + before_magic(at + MAGIC_BYTES, (left < size ? left : size) - MAGIC_BYTES);
        if (inside + MAGIC_BYTES <= (left < size ? left : size)) {
            trace->report.torn++;
            stream->place += inside;
        } else if (left < size) {
            trace->report.torn++;
            stream->place = stream->length;
        } else {
            return FOUND;
        }
    }
}

static inline void take(struct stream *stream)
{
    stream->place += stream->record.header + stream->record.pdu;
}

// What follows the header, without the control group that may stand before it (BLK_TA_CGROUP).
static const uint8_t *payload(const struct record *record, uint64_t action, size_t *length)
{
    const uint8_t *at = record->at + record->header;

    *length = record->pdu;
    if (!(action & TA_CGROUP))
        return at;
    if (*length < CGROUP_BYTES) {
        *length = 0;
        return at;
    }
    *length -= CGROUP_BYTES;
    return at + CGROUP_BYTES;
}

// --- threads -------------------------------------------------------------------------------------------------------

// The thread of this number until the next one is asked for, which is taken in if it is new; NULL where there is no
// room.
static inline struct thread *thread_of(struct blktrace *trace, uint32_t pid)
{
    uint64_t number = map_value(&trace->thread_of, 0, pid);
    uint64_t *place;

    if (number)
        return &trace->threads[number - 1];
    if (trace->nr_threads == MAX_THREADS)
        return NULL;
    if (trace->nr_threads == trace->room_threads) {
        struct thread *threads = array_grow(trace->threads, &trace->room_threads, sizeof(*threads));

        if (!threads)
            return NULL;
        trace->threads = threads;
    }
    place = map_add(&trace->thread_of, 0, pid);
    if (!place)
        return NULL;
    trace->threads[trace->nr_threads] = (struct thread){.pid = pid, .string = NO_STRING};
    *place = ++trace->nr_threads;
    return &trace->threads[trace->nr_threads - 1];
}

static bool add_name(struct blktrace *trace, struct name name)
{
    if (trace->nr_names == MAX_NAMES)
        return false;
    if (trace->nr_names == trace->room_names) {
        struct name *names = array_grow(trace->names, &trace->room_names, sizeof(*names));

        if (!names)
            return false;
        trace->names = names;
    }
    trace->names[trace->nr_names++] = name;
    return true;
}

// Notes the name that a thread has from `ts_ns` on.
static void name_thread(struct blktrace *trace, uint32_t pid, int64_t ts_ns, const uint8_t *text, size_t length)
{
    const uint8_t *end = memchr(text, 0, length);
    uint32_t string = strings_add(trace->strings, text, end ? (size_t)(end - text) : length);
    struct thread *thread = thread_of(trace, pid);

    if (thread && thread->string == string)
        return;
    if (!thread || string == NO_STRING ||
        !add_name(trace, (struct name){.ts_ns = ts_ns, .pid = pid, .string = string})) {
        trace->report.names_left++;
        return;
    }
    thread->string = string;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *left = a;
    const struct name *right = b;

    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    if (left->ts_ns != right->ts_ns)
        return left->ts_ns < right->ts_ns ? -1 : 1;
    return left->string < right->string ? -1 : left->string > right->string;
}

// Sorts the names by thread and time; all of them are so much ahead of the events.
static void settle_names(struct blktrace *trace, int64_t shift_ns)
{
    if (trace->nr_names)
        qsort(trace->names, trace->nr_names, sizeof(*trace->names), compare_names);
    for (size_t i = 0; i < trace->nr_names; i++) {
        struct name *name = trace->names + i;
        struct thread *thread = &trace->threads[map_value(&trace->thread_of, 0, name->pid) - 1];

        name->ts_ns = (int64_t)((uint64_t)name->ts_ns - (uint64_t)shift_ns);
        if (!thread->nr_names++)
            thread->first = (uint32_t)i;
    }
}

// The name of the thread then, else its first one: a thread is noted where it is first seen, and the clocks of two
// CPUs may differ a little.
static inline uint32_t name_at(const struct blktrace *trace, const struct thread *thread, int64_t ts_ns)
{
    const struct name *names = trace->names + thread->first;
    uint32_t least = 0;
    uint32_t most = thread->nr_names;

    if (!most)
        return NO_STRING;
    while (most - least > 1) {
        uint32_t middle = least + (most - least) / 2;

        if (names[middle].ts_ns <= ts_ns)
            least = middle;
        else
            most = middle;
    }
    return names[least].string;
}

// --- sequence numbers ----------------------------------------------------------------------------------------------

// The counter of a CPU's events of a device; NULL where it is new, and takes in this number, or there is no room.
static struct counter *counter_of(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence)
{
    uint64_t number = map_value(&trace->counter_of, device, cpu);
    uint64_t *place;

    if (number)
        return &trace->counters[number - 1];
    if (trace->nr_counters == MAX_COUNTERS)
        return NULL;
    if (trace->nr_counters == trace->room_counters) {
        struct counter *counters = array_grow(trace->counters, &trace->room_counters, sizeof(*counters));

        if (!counters)
            return NULL;
        trace->counters = counters;
    }
    place = map_add(&trace->counter_of, device, cpu);
    if (!place)
        return NULL;
    trace->counters[trace->nr_counters] = (struct counter){.sequence = sequence};
    *place = ++trace->nr_counters;
    return NULL;
}

// Events that are missing before the number `sequence`, which is so many events after the last good one.
static void count_gap(struct blktrace *trace, const struct counter *counter, uint32_t sequence, uint32_t steps)
{
    if (sequence > counter->sequence && sequence - counter->sequence > steps)
        trace->report.missing += sequence - counter->sequence - steps;
}

// Each CPU numbers the events of each device, one after the other. A number that goes back begins another recording.
// One that does not fit is believed only after the next one: a damaged one would count for billions of events.
static void count_missing(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence)
{
    struct counter *counter = counter_of(trace, device, cpu, sequence);

    if (!counter)
        return;
    if (!counter->is_doubtful) {
        counter->is_doubtful = sequence != counter->sequence + 1;
        counter->doubtful = sequence;
        if (!counter->is_doubtful)
            counter->sequence = sequence;
        return;
    }
    counter->is_doubtful = false;
    if (sequence == counter->sequence + 2) { // only that number was damaged
        counter->sequence = sequence;
    } else if (sequence > counter->doubtful || counter->doubtful <= counter->sequence) {
        count_gap(trace, counter, counter->doubtful, 1);
        counter->is_doubtful = sequence != counter->doubtful + 1;
        counter->sequence = counter->is_doubtful ? counter->doubtful : sequence;
        counter->doubtful = sequence;
    } else {
        count_gap(trace, counter, sequence, 2);
        counter->sequence = sequence;
    }
}

// What is doubtful at the end is taken for right.
static void end_counters(struct blktrace *trace)
{
    for (size_t i = 0; i < trace->nr_counters; i++) {
        struct counter *counter = trace->counters + i;

        if (counter->is_doubtful)
            count_gap(trace, counter, counter->doubtful, 1);
        counter->is_doubtful = false;
    }
}

// --- rows ----------------------------------------------------------------------------------------------------------

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

// The letters in the order of blkparse's fill_rwbs: F for a flush before, the operation, F for FUA, A, S, M.
static uint32_t rwbs_of(struct blktrace *trace, uint64_t action, uint32_t bytes)
{
    static const struct {
        uint64_t bit;
        char letter;
    } FLAGS[NR_FLAGS] = {{TC_FLUSH, 'F'}, {TC_FUA, 'F'}, {TC_AHEAD, 'A'}, {TC_SYNC, 'S'}, {TC_META, 'M'}};
    enum op op = op_of(action, bytes);
    size_t number = op;
    char letters[RWBS_BYTES];
    size_t length = 0;

    for (size_t i = 0; i < NR_FLAGS; i++)
        number = number << 1 | !!(action & FLAGS[i].bit);
    if (trace->rwbs_strings[number] != NO_STRING)
        return trace->rwbs_strings[number];
    if (action & TC_FLUSH)
        letters[length++] = 'F';
    for (const char *letter = OPS[op]; *letter; letter++)
        letters[length++] = *letter;
    for (size_t i = 1; i < NR_FLAGS; i++) {
        if (action & FLAGS[i].bit)
            letters[length++] = FLAGS[i].letter;
    }
    return trace->rwbs_strings[number] = strings_add(trace->strings, (const uint8_t *)letters, length);
}

static uint32_t event_string(struct blktrace *trace, enum event event)
{
    uint32_t *string = trace->event_strings + event;

    if (*string == NO_STRING)
        *string = strings_add(trace->strings, (const uint8_t *)EVENTS[event].name, strlen(EVENTS[event].name));
    return *string;
}

static enum event event_of(uint64_t action)
{
    uint64_t what = action & TA_MASK;

    if (action & TC_NOTIFY)
        return what == NOTE_MESSAGE ? EVENT_MESSAGE : what < NOTE_MESSAGE ? EVENT_NONE : EVENT_UNKNOWN;
    if (what == EVENT_COMPLETE && !(action & TC_COMPLETE) && action & TC_ZONE_APPEND)
        return EVENT_ZONE_APPEND;
    return what > EVENT_NONE && what < EVENT_ZONE_APPEND ? (enum event)what : EVENT_UNKNOWN;
}

// Sector and length, as far as the event has any. A passthrough request has no sector.
static void put_place(struct table *table, size_t row, const struct record *record, enum event event, uint64_t action)
{
    uint64_t sector = number64(record, 16);
    int64_t nr_sectors = number32(record, 24) >> 9;
    size_t length;
    const uint8_t *pdu = payload(record, action, &length);

    switch (event) {
    case EVENT_PLUG:
    case EVENT_UNPLUG_IO:
    case EVENT_UNPLUG_TIMER:
        return;
    case EVENT_SPLIT: // the payload is where the second part begins
        nr_sectors = NO_INT64;
        if (length >= 8) {
            uint64_t cut = big_number(pdu, 8);

            if (cut >= sector && cut - sector <= INT64_MAX)
                nr_sectors = (int64_t)(cut - sector);
        }
        break;
    case EVENT_REMAP: // the payload is the device before, the one now, and the sector before
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

static void put_row(struct blktrace *trace, struct table *table, const struct stream *stream, enum event event,
                    uint64_t action)
{
    const struct record *record = &stream->record;
    size_t row = table_row(table);
    uint32_t pid = pid_of(record);
    uint32_t cpu = number32(record, device_offset(record) + 4);
    struct thread *thread = thread_of(trace, pid);

    put_int64(table, BLOCK_TS_NS, row, stream->ts_ns);
    if (cpu <= INT32_MAX)
        put_int32(table, BLOCK_CPU, row, (int32_t)cpu);
    if (pid <= INT32_MAX)
        put_int32(table, BLOCK_TID, row, (int32_t)pid);
    put_uint32(table, BLOCK_EVENT, row, event_string(trace, event));
    put_code(table, BLOCK_ACTION, row, (uint8_t)EVENTS[event].action);
    put_uint32(table, BLOCK_DEV, row, number32(record, device_offset(record)));
    put_uint32(table, BLOCK_RWBS, row, rwbs_of(trace, action, number32(record, 24)));
    put_place(table, row, record, event, action);
    if (event == EVENT_COMPLETE)
        put_int32(table, BLOCK_ERROR, row, (int16_t)number16(record, device_offset(record) + 8));
    else if (thread && event != EVENT_REQUEUE && event != EVENT_REMAP)
        put_uint32(table, BLOCK_COMM, row, name_at(trace, thread, stream->ts_ns));
}

// --- what Python calls ---------------------------------------------------------------------------------------------

API void blktrace_free(struct blktrace *trace);

API struct blktrace *blktrace_new(struct strings *strings, size_t nr_streams)
{
    struct blktrace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    trace->strings = strings;
    trace->nr_streams = nr_streams;
    trace->streams = calloc(nr_streams, sizeof(*trace->streams));
    memset(trace->event_strings, 0xff, sizeof(trace->event_strings));
    memset(trace->rwbs_strings, 0xff, sizeof(trace->rwbs_strings));
    trace->report.clock_ns = trace->report.realtime_ns = trace->report.first_name_ns = NO_INT64;
    trace->report.first_ns = trace->report.last_ns = trace->report.earliest_ns = NO_INT64;
    if (trace->streams)
        return trace;
    blktrace_free(trace);
    return NULL;
}

API void blktrace_free(struct blktrace *trace)
{
    if (!trace)
        return;
    free(trace->streams);
    free(trace->threads);
    map_free(&trace->thread_of);
    free(trace->names);
    free(trace->counters);
    map_free(&trace->counter_of);
    free(trace);
}

API const struct blktrace_report *blktrace_report(const struct blktrace *trace)
{
    return &trace->report;
}

API const char *blktrace_event(size_t number)
{
    return number < NR_EVENTS ? EVENTS[number].name : NULL;
}

// The bytes that a stream goes on with, from the first that `blktrace_used` did not count.
API void blktrace_feed(struct blktrace *trace, size_t number, const uint8_t *data, size_t length, bool is_last)
{
    struct stream *stream = trace->streams + number;

    stream->data = data;
    stream->length = length;
    stream->place = 0;
    stream->is_last = is_last;
    stream->is_ended = stream->has_record = false;
}

// How many of the bytes that a stream was fed are done with.
API size_t blktrace_used(const struct blktrace *trace, size_t number)
{
    return trace->streams[number].place;
}

static void survey_note(struct blktrace *trace, const struct record *record, uint64_t action)
{
    struct blktrace_report *report = &trace->report;
    int64_t ts_ns = time_of(record);
    size_t length;
    const uint8_t *pdu = payload(record, action, &length);

    if ((action & TA_MASK) == NOTE_PROCESS) {
        name_thread(trace, pid_of(record), ts_ns, pdu, length);
        if (report->first_name_ns == NO_INT64 || ts_ns < report->first_name_ns)
            report->first_name_ns = ts_ns;
    } else if (length >= 8 && (report->clock_ns == NO_INT64 || ts_ns < report->clock_ns)) {
        size_t offset = (size_t)(pdu - record->at);

        report->clock_ns = ts_ns;
        report->realtime_ns = number32(record, offset) * INT64_C(1000000000) + number32(record, offset + 4);
    }
}

// Reads what a stream was fed for what its events do not say themselves.
API void blktrace_survey(struct blktrace *trace, size_t number)
{
    struct blktrace_report *report = &trace->report;
    struct stream *stream = trace->streams + number;

    while (next_record(trace, stream) == FOUND) {
        uint64_t action = action_of(&stream->record);
        enum event event = event_of(action);

        if (event == EVENT_NONE) {
            survey_note(trace, &stream->record, action);
        } else if (event != EVENT_UNKNOWN) {
            int64_t ts_ns = time_of(&stream->record);

            if (stream->is_begun && ts_ns < stream->ts_ns)
                report->is_disordered = true;
            stream->ts_ns = ts_ns;
            stream->is_begun = true;
            if (report->earliest_ns == NO_INT64 || ts_ns < report->earliest_ns)
                report->earliest_ns = ts_ns;
        }
        take(stream);
    }
}

// Ends the survey: the streams begin again. The times of names are so much ahead of those of the events.
API void blktrace_surveyed(struct blktrace *trace, int64_t shift_ns)
{
    struct blktrace_report *report = &trace->report;

    settle_names(trace, shift_ns);
    report->torn = report->gaps = report->gap_bytes = 0;
    memset(trace->streams, 0, trace->nr_streams * sizeof(*trace->streams));
}

// Makes rows of the records, earliest first, of equal times those of the first stream first. Returns the number of
// the stream that needs more, the number of streams where all are at their end, and one more where the table is full.
API size_t blktrace_merge(struct blktrace *trace, struct table *table)
{
    struct blktrace_report *report = &trace->report;
    size_t nr = trace->nr_streams;

    for (;;) {
        struct stream *first = NULL;
        struct stream *second = NULL;

        for (size_t i = 0; i < nr; i++) {
            struct stream *stream = trace->streams + i;

            if (!stream->has_record && !stream->is_ended) {
                enum found found = next_record(trace, stream);

                if (found == MORE)
                    return i;
                stream->is_ended = found == ENDED;
                stream->has_record = found == FOUND;
                stream->ts_ns = stream->has_record ? time_of(&stream->record) : 0;
            }
            if (stream->is_ended)
                continue;
            if (!first || stream->ts_ns < first->ts_ns) {
                second = first;
                first = stream;
            } else if (!second || stream->ts_ns < second->ts_ns) {
                second = stream;
            }
        }
        if (!first) {
            end_counters(trace);
            return nr;
        }
        while (first->has_record) {
            uint64_t action = action_of(&first->record);
            enum event event = event_of(action);

            if (second && (first->ts_ns > second->ts_ns || (first->ts_ns == second->ts_ns && first > second)))
                break;
            if (event > EVENT_NONE && event < EVENT_MESSAGE) {
                const struct record *record = &first->record;
                size_t device = device_offset(record);

                if (table_is_full(table))
                    return nr + 1;
                put_row(trace, table, first, event, action);
                count_missing(trace, number32(record, device), number32(record, device + 4), number32(record, 4));
            }
            report->counts[event]++;
            if (event != EVENT_NONE && event != EVENT_UNKNOWN) {
                if (report->first_ns == NO_INT64 || first->ts_ns < report->first_ns)
                    report->first_ns = first->ts_ns;
                if (report->last_ns == NO_INT64 || first->ts_ns > report->last_ns)
                    report->last_ns = first->ts_ns;
            }
            take(first);
            first->has_record = next_record(trace, first) == FOUND;
            if (first->has_record)
                first->ts_ns = time_of(&first->record);
        }
    }
}

API size_t blktrace_nr_names(const struct blktrace *trace)
{
    return trace->nr_names;
}

API size_t blktrace_nr_threads(const struct blktrace *trace)
{
    return trace->nr_threads;
}

// All threads, as they came, and the names of threads and since when they have them, by thread and time.
API void blktrace_threads(const struct blktrace *trace, uint32_t *pids, uint32_t *named, int64_t *ts_ns,
                          uint32_t *strings)
{
    for (size_t i = 0; i < trace->nr_threads; i++)
        pids[i] = trace->threads[i].pid;
    for (size_t i = 0; i < trace->nr_names; i++) {
        named[i] = trace->names[i].pid;
        ts_ns[i] = trace->names[i].ts_ns;
        strings[i] = trace->names[i].string;
    }
}
