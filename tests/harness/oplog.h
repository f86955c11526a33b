// The workload's log: records of fixed size on another filesystem, which tests/harness/oplog.py reads.
#ifndef OPLOG_H
#define OPLOG_H

#include <stddef.h>
#include <stdint.h>

enum oplog_op {
    OPLOG_OPEN = 1,      // payload: path
    OPLOG_STAMP = 2,     // write of stamped cells: no payload, the cells are complete
    OPLOG_DATA = 3,      // write of other content: payload is the content
    OPLOG_STORE = 4,     // like STAMP, through a mapping
    OPLOG_SNAPSHOT = 5,  // content that a mapping has at this time: payload is the content
    OPLOG_TRUNCATE = 6,  // off: new size
    OPLOG_UNLINK = 7,    // payload: path
    OPLOG_RENAME = 8,    // payload: old path, NUL, new path
    OPLOG_LINK = 9,      // payload: old path, NUL, new path
    OPLOG_COLLAPSE = 10, // off, len: written before the call; DONE follows
    OPLOG_INSERT = 11,   // off, len: written before the call; DONE follows
    OPLOG_DONE = 12,     // end of the call that the process logged before; length: 1 if it had an effect
    OPLOG_LIVE = 13,     // the file exists at the end; payload: path
    OPLOG_SKIP = 14,     // payload: an operation that this filesystem does not support
    OPLOG_RUN = 15,      // the run begins: all data before is on the disk
    OPLOG_DROP = 16,     // off, len: the content is dropped, as after OPLOG_TRUNCATE
    OPLOG_READ = 17,     // off, len: the requested range, also through a mapping
    OPLOG_SYNC = 18,     // a call that waits until the file is on the disk; payload: its name
    OPLOG_PROCESS = 19,  // a process begins, possibly with the id of an earlier one; payload: its name
    OPLOG_ENDED = 20,    // a transaction of SQLite is committed or rolled back; payload: the database
};

// Identity of a file, with the kernel's numbers.
struct identity {
    uint64_t ino;
    uint32_t generation; // 0 if the filesystem has none
};

struct oplog_record {
    uint64_t ts_ns;   // CLOCK_MONOTONIC at oplog_sequence: before the operation
    uint64_t done_ns; // when it was logged: right after a read or write
    uint64_t sequence;
    uint64_t ino;
    uint64_t offset;
    uint64_t length;
    uint32_t generation;
    uint32_t pid;
    uint32_t op;
    uint32_t payload_bytes; // length of the payload that follows
};

// State shared by all processes of a workload.
struct shared {
    _Atomic uint64_t sequence;
    _Atomic uint32_t turn;  // lock of the file that two processes write
    _Atomic uint32_t ready; // files that another process may sync
    _Atomic uint32_t step;  // the process that uses the file of three processes next
};

extern struct shared *shared;

// Maps `directory`/shared and creates it if it does not exist: prep and run continue the same counters.
void oplog_share(const char *directory);

// Opens the log of this process in `directory`. Every process calls it once after fork.
void oplog_begin(const char *directory);

// Flushes the log of the process, which is lost otherwise.
void oplog_end(void);

// Returns the sequence number of an operation that begins now.
uint64_t oplog_sequence(void);

void oplog_write(enum oplog_op op, struct identity id, uint64_t sequence, uint64_t offset, uint64_t length,
                 const void *payload, size_t payload_bytes);

// Opens the log of a child process, and logs its begin under this name.
void oplog_begin_child(const char *comm);

void oplog_path(enum oplog_op op, struct identity id, const char *path);
void oplog_paths(enum oplog_op op, struct identity id, const char *from, const char *to);

// Returns the identity of an open file.
struct identity identify(int fd);

// Ends the process with a message when `ok` is 0; errno says why.
void must(int ok, const char *what);

#endif
