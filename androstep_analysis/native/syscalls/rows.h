// Rows of table syscalls: a call, as its events told it, and what its arguments are.
#pragma once

#include "core/map.h"
#include "core/table.h"
#include "syscalls/call_events.h"

enum { MAX_PATHS = 4, MAX_FILES = 2 };

enum call_flags {
    CALL_OPENS = 1,         // the file that is opened meanwhile is its result
    CALL_MAKES = 2,         // makes a task, in which it ends, too
    CALL_NO_RETURN = 4,     // never returns
    CALL_FLAGS_BY_TASK = 8, // its flags are in memory; the event of the task has them
    CALL_PAIR = 16,         // makes two descriptors
    CALL_RECEIVES = 32,     // makes descriptors of those it is passed
};

struct call {
    uint32_t name; // the call that it is, by what name ever the kernel calls it
    uint32_t first;
    uint16_t count;
    uint16_t flags;
};

struct step;
struct word;
struct word_set;

// What the caller knows of calls; it must stay.
struct knowledge {
    const struct call *calls; // in the order of the first of the names
    const struct step *steps;
    const struct word *words;
    const struct word_set *sets;
    const uint32_t *numbers; // the call of each number, NO_STRING for none
    uint64_t nr_numbers;
    uint64_t nr_calls;
    struct strings *names;
    uint32_t task_words;
    uint32_t passed; // the word for descriptors that are passed
    const uint32_t *mount_devs;
    const uint32_t *mounts; // where the filesystems on them are mounted: numbers of `names`
    uint64_t nr_mounts;
    uint64_t long_bytes;
};

// A path among the arguments of a call. Texts are numbers of `rows->texts`.
struct path_argument {
    int64_t place; // where the caller has it in memory; NO_INT64 where that is not told
    uint32_t text;
};

// A file that a call opened; `fd` is NO_INT32 where its descriptor is not told.
struct opened_file {
    int64_t ino;
    int64_t size;
    int32_t fd;
    int32_t mode;
    uint32_t dev;
    uint32_t path;
};

// A call that has begun.
struct pending {
    int64_t ts_ns;
    int64_t arguments[CALL_ARGUMENTS];
    int64_t task_flags;
    struct path_argument paths[MAX_PATHS];
    struct opened_file files[MAX_FILES];
    uint32_t call;
    uint32_t comm;
    int32_t tid;
    int32_t pid;
    uint32_t nr_paths;
    uint32_t nr_files;
    bool is_begun;
};

// Where rows go, and what they are made of.
struct call_rows {
    struct knowledge knowledge;
    struct strings *texts;
    struct table *out;
    struct map texts_out; // numbers in the output, by number in `texts` or the names
    struct map words_out; // by set and bits
};

static inline const struct call *call_numbered(const struct knowledge *knowledge, uint32_t call)
{
    static const struct call unknown = {0};

    return call < knowledge->nr_calls ? &knowledge->calls[call] : &unknown;
}

// The table that rows go to, whose strings are others than before.
void rows_output(struct call_rows *rows, struct table *calls);

// The strings that texts of calls are numbers of; NULL for none any more. Those before are freed.
void rows_texts(struct call_rows *rows, struct strings *texts);

// Frees what the rows are made of, the strings too.
void rows_free(struct call_rows *rows);

// The row of a call that ended at `end_ns` with the bits `result` in the register.
void put_whole(struct call_rows *rows, const struct pending *call, int64_t end_ns, int64_t result);

// The row of a call that did not return; one that never does is whole.
void put_unfinished(struct call_rows *rows, const struct pending *call);

// The row of a call of which only the end is known.
void put_resumed(struct call_rows *rows, const struct pending *call, int64_t result);
