// The events of a block since its last writeback.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// TOUCH_MAYBE: a write, store or dirtying event that may concern only another block of the page or folio.
enum touch_kind { TOUCH_WRITE, TOUCH_STORE, TOUCH_DIRTY, TOUCH_MAYBE };

struct touch {
    int64_t ts_ns;
    uint64_t event; // its sequence number
    uint32_t thread;
    uint8_t kind;
    uint8_t may_dirty;       // a write or store whose dirtying event may still follow
    uint8_t is_within_write; // the thread may still be within a write or store to some page of the file
    uint8_t was_in_flight;   // a write that began before the last writeback or drop of the block
};

struct touches {
    struct touch *touches;
    uint32_t count;
    uint32_t capacity;
};

static inline bool is_modification(const struct touch *touch)
{
    return touch->kind == TOUCH_WRITE || touch->kind == TOUCH_STORE;
}

static inline const struct touch *last_touch(const struct touches *touches)
{
    return &touches->touches[touches->count - 1];
}

// Return false if memory runs out.
bool append_touch(struct touches *touches, const struct touch *touch);
void remove_touch(struct touches *touches, size_t at);
