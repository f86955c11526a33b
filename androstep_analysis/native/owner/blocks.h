// What is known of each block of a file in the cache: what happened to it since it was last written out or dropped.
#pragma once

#include "core/array.h"
#include "core/map.h"
#include "owner/owners.h"

// What an event says of a block.
enum touch_kind { TOUCH_WRITE, TOUCH_STORE, TOUCH_DIRTY, TOUCH_MAYBE };

struct step {
    int64_t ts_ns;
    uint64_t event; // its number
    uint32_t thread;
    uint8_t kind;
    uint8_t is_begun;   // the page may become dirty by it later
    uint8_t is_writing; // the thread may still be in a write or store to some page of the file
    uint8_t is_late;    // a write that was under way when the block was written out, or absent
};

struct steps {
    struct step *steps;
    uint32_t count;
    uint32_t room;
};

// When and by whom a block is written out.
struct out {
    int64_t ts_ns;
    int32_t tid;
};

// A turn that is not decided yet: it may lack its last write, or the end of one.
struct waiting {
    struct turn turn;
    struct out out;
    struct steps steps;
    uint64_t life;
    bool tells_dirty;
    bool is_late; // a write was under way: `is_clean_if_late` tells then
    bool is_clean_if_late;
    struct step moved;    // that write, where it was the last step here; else all zeros
    uint32_t opens;       // for so many open writes it waits
    struct waiting *next; // of the same block
};

struct block {
    struct steps steps;
    struct waiting *waiting; // the oldest, of those whose last write may still turn out to be under way
    int64_t file_block;
    int64_t touched_ns;
    int64_t absent_ns;
    uint64_t out; // number of the event that wrote it out last; 0: there was none
    int32_t out_tid;
    uint32_t next; // of the same life, or NO_BLOCK
    uint8_t is_in_folio;
    uint8_t order; // of the folio that begins here; NO_CODE where it is not told
    uint8_t is_clean;
    uint8_t was_clean; // before the last step
    uint8_t is_ahead;  // it was dirty again when it was written out last
    uint8_t is_kept;   // its only step is a write that may be under way, from before it was last absent
};

// Processes, each once, in order.
struct set {
    int64_t *processes;
    size_t count;
    size_t room;
};

struct file {
    uint64_t life; // a number that no other life has
    uint32_t dev;
    uint32_t first; // block of this life, or NO_BLOCK
    struct set changers;
    bool is_reborn;
};

struct blocks {
    struct file *files;
    size_t nr_files;
    size_t files_room;
    struct block *blocks;
    size_t nr_blocks;
    size_t blocks_room;
    uint32_t free; // the first of those that are not used
    uint64_t lives;
    struct map of_files; // by device and inode: number of the file, from 1 on
    struct map of_lives; // by life and block of the file: number of the block, from 1 on
};

#define NO_BLOCK UINT32_MAX

// The file of that number on the device, which is taken in if it is new; NULL where memory is short.
struct file *blocks_file(struct blocks *blocks, uint32_t dev, int64_t ino);

// The block of the file's life; NULL where it is not there, or for blocks_add where memory is short.
struct block *blocks_find(const struct blocks *blocks, uint64_t life, int64_t file_block);
struct block *blocks_add(struct blocks *blocks, struct file *file, int64_t file_block);

// The file's pages are gone: what was known of its blocks, too.
void blocks_forget(struct blocks *blocks, struct file *file);
void blocks_free(struct blocks *blocks);

bool set_add(struct set *set, int64_t process);
bool set_has(const struct set *set, int64_t process);

static inline const struct step *steps_last(const struct steps *steps)
{
    return &steps->steps[steps->count - 1];
}

// A step at the end. False where memory is short.
bool steps_add(struct steps *steps, const struct step *step);
void steps_remove(struct steps *steps, size_t at);
