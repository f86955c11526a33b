// What happened to each block of a file, in order of time.
#pragma once

#include "core/map.h"
#include "owner/authors.h"

struct step {
    size_t row; // of the touches, or of the outs
    bool is_out;
    bool is_writing; // the thread may still be in a write or store to some page of the file
    bool is_gone;    // what it put into the page was dropped
};

struct block {
    size_t first; // its first step
    size_t steps;
    size_t out;      // one more than the number of the event that wrote it out last; 0: there was none
    int32_t out_tid; // the last one that is known
    uint32_t life;   // from 1 on
    bool is_reborn;  // of a life whose begin is told: no page is older
};

struct history {
    const struct touches *touches;
    const struct outs *outs;
    struct block *blocks;
    size_t nr_blocks;
    size_t room;
    struct step *steps; // of one block after the other
    struct map files;   // by device and inode
    struct map lives;   // by file and life
    struct map numbers; // of blocks, by life and block of the file
    struct map makers;  // by file and thread: one more than the number of its last write or store
};

// Gives each block its steps, those that took effect late where they did. False where memory is short.
bool history_make(struct history *history, const struct touches *touches, const struct outs *outs);
void history_free(struct history *history);

static inline bool touch_makes(uint8_t kind)
{
    return kind == TOUCH_WRITE || kind == TOUCH_STORE;
}
