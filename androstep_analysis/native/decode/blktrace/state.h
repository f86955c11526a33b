// State of the decoder of blktrace's binary records (Linux, include/uapi/linux/blktrace_api.h). A recording has one
// stream for each CPU.
// - records.c: the records of one stream
// - threads.c: names of threads over time
// - sequences.c: missing events
// - rows.c: rows of table block_events
// - blktrace.c: merging of the streams
#pragma once

#include "core/map.h"
#include "core/table.h"

#include <string.h>

// Linux writes version 7. On request (BLKTRACESETUP2) 6.19 and later write version 8, which has a wider action.
enum { VERSION = 7, VERSION2 = 8, HEADER_BYTES = 48, HEADER2_BYTES = 64, CGROUP_BYTES = 8 };

// The lower half of an action is the event (enum blktrace_act), the upper half its categories (enum blktrace_cat).
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

// Events by the kernel's numbers (enum blktrace_act). The last three have no number of their own: the sector that a
// zone append wrote, a message, and an event that no kernel documents.
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

// Operations as blkparse writes them. Those on zones are named as in blk_fill_rwbs of Linux 6.19.
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

// Totals of a recording. Python reads this struct as it lies in memory.
struct blktrace_report {
    uint64_t counts[NR_EVENTS];
    int64_t first_ns; // of all events; NO_INT64 if there are none
    int64_t last_ns;
    uint64_t torn;          // incomplete records
    uint64_t gaps;          // ranges where no record begins
    uint64_t gap_bytes;     // their bytes
    uint64_t missing;       // events missing by their sequence numbers
    uint64_t names_left;    // names dropped at the limit of the table or without memory
    int64_t clock_ns;       // of the first wall clock notification (BLK_TN_TIMESTAMP); NO_INT64 if there is none
    int64_t realtime_ns;    // the wall clock at `clock_ns`
    int64_t first_name_ns;  // of the first name of a thread; NO_INT64 if there is none
    int64_t earliest_ns;    // as first_ns, but set by the survey; NO_INT64 if there are no events
    uint32_t is_disordered; // a stream goes back in time
};

struct name {
    int64_t ts_ns;
    uint32_t pid;
    uint32_t string;
};

struct thread {
    uint32_t pid;
    uint32_t first; // index of its first name in `names`
    uint32_t nr_names;
    uint32_t string; // its last name during the survey
};

struct counter {
    uint32_t sequence;
    uint32_t doubtful; // last number that did not follow
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
    size_t offset;
    bool is_last; // no data follows
    bool is_ended;
    bool has_record;
    bool in_gap;
    bool is_begun; // a record was read
    int64_t ts_ns; // of `record`
    struct record record;
};

struct blktrace {
    struct blktrace_report report;
    struct strings *strings;
    struct stream *streams;
    size_t nr_streams;
    struct thread *threads;
    size_t nr_threads;
    size_t threads_capacity;
    struct map thread_of; // index in `threads` plus one, by pid
    struct name *names;
    size_t nr_names;
    size_t names_capacity;
    struct counter *counters;
    size_t nr_counters;
    size_t counters_capacity;
    struct map counter_of; // index in `counters` plus one, by device and CPU
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

// Field offsets. Up to byte 28 both versions agree.
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

// Finds the next record of a stream without consuming it.
enum progress record_next(struct blktrace *trace, struct stream *stream);

static inline void record_take(struct stream *stream)
{
    stream->offset += stream->record.header + stream->record.pdu;
}

// Returns the payload without the cgroup id that may precede it (BLK_TA_CGROUP).
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

// Returns the thread with this pid and adds it if it is new; NULL at the limit or without memory. The pointer is valid
// until the next call.
struct thread *thread_get(struct blktrace *trace, uint32_t pid);

// Records the name that a thread has from `ts_ns` on.
void thread_rename(struct blktrace *trace, uint32_t pid, int64_t ts_ns, const uint8_t *text, size_t length);

// Sorts the names by thread and time and subtracts `shift_ns`, the lead of their clock over that of the events.
void threads_settle(struct blktrace *trace, int64_t shift_ns);

// Returns the name of the thread at `ts_ns`, or else its first one. A thread may be named slightly after its first
// event: it is named when first seen, and the clocks of two CPUs may differ.
uint32_t thread_name_at(const struct blktrace *trace, const struct thread *thread, int64_t ts_ns);

// --- sequence numbers (sequences.c) -------------------------------------------------------------------------

// Compares the number of an event with the last one of its device and CPU.
void sequence_seen(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence);

// Counts the gaps that are still unconfirmed after the last event.
void sequences_end(struct blktrace *trace);

// --- rows (rows.c) ------------------------------------------------------------------------------------------

// Appends the row of the stream's record, which must be an event. The table must have a free row.
void append_record(struct blktrace *trace, struct table *table, const struct stream *stream, enum event event,
                   uint64_t action);
