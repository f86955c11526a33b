// Files, the lifetimes of their inodes, and the page cache state of their blocks.
#pragma once

#include "core/map.h"
#include "pagecache/pagecache.h"
#include "pagecache/process_set.h"
#include "pagecache/touches.h"

struct writeback {
    int64_t ts_ns;
    int32_t tid;
};

// A dirty interval that ended while a write was in flight, which may belong to it or to the next one.
struct pending_interval {
    struct dirty_interval interval;
    struct writeback writeback;
    struct touches touches;
    uint64_t lifetime;
    bool records_dirty;
    bool is_write_moved; // its last write belongs to the next interval, and is_clean_if_moved holds
    bool is_clean_if_moved;
    struct touch moved;            // that write, if this is the interval that it was moved from; else all zeros
    uint32_t nr_in_flight;         // the writes that it waits for
    struct pending_interval *next; // of the same block
};

struct block {
    struct touches touches;
    struct pending_interval *pending; // the oldest one whose last write may belong to the next interval
    int64_t file_block;
    int64_t touched_ns;
    int64_t absent_ns;
    uint64_t writeback; // sequence number of the last writeback, or 0
    int32_t writeback_tid;
    uint32_t next; // block of the same lifetime, or NO_BLOCK; of a free block, the next free one plus 1
    uint8_t is_in_folio;
    uint8_t order; // of the folio that begins here; NO_CODE: unknown
    uint8_t is_clean;
    uint8_t was_clean;    // before the last touch
    uint8_t is_redirtied; // it was dirty again when its last writeback began
    uint8_t is_retained;  // its only touch is a write in flight that began before the block was added or dropped
};

struct file {
    uint64_t lifetime; // unique among all files
    uint32_t dev;
    uint32_t first; // block of this lifetime, or NO_BLOCK
    struct process_set dirtiers;
    bool is_new_inode;
};

// The maps contain the index of an object plus 1.
struct blocks {
    struct file *files;
    size_t nr_files;
    size_t files_capacity;
    struct block *blocks;
    size_t nr_blocks;
    size_t blocks_capacity;
    uint32_t free; // the first free block plus 1, or 0
    uint64_t nr_lifetimes;
    struct map file_index;  // by device and inode
    struct map block_index; // by lifetime and block of the file
};

#define NO_BLOCK UINT32_MAX

// Return the file, adding it if it is new; NULL if memory runs out.
struct file *add_file(struct blocks *blocks, uint32_t dev, int64_t ino);

// Return the block in this lifetime, or NULL.
struct block *find_block(const struct blocks *blocks, uint64_t lifetime, int64_t file_block);

// Return the block in the file's lifetime, adding it if it is new; NULL if memory runs out.
struct block *add_block(struct blocks *blocks, struct file *file, int64_t file_block);

// Drop all pages of the inode. Its blocks are free for reuse.
void end_lifetime(struct blocks *blocks, struct file *file);
void free_blocks(struct blocks *blocks);
