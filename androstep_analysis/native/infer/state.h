// State of the inference pass, shared by its files: pages.c has the dirty pages, rules.c the rules, infer.c the events.
#pragma once

#include "core/map.h"
#include "infer/infer.h"

#define NOTHING          SIZE_MAX
#define INLINE_BYTES     3488 // F2FS: MAX_INLINE_DATA of an inode with extended attributes, fs/f2fs/f2fs.h
#define SEGMENT_BLOCKS   512  // F2FS: a segment contains either data or nodes
#define STALE_PAGES      64   // clean pages in the list of dirty pages of a file before it is compacted
#define MAX_LIKELY_FILES 16   // dirty files that likely_file examines
#define MAX_DISTANT_ROWS 256  // rows in which it searches for the next request
#define MAX_SORTED_PAGES 4096 // dirty pages of a file that it examines
#define MANY_BLOCKS      8    // a fsync writes fewer nodes in one request
#define FIRST_FILE       3    // F2FS stores nodes in inode 1 and its other metadata in inode 2

// A block of a file, and the event that wrote it.
struct page {
    size_t file;
    int64_t block;
    int64_t author;
};

// Ordered pages; the first `head` are done. A page that is removed elsewhere stays in the array.
struct queue {
    struct page *pages;
    size_t head, end, capacity;
    size_t mixed; // index of the file, from 1, with some pages written in an unknown order; 0: none
};

// F2FS: what a segment contains.
enum { HAS_NODES = 2, HAS_DATA = 4 };

// State of a page: dirty, queued to be issued, or queued after a lookup to allocate its block.
enum state { DIRTY, WAITING, ALLOCATED, NR_STATES };

struct file {
    uint32_t dev;
    int64_t ino;
    int64_t bytes;  // size according to the writes
    int64_t author; // last write, or else last page added to the cache
    bool is_written;
    uint32_t lifetime;           // incremented when the inode is deleted
    bool is_alive;               // seen since then
    size_t nr_dirty;             // pages; a file with dirty pages is in the list of dirty files
    size_t previous, next;       // in this list
    struct queue dirty;          // unordered
    int64_t issued_end;          // block after the last flushed one
    bool is_fresh;               // the last flush was of consecutive blocks after all earlier ones
    int64_t first, block, count; // last mapping, and
    size_t nr_results;           // number of results at that time
};

struct thread {
    size_t syncing;                     // file, or NOTHING
    int64_t sync;                       // event
    size_t wrote;                       // last file written
    size_t touched;                     // last file written, cached, or looked up where it has no block
    size_t mapped;                      // last file looked up where it has a block
    int64_t written_first, written_end; // blocks of the last write
    struct queue issues;                // pages that it is about to issue
    struct queue allocated;             // pages that it looked up to allocate their blocks
    struct queue reads;                 // pages that it added to the cache
    size_t read_end;                    // end of the pages at its last read request
};

// Contents of a block of the device.
struct location {
    size_t file;
    int64_t block;
    uint32_t lifetime;
    size_t result; // of the last write, or NOTHING
};

struct infer {
    const struct infer_events *events;
    struct file *files;
    size_t nr_files, file_capacity;
    struct thread *threads;
    size_t nr_threads, thread_capacity;
    struct location *locations;
    size_t nr_locations, location_capacity;
    struct inference *results;
    size_t nr_results, result_capacity;
    size_t *syncing; // threads in a fsync, in the order of its begin
    size_t nr_syncing, syncing_capacity;
    size_t oldest, newest; // dirty files
    struct map of_files, of_threads, of_locations;
    struct map pages[NR_STATES]; // by file and block: the author, as from `author_code`
    struct map segments;         // HAS_NODES, HAS_DATA
    bool is_failed;
};

// A request and its issue.
struct issue {
    int64_t event;
    uint32_t dev;
    uint8_t flags;
    int64_t blocks;
    int64_t done;  // done so far
    bool is_whole; // the remaining pages of its first file are exactly this request
    size_t thread;
    size_t holder; // the thread whose fsync issues it, or NOTHING
};

// --- pages.c ---------------------------------------------------------------------------------------------------------

// Make sure that an array has capacity for another object. Returns false if memory runs out.
bool grow(struct infer *in, void **array, size_t count, size_t *capacity, size_t size);

// Return the index of a file, or NOTHING if memory runs out.
size_t file_at(struct infer *in, uint32_t dev, int64_t ino);

// Return the thread with this ID, or the flusher of a device.
size_t thread_at(struct infer *in, bool is_flusher, uint32_t key);

// Return the contents of a block of the device, or NULL. `location_at` adds it if it is missing.
struct location *location_find(struct infer *in, uint32_t dev, int64_t block);
struct location *location_at(struct infer *in, uint32_t dev, int64_t block);
bool queue_append(struct infer *in, struct queue *queue, struct page page);

// Add the page of a file to a state.
void state_add(struct infer *in, enum state state, const struct page *page);

// Remove the page of a file from a state. Returns whether it was there, and its author.
bool state_remove(struct infer *in, enum state state, size_t file, int64_t block, int64_t *author);
bool has_page(const struct infer *in, enum state state, const struct page *page);

// Remove a page from any state. Returns whether it was there, and its author.
bool page_remove(struct infer *in, size_t at, int64_t block, int64_t *author);
void page_dirty(struct infer *in, size_t at, int64_t block, int64_t author);

// Sort the dirty pages of a file by block and remove duplicates.
void sort_dirty(struct infer *in, struct file *file);

// Append the dirty pages of a file to a queue in order, or drop them.
void flush(struct infer *in, size_t at, struct queue *queue);

// Drop the pages that wait in a queue.
void drop(struct infer *in, enum state state, struct queue *queue);

// Advance to the next page that still waits in the queue. Returns whether there is one.
bool is_waiting(const struct infer *in, enum state state, struct queue *queue);

// --- rules.c ---------------------------------------------------------------------------------------------------------

// Return the thread in a fsync that a request belongs to: the issuing thread, or for a request issued by a worker the
// last thread with waiting pages.
size_t syncing_thread(struct infer *in, size_t thread, uint8_t flags);

// Attribute a block of a request.
void write_block(struct infer *in, struct issue *issue, int64_t block);
void read_block(struct infer *in, const struct issue *issue, int64_t block);

// A mapping shows which page a written block contains: confirm the inferred result, or correct it and make the wrongly
// inferred page dirty again.
void later(struct infer *in, struct inference *result, size_t at, int64_t block);
