// State of the decoder of Perfetto traces: packets with bundles of ftrace events, whose fields fill the columns of
// tables.
// - kinds.c: the meaning of events and fields
// - threads.c: names of threads over time
// - rows.c: rows from the values of an event
// - events.c: bundles of events
// - frames.c: the frame timeline
// - perfetto.c: packets
//
// Field numbers follow protos/perfetto/trace of github.com/google/perfetto, v58. Python registers the name of each
// event, the table that it fills and the meaning of its fields (ingest/perfetto/fields.py).
#pragma once

#include "core/map.h"
#include "core/protobuf.h"
#include "core/text.h"

#include <string.h>

enum {
    MAX_PACKET = 32 << 20, // no service writes larger packets; a larger length is damage
    MAX_KINDS = 8192,
    MAX_NAME = 128,
    MAX_EVENT_FIELDS = 64,
    MAX_NAMED_FIELDS = 40,
    PACKET_FIELDS = 2048,
    EVENT_NUMBERS = 1024,
    FIRST_DESCRIBED = 65536, // FtraceEvent: "range reserved for self-describing messages"
    LAST_DESCRIBED = 131072,
    MAX_SEQUENCES = 1 << 16,
    MAX_COUNTERS = 96,
    MAX_CPUS = 4096,
    PLAUSIBLE_PACKETS = 3,
    PLAUSIBLE_FIELDS = 64,
    PATH_LEVELS = 8,
};

// --- what fields mean ---

// Values of an event. Those stored unchanged have the name of their column.
#define SLOTS(X)                                                                                                       \
    X(none), X(ts_ns), X(cpu), X(tid), X(pid), X(event), X(action), X(step), X(dev), X(old_dev), X(kernel_dev),        \
        X(bio_dev), X(sector), X(old_sector), X(nr_sectors), X(new_sector), X(rwbs), X(comm), X(error), X(ino),        \
        X(parent), X(mode), X(nlink), X(file_block), X(block), X(nr_blocks), X(status), X(offset_bytes), X(nr_bytes),  \
        X(page), X(last_page), X(page_order), X(old_block), X(transaction), X(name), X(new_name), X(type), X(found),   \
        X(bdi), X(child), X(name0), X(name1), X(name2), X(name3), X(name4), X(name5), X(name6), X(name7),              \
        X(new_name0), X(new_name1), X(new_name2), X(new_name3), X(new_name4), X(new_name5), X(new_name6),              \
        X(new_name7), X(thread), X(old_comm), X(new_comm), X(flags), X(filename), X(prev_thread), X(prev_comm),        \
        X(device), X(tag), X(opcode), X(lba), X(transfer_len), X(step_text), X(step_code), X(host), X(channel), X(id), \
        X(lun), X(cdb), X(result), X(blocks), X(block_bytes), X(cmd_err), X(data_err), X(stop_err), X(phase),          \
        X(number), X(argument0), X(argument1), X(argument2), X(argument3), X(argument4), X(argument5), X(task),        \
        X(task_comm), X(oom_score_adj), X(clone_flags), X(prev_state), X(io_wait), X(ioprio)

#define SLOT_NUMBER(name) SLOT_##name
enum slot { SLOTS(SLOT_NUMBER), NR_SLOTS };

enum { FIRST_COUNTER = 128, NO_COLUMN = 255 }; // a role is a slot, or FIRST_COUNTER plus the index of a counter

enum target {
    TO_NOTHING,
    TO_BLOCK,
    TO_FS,
    TO_COMMANDS,
    TO_CALLS,
    TO_FRAMES,
    TO_IMPORTANCE,
    TO_SWITCHES,
    TO_SAMPLES,
    NEW_TASK,
    FORK,
    RENAME,
    EXEC,
    SWITCH,
    WAKE,
    NR_TARGETS,
};
#define NR_TABLES (TO_SAMPLES + 1)

struct named_field {
    char name[32];
    uint8_t role;
};

// A kind of event, by its name.
struct event {
    char name[MAX_NAME];
    uint8_t length;
    uint8_t target;
    uint8_t code;   // value of the enum `event` (fs_events, commands) or `action` (block_events)
    uint32_t event; // its name as a string of the tables
    uint64_t count;
    unsigned nr_fields;
    struct named_field fields[MAX_NAMED_FIELDS];
};

// Layout of the message of an event: its kind, and the role of each field.
struct shape {
    struct event *kind;
    uint8_t roles[MAX_EVENT_FIELDS];
};

