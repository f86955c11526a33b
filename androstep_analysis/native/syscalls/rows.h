// Rows of table syscalls: calls as recorded by events, and the meaning of their arguments.
#pragma once

#include "core/map.h"
#include "core/table.h"
#include "syscalls/call_events.h"

enum { MAX_PATHS = 4, MAX_FILES = 2 };

enum call_flags {
    CALL_OPENS = 1,         // its result is the opened file
    CALL_MAKES = 2,         // creates a task, in which it ends as well
    CALL_NO_RETURN = 4,     // never returns
    CALL_FLAGS_BY_TASK = 8, // its flags are in memory; the event of the task contains them
    CALL_PAIR = 16,         // creates two descriptors
    CALL_RECEIVES = 32,     // creates descriptors for those passed to it
};

struct call {
    uint32_t name; // canonical name of the call
    uint32_t first;
    uint16_t count;
    uint16_t flags;
};

struct step;
struct word;
struct word_set;

// Description of calls by the caller, which must keep it allocated.
struct knowledge {
    const struct call *calls; // in the order of the first names
    const struct step *steps;
    const struct word *words;
    const struct word_set *sets;
    const uint32_t *numbers; // call of each number; NO_STRING: none
    uint64_t nr_numbers;
    uint64_t nr_calls;
    struct strings *names;
    uint32_t task_words;
    uint32_t passed; // word for passed descriptors
    const uint32_t *mount_devs;
    const uint32_t *mounts; // their mount points: indices in `names`
    uint64_t nr_mounts;
    uint64_t long_bytes;
};

// A path argument of a call. Texts are indices in `rows->texts`.
struct path_argument {
    int64_t place; // address in the caller's memory; NO_INT64: not recorded
    uint32_t text;
};

// A file opened by a call; `fd` is NO_INT32 if its descriptor was not recorded.
struct opened_file {
    int64_t ino;
    int64_t size;
    int32_t fd;
    int32_t mode;
    uint32_t dev;
    uint32_t path;
};

// A running call.
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

// Output of rows and its sources.
struct call_rows {
    struct knowledge knowledge;
    struct strings *texts;
    struct table *out;
    struct map texts_out; // indices in the output, by index in `texts` or the names
    struct map words_out; // by set and bits
};

static inline const struct call *call_numbered(const struct knowledge *knowledge, uint32_t call)
{
    static const struct call unknown = {0};

    return call < knowledge->nr_calls ? &knowledge->calls[call] : &unknown;
}

// Set the output table, whose strings are new.
void rows_output(struct call_rows *rows, struct table *calls);

// Replace the strings of the calls' texts (NULL: none) and free the previous ones.
void rows_texts(struct call_rows *rows, struct strings *texts);

// Free everything, including the strings.
void rows_free(struct call_rows *rows);

// Write the row of a call that ended at `end_ns` with the register bits `result`.
void put_whole(struct call_rows *rows, const struct pending *call, int64_t end_ns, int64_t result);

// Write the row of a call that did not return; a call that never returns is complete.
void put_unfinished(struct call_rows *rows, const struct pending *call);

// Write the row of a call with only its end recorded.
void put_resumed(struct call_rows *rows, const struct pending *call, int64_t result);
