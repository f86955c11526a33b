// State of the inference pass, shared by its files: pages.c has the dirty pages, rules.c the rules, infer.c the events.
#pragma once

#include "core/map.h"
#include "infer/infer.h"

#define NOTHING        SIZE_MAX
#define CREATED_NS     3000000  // between the event of a creation and the next event of its thread, unless preempted
#define STALE_PAGES    64       // clean pages in the list of dirty pages of a file before it is compacted
#define CREATION_NS    10000000 // between the creation of a file and its first event
#define MAX_EARLIER    256      // files that may be listed too early
#define MAX_OTHERS     8        // threads whose pages a fsync issues
#define MANY_BLOCKS    8        // a fsync writes fewer nodes in one request
#define SEGMENT_BLOCKS 512      // of F2FS: 2 MiB
#define NODE_INODE     1        // F2FS keeps its nodes in the page cache of this inode, by their number
#define FIRST_FILE     3        // the first inode of a file; inode 2 has the other metadata

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
};

// F2FS: the log that the data of a file go to. Unknown for a log before the first page in it is known.
enum f2fs_heat { HEAT_UNKNOWN, HOT, WARM };

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
    int64_t first_row;           // of the events of this lifetime
    bool is_new;                 // F2FS: probably created during the recording
    bool has_blocks;             // F2FS: not stored in its inode
    bool is_hot;                 // F2FS: in the log of hot data, whatever its size
    size_t sought;               // F2FS: 1 + row of the last search for its places
    int64_t writeback_index;     // F2FS: page at which the flusher begins
    size_t nr_dirty;             // pages
    struct queue dirty;          // unordered
    size_t flusher;              // thread that writes it back
    bool is_listed;              // in the list of dirty inodes of this thread, and
    int64_t listed_row;          // since this event
    bool is_created;             // F2FS: this is the first event after its creation
    bool is_dated;               // F2FS: this is the event of its creation, and
    int64_t resumed_row;         // it became dirty before this event
    int64_t nr_unordered;        // its last pages that may be in a block of another file, which became dirty then
    size_t previous, next;       // in this list
    int64_t first, block, count; // last mapping, and
    size_t nr_results;           // number of results at that time
};

// Pages of a thread in a fsync that another one issues.
struct f2fs_other {
    size_t thread;
    int64_t count;
};

// The part of a thread that concerns F2FS.
struct f2fs_thread {
    enum f2fs_heat heat;   // of the pages that it is about to issue
    struct queue warm;     // pages that the flusher is about to issue to the log of warm data; `issues` has the others
    struct queue rewrites; // pages that it is about to rewrite in place
    int64_t node;          // the last one that it put into the cache, if that was its last event; else 0
    size_t issued;         // 1 + row of the last request of the flusher
    size_t began;          // the same of the first request in its last burst
    size_t written;        // 1 + row of the last of its requests that are already attributed
    int64_t nr_files;      // of its last burst that fitted
    bool is_complete;      // no file that is due remains after it
    bool is_continued;     // the last file is, which is a large one
    bool has_unplaced;     // blocks in its last burst that continue no log are of no file that is known to be dirty
    bool is_lost;          // a burst of the flusher did not fit, and no long one since
    enum infer_rule rule;  // for the pages that the flusher writes
    int64_t nr_foreign;    // blocks that its fsync issues before its own: those
    size_t nr_others;      // of other threads in a fsync, or if there are none, of the flusher
    struct f2fs_other others[MAX_OTHERS];
    bool is_mixed;   // these may lie among its own
    bool is_unknown; // nothing shows whose they are
};

struct thread {
    size_t syncing;                     // file, or NOTHING
    int64_t sync;                       // event
    size_t wrote;                       // last file written
    size_t touched;                     // last file written, cached, or looked up where it has no block
    size_t mapped;                      // last file looked up where it has a block
    int64_t written_first, written_end; // blocks of the last write
    int64_t last_row;                   // of its events
    size_t oldest, newest;              // of a flusher: dirty inodes, in the order in which they became dirty
    struct queue issues;                // pages that it is about to issue
    struct f2fs_thread f2fs;
    struct queue allocated; // pages that it looked up to allocate their blocks
    struct queue reads;     // pages that it added to the cache
    size_t read_end;        // end of the pages at its last read request
};

// Contents of a block of the device.
struct location {
    size_t file;
    int64_t block;
    uint32_t lifetime;
    size_t result; // of the last write, or NOTHING
};

// F2FS: a log (active segment), to which blocks are appended.
struct f2fs_log {
    uint32_t dev;
    int64_t next;              // block
    int64_t ahead, ahead_end;  // blocks that were issued before those in front of them, or 0
    int64_t row;               // of the last request
    int64_t nr_nodes, nr_data; // blocks found to be nodes or data
    enum f2fs_heat heat;
};

// F2FS: a write that moves the data of a file out of its inode, and the previous event of its thread.
struct f2fs_conversion {
    size_t row, since;
    bool is_done;
};