struct value {
    uint64_t number;
    struct wire text;
};

struct counter {
    uint32_t name;
    uint32_t unit;
};

// --- state ---

enum task_step { TASK_SEEN, TASK_NEW, TASK_FORK, TASK_RENAME, TASK_EXEC };

// A row on the name of a thread.
struct task_row {
    int64_t ts_ns;
    int64_t order;
    uint64_t flags;
    int32_t tid;    // the thread that was running
    int32_t thread; // the thread that the event describes
    uint32_t comm;
    uint32_t old_comm;
    uint32_t step;
    uint32_t unused;
};

// A packet for Python to decode.
struct note {
    uint64_t offset;
    uint64_t length;
    uint64_t timestamp;
    uint32_t number; // of the field with its data
    uint32_t clock;  // of the timestamp; 0: not recorded
    uint32_t sequence;
    uint32_t is_timed;
};

struct totals {
    int64_t first_ns;
    int64_t last_ns;
    int64_t events;
    int64_t settled_ns; // no earlier event will come
    int64_t lost_bundles;
    int64_t unreadable_events;
    int64_t unreadable_packets;
    int64_t torn;         // packets truncated by the end of the file
    int64_t dropped;      // gaps between the packets of a sequence
    int64_t stateless;    // packets whose sequence lost the state that they need
    int64_t foreign;      // packets of another machine
    int64_t page_errors;  // pages of the kernel's buffer that the recorder could not read
    int64_t clock;        // FtraceClock of the events; 0: CLOCK_BOOTTIME
    int64_t mixed_clocks; // bundles with another clock than `clock`
    int64_t boot_offset;  // CLOCK_BOOTTIME minus that clock
    int64_t bundles;
};

struct sequence {
    uint32_t clock;
    bool is_whole;
};

struct thread {
    int64_t first_ns; // first run: when the last name was first and last seen
    int64_t last_ns;
    int32_t tid;
    uint32_t comm;  // first run: the last name
    uint32_t first; // second run: the first of its versions
    uint32_t count;
};

// Names of threads, sorted by thread and time, each from `from_ns` on. Python owns the arrays.
struct versions {
    const int32_t *tids;
    const int64_t *from_ns;
    const uint32_t *comms;
    const int32_t *pids;
    size_t count;
};

// Where to resume in a packet after the tables were drained.
struct cursor {
    size_t event;
    bool is_inside;
};

struct perfetto {
    struct totals totals;
    struct strings *strings;
    struct event *kinds[MAX_KINDS + 1]; // the last one counts events beyond the limit
    unsigned nr_kinds;
    struct strings *kind_names; // string `n` is the name of kind `n`
    struct shape *shapes[EVENT_NUMBERS];
    struct shape **described;
    uint64_t unknown_numbers[EVENT_NUMBERS];
    uint64_t packets[PACKET_FIELDS];
    uint8_t columns[NR_TABLES][NR_SLOTS];
    struct counter counters[MAX_COUNTERS];
    unsigned nr_counters;
    uint8_t action_other;
    uint32_t status_texts[32];
    uint32_t types[3];
    uint32_t no_text;

    struct sequence *sequences;
    size_t nr_sequences;
    size_t sequences_capacity;
    struct map sequence_of; // index in `sequences` plus one, by id

    struct thread *threads;
    size_t nr_threads;
    size_t threads_capacity;
    struct map thread_of; // index in `threads` plus one, by tid
    struct versions versions;
    bool is_named; // second run: names are known and rows are made

    struct task_row *tasks;
    size_t nr_tasks;
    size_t tasks_capacity;

    struct cursor cursors[2]; // of the file, of a compressed packet
    int64_t nr_frames;        // rows of the frame timeline so far

    uint8_t in_round[MAX_CPUS / 8];
    int32_t round_cpu;
    bool round_has_other;
    int64_t round_ns; // earliest of the last times of each CPU in the current round
    int64_t cpu_ns;

    // The current event.
    struct value values[NR_SLOTS];
    uint8_t used[NR_SLOTS];
    unsigned nr_used;
    bool has[NR_SLOTS];
    struct {
        uint8_t counter;
        uint64_t value;
    } samples[MAX_EVENT_FIELDS];
    unsigned nr_samples;
};

// Buffers that a call fills.
struct output {
    struct table *tables[NR_TABLES];
    struct note *notes;
    size_t nr_notes;
    size_t notes_capacity;
};

