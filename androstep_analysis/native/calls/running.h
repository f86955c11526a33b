// Running calls, sorted by their ends.
#pragma once

#include "calls/input.h"
#include "calls/threads.h"

// A call that has begun and not ended.
struct running {
    int64_t end_ns;
    int32_t next_free;
    bool is_over;
    uint32_t row;
    int32_t thread, operation;
    int32_t descriptor, descriptor2;
    uint32_t position_version, position_version2, size_version;
    int32_t sized; // inode whose size it changes or returns
    bool is_alone, is_alone2, is_sized_alone, changes_size;
};

// Entry of the heap of running calls. A call that was ended before its recorded end stays in the heap until then.
struct heap_entry {
    int64_t end_ns;
    int32_t call;
};

struct running_calls {
    struct storage *storage;
    struct running *running;
    size_t nr_running, running_capacity;
    int32_t free; // the first unused one
    struct heap_entry *heap;
    size_t nr_heap, heap_capacity;
};

void running_free(struct running_calls *queue);
void running_add(struct running_calls *queue, struct threads *threads, const struct running *call);

// Removes the next call that ended by `ts_ns` from the heap; NO_INDEX if there is none.
int32_t running_next(struct running_calls *queue, int64_t ts_ns);

// Adds a removed call again, after all others.
void running_postpone(struct running_calls *queue, int32_t index);

// Frees the entry of a removed call.
void running_forget(struct running_calls *queue, int32_t index);

// Ends the call; false if it has ended already.
bool running_end(struct running_calls *queue, struct threads *threads, int32_t index, struct running *call);

// Returns the running call that is about to return `fd` to the process of the thread; NO_INDEX if there is none.
int32_t running_opener(const struct running_calls *queue, const struct threads *threads, const struct calls_input *in,
                       int32_t thread, int32_t fd);
