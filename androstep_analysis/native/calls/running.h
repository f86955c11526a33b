// Calls that have begun and not yet ended, by their ends.
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
    int32_t sized; // inode whose size it changes or tells
    bool is_alone, is_alone2, is_sized_alone, changes_size;
};

// Calls under way by their ends. One that ended before its turn keeps its place until then.
struct heap_place {
    int64_t end_ns;
    int32_t call;
};

struct running_calls {
    struct storage *storage;
    struct running *running;
    size_t nr_running, room_running;
    int32_t free; // first of those that can be used again
    struct heap_place *heap;
    size_t nr_heap, room_heap;
};

void running_free(struct running_calls *queue);
void running_add(struct running_calls *queue, struct threads *threads, const struct running *call);

// The next call that ended until then, which leaves the heap; NO_INDEX where there is none.
int32_t running_next(struct running_calls *queue, int64_t ts_ns);

// The call that left the heap comes again after all others.
void running_postpone(struct running_calls *queue, int32_t number);

// The call that left the heap is done with.
void running_forget(struct running_calls *queue, int32_t number);

// Ends the call; false where it has ended before.
bool running_end(struct running_calls *queue, struct threads *threads, int32_t number, struct running *call);

// The call that returns the descriptor `fd` to the process of the thread, where it is about to; NO_INDEX where none is.
int32_t running_opener(const struct running_calls *queue, const struct threads *threads, const struct calls_input *in,
                       int32_t thread, int32_t fd);