enum status { DONE, FULL, COMPRESSED };

// --- values of an event ---

static inline bool has_number(const struct perfetto *trace, enum slot slot)
{
    return trace->has[slot] && !trace->values[slot].text.at;
}

static inline bool has_text(const struct perfetto *trace, enum slot slot)
{
    return trace->has[slot] && trace->values[slot].text.at;
}

// Returns the text of a slot; empty if it has none.
static inline struct text slot_text(const struct perfetto *trace, enum slot slot)
{
    const struct wire *wire = &trace->values[slot].text;

    return has_text(trace, slot) ? (struct text){wire->at, wire->end} : (struct text){NULL, NULL};
}

// Stores the value of a field under its role. Values without a role are ignored.
static inline void take_value(struct perfetto *trace, uint8_t role, const struct field *field)
{
    if (role >= FIRST_COUNTER) {
        if (field->type == WIRE_VARINT && trace->nr_samples < MAX_EVENT_FIELDS) {
            trace->samples[trace->nr_samples].counter = role - FIRST_COUNTER;
            trace->samples[trace->nr_samples++].value = field->value;
        }
        return;
    }
    if (role >= NR_SLOTS)
        return;
    while (role >= SLOT_argument0 && role < SLOT_argument5 &&
           trace->has[role]) // a repeated field fills the next argument
        role++;
    trace->values[role] = (struct value){field->value, field->bytes};
    if (!trace->has[role]) {
        trace->has[role] = true;
        trace->used[trace->nr_used++] = role;
    }
}

// Stores a derived number as take_value does.
static inline void give_value(struct perfetto *trace, enum slot slot, uint64_t number)
{
    struct field field = {.type = WIRE_VARINT, .value = number};

    take_value(trace, slot, &field);
}

// Clears the values before the next event.
static inline void forget_values(struct perfetto *trace)
{
    while (trace->nr_used)
        trace->has[trace->used[--trace->nr_used]] = false;
    trace->nr_samples = 0;
}

// Returns the slot's text as a string of the tables; NO_STRING if it has none.
static inline uint32_t text_number(struct perfetto *trace, enum slot slot)
{
    struct text text = slot_text(trace, slot);

    return has_text(trace, slot) ? strings_add(trace->strings, text.at, text_length(text)) : NO_STRING;
}

// --- kinds of events (kinds.c) ---

// Returns the kind with this name and adds it if it is new. At the limit it returns the kind for all others.
struct event *kind_of(struct perfetto *trace, const uint8_t *name, size_t length);
uint8_t role_of(const struct event *kind, const uint8_t *name, size_t length);

// Reads FtraceEventBundle.GenericEventDescriptor: an event that the recorder knew only from the kernel's format file.
void describe(struct perfetto *trace, struct wire descriptor);
void free_kinds(struct perfetto *trace);

// --- threads (threads.c) ---

// Adds a task row if the thread or its name is new. `comm` is NO_STRING if the event has only the thread id.
void thread_seen(struct perfetto *trace, int64_t ts_ns, int32_t tid, uint32_t comm);

// Returns the index of the thread's name at that time; -1 if none is known.
ptrdiff_t version_at(const struct perfetto *trace, int32_t tid, int64_t ts_ns);

// Adds the task row of the current event.
void append_task(struct perfetto *trace, enum target target, int64_t ts_ns, int32_t tid);

// --- rows (rows.c) ---

// Appends the row of the current event. The table must have a free row.
void append_row(struct perfetto *trace, const struct event *kind, struct table *table, int64_t ts_ns);

// Appends the row of a new task to table importance. The table must have a free row.
void append_new_task(struct perfetto *trace, struct table *table);

// Appends the rows of a sched_switch to table switch_events, for main threads that begin to sleep uninterruptibly or to
// run. The table must have two free rows.
void append_switch(struct perfetto *trace, struct table *table, int64_t ts_ns);

// --- frames (frames.c) ---

// Appends a FrameTimelineEvent to `table`, which must have a free row. Without a table it only checks for damage.
void read_frame(struct perfetto *trace, struct wire message, uint64_t timestamp, uint32_t clock, struct table *table);

// --- events (events.c) ---

// Decodes a bundle. Returns false if a table is full; `cursor` then has the position to resume at.
bool read_bundle(struct perfetto *trace, struct wire message, struct output *output, struct cursor *cursor);
