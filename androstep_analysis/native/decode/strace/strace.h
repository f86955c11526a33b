// Decodes the log of strace into table syscalls.
//
// A line is [thread] [time] [number] [instruction pointer], followed by one of these:
// - a call with its result
// - the beginning or the end of a call that another thread interrupted
// - a signal (---) or the end of a thread (+++)
//
// The options of strace select the parts of the prefix. They are detected for each line on its own.
// - text.c: numbers, strings, lists
// - syscalls/names.c: names of calls and errors
// - tasks.c: threads
// - leader.c: the prefix of a line
// - arguments.c: the arguments of a call
// - rows.c: rows
// - pending.c: interrupted calls
// - strace.c: lines
#pragma once

#include "decode/strace/text.h"
#include "syscalls/columns.h"
#include "syscalls/names.h"

enum { SHOWN_BYTES = 80, MAX_NOTES = 256, MAX_CALLS = 512, COMM_BYTES = 32, NO_TASK = -1 };

#define NO_TIME NO_INT64

// The beginning of an interrupted call.
struct pending {
    uint8_t *text;
    size_t length;
    int64_t ts_ns;
    int64_t line;
    size_t row; // its row, valid while the table is `table_number`
    uint64_t table_number;
};

enum task_kind { TASK_UNKNOWN, TASK_THREAD, TASK_PROCESS };

struct task {
    int32_t tid; // NO_INT32: the thread of a log that does not name it
    int32_t parent;
    uint8_t kind;
    bool is_alive;
    bool is_pending;
    uint8_t comm[COMM_BYTES];
    size_t comm_length;
    struct pending pending;
};

// Totals that Python reads. `first` is the first line that could not be parsed.
struct strace_counts {
    uint64_t lines;
    uint64_t unreadable;
    uint64_t torn; // last lines without an end
    uint64_t unfinished;
    uint64_t resumed;
    uint64_t forgotten;
    int64_t first_ns;
    int64_t last_ns;
    int64_t pending_ns; // start of the oldest interrupted call
    uint8_t is_timed;
    uint8_t first[SHOWN_BYTES];
    uint32_t first_length;
};

struct strace {
    struct strace_counts counts;
    struct call_names *names;
    struct strings *notes; // names of signals, exits and threads
    uint64_t note_counts[MAX_NOTES];
    uint32_t call_numbers[MAX_CALLS]; // call names as strings of the table
    struct scratch scratch;
    struct scratch joined;
    struct scratch continued;   // an interrupted line and its continuation
    struct scratch interrupted; // the beginning of a line interrupted by output of strace or the traced program
    size_t interrupted_length;
    bool is_interrupted_by_strace;
    size_t pending_bytes;
    struct task *tasks;
    int nr_tasks;
    int capacity;
    int *slots; // slots of tasks by tid; -1: free
    size_t mask;
    int last_task;
    int nr_alive;
    int32_t default_tid;
    int64_t order;         // of the line, in all files of a set
    uint64_t table_number; // how often the table was empty
    int64_t time_ns;
    int64_t days_ns;
    int64_t last_of_day;
    bool has_calls;
    bool in_summary;
};

struct line {
    struct text text;
    struct task *task;
    int64_t ts_ns;
};

// --- threads (tasks.c) ----------------------------------------------------------------------------------------

bool tasks_grow(struct strace *strace);

// Grows the array of tasks before a line is read, so that it does not move until the line is done: the task of the line
// is still used after its call added tasks.
bool tasks_reserve(struct strace *strace);

// Returns the thread, or NULL if it is unknown.
struct task *task_find(const struct strace *strace, int32_t tid);

// Returns the thread and adds it if it is new; NULL without memory.
struct task *task_of(struct strace *strace, int32_t tid);

// As task_of, and marks the thread as alive.
struct task *task_live(struct strace *strace, int32_t tid);

// Returns the thread of a line without a thread id. On a terminal strace prints ids only when it traces several
// threads, so the line belongs to the only one alive.
struct task *task_nameless(struct strace *strace);

void task_end(struct strace *strace, struct task *task);

// Ends the thread without an id: once lines have ids, it is one of those threads.
void tasks_retire_nameless(struct strace *strace);

// --- what stands before a call (leader.c) ---------------------------------------------------------------------

// Reads the prefix of a line; false without memory.
bool take_leader(struct strace *strace, struct text text, struct line *line);

// --- arguments (arguments.c) ----------------------------------------------------------------------------------

void put_arguments(struct table *table, size_t row, const char *roles, const struct call_text *call,
                   struct scratch *scratch);

// Stores a descriptor and its decoration. SYSCALL_NONE skips a column.
enum { SYSCALL_NONE = MAX_COLUMNS };
bool put_fd(struct table *table, size_t row, struct text text, size_t fd_column, size_t path_column, size_t kind_column,
            struct scratch *scratch);

// --- rows (rows.c) --------------------------------------------------------------------------------------------

// Returns the time of a row. A line without a time gets that of the line before. In a log without times it is the order
// of the lines.
int64_t row_time(struct strace *strace, int64_t ts_ns);

// Writes a call into row `row`; false if it cannot be parsed.
bool call_write(struct strace *strace, struct table *table, size_t row, const struct call_text *call,
                const struct task *task, enum syscall_state state, int64_t ts_ns, int64_t line);

// Appends the row of a call. The table is unchanged if the call cannot be parsed.
bool call_append(struct strace *strace, struct table *table, const struct call_text *call, const struct task *task,
                 enum syscall_state state, int64_t ts_ns, int64_t line);

// --- calls that other threads interrupt (pending.c) -----------------------------------------------------------

// Strips "<unfinished ...>" from the end of a line; false without it.
bool take_unfinished(struct text *text);

// Saves the beginning of a call and appends its row at once, so that rows stay in the order in which calls begin. Most
// calls return before the table is full. Without memory the row stays unfinished.
bool pending_keep(struct strace *strace, struct table *table, struct task *task, struct text text, int64_t ts_ns);

// Appends the beginning of a call that never returned.
void pending_append(struct strace *strace, struct table *table, struct task *task);

// Completes a call from its end: <... read resumed>"abc", 3) = 3
bool pending_resume(struct strace *strace, struct table *table, const struct line *line);

// Sets counts.pending_ns to the start of the oldest interrupted call.
void pending_find_oldest(struct strace *strace);