// F2FS: the logs, and what happens later.
struct f2fs {
    struct f2fs_log *logs;
    size_t nr_logs, log_capacity;
    struct map nodes;    // by device and inode: 1 + row of the event that its node entered the cache
    struct map resumes;  // the same for the next event of its thread, if the thread was preempted in between
    struct map places;   // by file and block: 1 + block of the device
    struct map rewrites; // by device and block: 1 + row of the next write request
    struct map segments; // by device and segment: its numbers of blocks
    size_t *next_rows;   // values of `rewrites` after each written block
    size_t written;      // number of blocks written so far
    struct f2fs_conversion *conversions;
    size_t nr_conversions, conversion_capacity, done;
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
    size_t synced; // 1 + row of the end of the last fsync
    struct map of_files, of_threads, of_locations;
    struct map pages[NR_STATES]; // by file and block: the author, as from `author_code`
    struct f2fs f2fs;
    bool is_failed;
};

// A request and its issue.
struct issue {
    int64_t event;
    uint32_t dev;
    uint8_t flags;
    int64_t blocks;
    size_t thread;
    size_t holder;     // the thread whose fsync issues it, or NOTHING
    bool is_writeback; // it is the flusher's, whoever issues it
};

// --- pages.c ---------------------------------------------------------------------------------------------------------

// Return the time between two events, the later one last.
uint64_t elapsed_ns(const struct infer *in, size_t from, size_t to);

// Make sure that an array has capacity for another object. Returns false if memory runs out.
bool grow(struct infer *in, void *array, size_t count, size_t *capacity, size_t size);

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

bool page_clean(struct infer *in, size_t at, int64_t block, int64_t *author);

// Add a file to the list of dirty inodes, as of this event, or remove it.
void list_add(struct infer *in, size_t at, int64_t row);
void list_remove(struct infer *in, size_t at);

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
int64_t nr_waiting(const struct infer *in, const struct queue *queue);

// --- rules.c ---------------------------------------------------------------------------------------------------------

// Record the write of a block of the device with that page, or NULL if it is unknown. Without a block of the file, only
// F2FS remembers the place.
void write_page(struct infer *in, const struct issue *issue, int64_t block, const struct page *page, int64_t author,
                enum infer_rule rule);
void write_unknown(struct infer *in, const struct issue *issue, int64_t block);

// Write the next page of a queue. Returns false if none is waiting.
bool write_next(struct infer *in, const struct issue *issue, int64_t block, struct queue *queue, enum infer_rule rule);

// The rule of this name: direct I/O.
bool direct(struct infer *in, const struct issue *issue, int64_t block);

// Attribute the blocks of a request, from `first` on.
void write_blocks(struct infer *in, struct issue *issue, int64_t first);
void read_blocks(struct infer *in, const struct issue *issue, int64_t first);

// A mapping shows which page a written block contains: confirm the inferred result, or correct it and make the wrongly
// inferred page dirty again.
void later(struct infer *in, struct inference *result, size_t at, int64_t block);

// --- f2fs.c ----------------------------------------------------------------------------------------------------------

// Find the next write of each block, and the writes that move data out of an inode. Returns false if memory runs out.
bool f2fs_look_ahead(struct infer *in);
void f2fs_free(struct infer *in);

// Note that the nodes of a filesystem enter its cache or leave it.
void f2fs_cache_nodes(struct infer *in, size_t row, struct thread *thread);

// Note that a thread goes on after it created a file.
void f2fs_resume(struct infer *in, size_t row, struct thread *thread);

// Return the event since which a file is dirty that is written now: of a new file its creation.
int64_t f2fs_dirtied(struct infer *in, size_t at, size_t row);

bool f2fs_is_write(const struct infer_events *e, size_t row);

// Attribute the blocks of a write request, from `first` on.
void f2fs_write_blocks(struct infer *in, struct issue *issue, int64_t first);

// Advance to the next write of each block of a request. Requests must come in their order.
void f2fs_find_next_writes(struct infer *in, size_t row);

// Note where the page of a file lies.
void f2fs_set_place(struct infer *in, const struct page *page, int64_t block);

// Move the dirty pages of a file to the queues of the thread that is about to issue them, for a fsync or by itself.
void f2fs_flush(struct infer *in, size_t at, int64_t row, struct thread *thread);

// The same for those that the thread drops from this event on, if they are so many.
void f2fs_flush_dropped(struct infer *in, size_t at, size_t row, int64_t count, struct thread *thread);

// Queue the dirty pages of a file for the flusher, which goes round: mapping->writeback_index in fs/f2fs/data.c.
void f2fs_flush_in_background(struct infer *in, size_t at, int64_t row, struct thread *flusher);

// Return how many dirty pages of a file would be appended to the log of `heat`.
int64_t f2fs_appended(struct infer *in, size_t at, int64_t row, enum f2fs_heat *heat);

// Return the log that a block is appended to, or NULL. At the begin of a segment this is the last log whose segment is
// full.
struct f2fs_log *f2fs_log_at(struct infer *in, uint32_t dev, int64_t block);

// Append blocks to a log if they continue it. Returns whether they do.
bool f2fs_append(struct f2fs_log *log, int64_t block, int64_t count);
bool f2fs_has_log(const struct infer *in, uint32_t dev, enum f2fs_heat heat);

// Return whether a block is in the segment of a log, but is not appended to it.
bool f2fs_is_in_log(const struct infer *in, uint32_t dev, int64_t block);

// Return whether a block holds a dirty page, which is about to be rewritten in place.
bool f2fs_is_placed(struct infer *in, uint32_t dev, int64_t block);

// --- flusher.c -------------------------------------------------------------------------------------------------------

// Attribute a write request of F2FS, with the requests that its thread issues at once.
void f2fs_write_requests(struct infer *in, size_t row, size_t tid);
