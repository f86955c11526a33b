// blktrace's binary records (Linux, include/uapi/linux/blktrace_api.h): several streams, one a CPU, merged by time.
//
// records.c finds the records in a stream, threads.c knows who bore which name, sequences.c
// counts events that are missing, rows.c makes rows, and blktrace.c merges the streams.
#pragma once

#include "core/map.h"
#include "core/table.h"

#include <string.h>

// Versions 7 and, since Linux 6.19 on request (BLKTRACESETUP2), 8, whose action is wider.
enum { VERSION = 7, VERSION2 = 8, HEADER_BYTES = 48, HEADER2_BYTES = 64, CGROUP_BYTES = 8 };

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

enum { NR_FLAGS = 5, NR_RWBS = NR_OPS << NR_FLAGS };

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

// --- fields of a record ----------------------------------------------------------------------------------------------

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

// --- records (records.c) ------------------------------------------------------------------------------------

enum progress { RECORD_WHOLE, MORE, ENDED };

// The next record of a stream, which is not taken from it yet.
enum progress record_next(struct blktrace *trace, struct stream *stream);

static inline void record_take(struct stream *stream)
{
    stream->place += stream->record.header + stream->record.pdu;
}

// What follows the header, without the control group that may stand before it (BLK_TA_CGROUP).
static inline const uint8_t *record_payload(const struct record *record, uint64_t action, size_t *length)
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

static inline enum event event_of(uint64_t action)
{
    uint64_t what = action & TA_MASK;

    if (action & TC_NOTIFY)
        return what == NOTE_MESSAGE ? EVENT_MESSAGE : what < NOTE_MESSAGE ? EVENT_NONE : EVENT_UNKNOWN;
    if (what == EVENT_COMPLETE && !(action & TC_COMPLETE) && action & TC_ZONE_APPEND)
        return EVENT_ZONE_APPEND;
    return what > EVENT_NONE && what < EVENT_ZONE_APPEND ? (enum event)what : EVENT_UNKNOWN;
}

// --- threads (threads.c) ------------------------------------------------------------------------------------

// The thread of this number until the next one is asked for, which is taken in if it is new; NULL where there is no
// room.
struct thread *thread_get(struct blktrace *trace, uint32_t pid);

// Notes the name that a thread has from `ts_ns` on.
void thread_rename(struct blktrace *trace, uint32_t pid, int64_t ts_ns, const uint8_t *text, size_t length);

// Sorts the names by thread and time; all of them are so much ahead of the events.
void threads_settle(struct blktrace *trace, int64_t shift_ns);

// The name of the thread then, else its first one: a thread is noted where it is first seen, and the clocks of two
// CPUs may differ a little.
uint32_t thread_name_at(const struct blktrace *trace, const struct thread *thread, int64_t ts_ns);

// --- sequence numbers (sequences.c) -------------------------------------------------------------------------

// An event of a device has this number on its CPU.
void sequence_seen(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence);

// After the last event: what is doubtful is taken for right.
void sequences_end(struct blktrace *trace);

// --- rows (rows.c) ------------------------------------------------------------------------------------------

// A row of the stream's record, which is an event. There must be room.
void put_record(struct blktrace *trace, struct table *table, const struct stream *stream, enum event event,
                uint64_t action);
