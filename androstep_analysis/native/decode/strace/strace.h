// The log of strace, line by line, into table syscalls.
//
// A line is [thread] [time] [number] [instruction pointer] and then a call with its result, the beginning or the end of
// one that another thread interrupted, a signal (---) or the end of a thread (+++). Which of the first four there are
// depends on strace's options; each line is read for itself.
//
// text.c takes texts apart, syscalls/names.c knows the names of calls and errors, tasks.c the threads,
// leader.c reads what stands before a call, arguments.c its arguments, rows.c makes rows,
// pending.c joins what another thread interrupted, and strace.c reads the lines.
#pragma once

#include "decode/strace/text.h"
#include "syscalls/columns.h"
#include "syscalls/names.h"

enum { SHOWN_BYTES = 80, MAX_NOTES = 256, MAX_CALLS = 512, COMM_BYTES = 32, NO_TASK = -1 };

#define NO_TIME NO_INT64

// The beginning of a call until its end comes.
struct pending {
    uint8_t *text;
    size_t length;
    int64_t ts_ns;
    int64_t line;
    size_t row; // what is there of it, as long as the table is that of `table_number`
    uint64_t table_number;
};

enum task_kind { TASK_UNKNOWN, TASK_THREAD, TASK_PROCESS };

struct task {
    int32_t tid; // NO_INT32: that of a log that does not name its thread
    int32_t parent;
    uint8_t kind;
    bool is_alive;
    bool is_pending;
    uint8_t comm[COMM_BYTES];
    size_t comm_length;
    struct pending pending;
};

// What Python reads; `first` is the first line that could not be read.
struct strace_counts {
    uint64_t lines;
    uint64_t unreadable;
    uint64_t torn;
    uint64_t unfinished;
    uint64_t resumed;
    uint64_t forgotten;
    int64_t first_ns;
    int64_t last_ns;
    int64_t pending_ns; // when the oldest call that is not yet a row began
    uint8_t is_timed;
    uint8_t first[SHOWN_BYTES];
    uint32_t first_length;
};

struct strace {
    struct strace_counts counts;
    struct call_names *names;
    struct strings *notes; // names of signals and ends, and of threads
    uint64_t note_counts[MAX_NOTES];
    uint32_t call_numbers[MAX_CALLS]; // of the table's strings
    struct scratch scratch;
    struct scratch joined;
    struct scratch mended; // a torn line with the one it goes on in
    struct scratch torn;   // the beginning of a line into which strace or the traced program has written
    size_t torn_length;
    bool is_torn_by_itself; // by strace, not by the program
    size_t pending_bytes;
    struct task *tasks;
    int nr_tasks;
    int room;
    int *slots; // of tasks by tid; -1: free
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

// Tasks do not move while a line is read: the task of the line is still needed after its call made others known.
bool tasks_reserve(struct strace *strace);

// The thread; NULL where it is not known.
struct task *task_find(const struct strace *strace, int32_t tid);

// The thread, which is taken in if it is new; NULL where memory is short.
struct task *task_of(struct strace *strace, int32_t tid);

// As task_of, and it lives.
struct task *task_live(struct strace *strace, int32_t tid);

// strace names threads on a terminal only where it traces several: a line without a name is of the only one.
struct task *task_nameless(struct strace *strace);

void task_end(struct strace *strace, struct task *task);

// Once threads have names, the one without is one of them.
void tasks_retire_nameless(struct strace *strace);

// --- what stands before a call (leader.c) ---------------------------------------------------------------------

// Takes thread, time and numbers from the start of a line; false where memory is short.
bool take_leader(struct strace *strace, struct text text, struct line *line);

// --- arguments (arguments.c) ----------------------------------------------------------------------------------

void put_arguments(struct table *table, size_t row, int number, const struct call_text *call, struct scratch *scratch);

// A descriptor and what strace says of it; columns that are not wanted are SYSCALL_NONE.
enum { SYSCALL_NONE = MAX_COLUMNS };
bool put_fd(struct table *table, size_t row, struct text text, size_t fd_column, size_t path_column, size_t kind_column,
            struct scratch *scratch);

// --- rows (rows.c) --------------------------------------------------------------------------------------------

// The time of a row: lines without one have that of the line before; in a log without times it is their order.
int64_t row_time(struct strace *strace, int64_t ts_ns);

// Puts a call into row `row`, with what of it is there; false where that makes no call.
bool call_put_at(struct strace *strace, struct table *table, size_t row, const struct call_text *call,
                 const struct task *task, enum syscall_state state, int64_t ts_ns, int64_t line);

// Puts a call into a new row. The table is as before where that makes no call.
bool call_put(struct strace *strace, struct table *table, const struct call_text *call, const struct task *task,
              enum syscall_state state, int64_t ts_ns, int64_t line);

// --- calls that other threads interrupt (pending.c) -----------------------------------------------------------

// Takes "<unfinished ...>" from the end of a line; false where there is none.
bool take_unfinished(struct text *text);

// Keeps the beginning of a call, which has a row already: most come back before the table is full, and rows stay in
// the order in which calls begin. Where there is no memory for it, the row is all there will be.
bool pending_keep(struct strace *strace, struct table *table, struct task *task, struct text text, int64_t ts_ns);

// The beginning of a call whose end never came.
void pending_put(struct strace *strace, struct table *table, struct task *task);

// <... read resumed>"abc", 3) = 3
bool pending_resume(struct strace *strace, struct table *table, const struct line *line);

// Tells in the counts when the oldest call that is not yet a row began.
void pending_find_oldest(struct strace *strace);
