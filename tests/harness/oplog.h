// What the workload did, as records of fixed size on another filesystem; tests/harness/oplog.py reads them.
#ifndef OPLOG_H
#define OPLOG_H

#include <stddef.h>
#include <stdint.h>

enum oplog_op {
    OPLOG_OPEN = 1,      // payload: path
    OPLOG_STAMP = 2,     // write of stamped cells: no payload, the cells tell all
    OPLOG_DATA = 3,      // write of other content: payload is the content
    OPLOG_STORE = 4,     // like STAMP, through a mapping
    OPLOG_SNAPSHOT = 5,  // content that a mapping has at this time: payload is the content
    OPLOG_TRUNCATE = 6,  // off: new size
    OPLOG_UNLINK = 7,    // payload: path
    OPLOG_RENAME = 8,    // payload: old path, NUL, new path
    OPLOG_LINK = 9,      // payload: old path, NUL, new path
    OPLOG_COLLAPSE = 10, // off, len: written before the call; DONE follows
    OPLOG_INSERT = 11,   // off, len: written before the call; DONE follows
    OPLOG_DONE = 12,     // end of the call that the process logged before; length: 1 if it did something
    OPLOG_LIVE = 13,     // at the end the file exists; payload: path
    OPLOG_SKIP = 14,     // payload: what this filesystem does not support
    OPLOG_RUN = 15,      // the run begins: all before is on the disk
    OPLOG_DROP = 16,     // off, len: what was there is gone, as after OPLOG_TRUNCATE
    OPLOG_READ = 17,     // off, len: what was asked for, also through a mapping
    OPLOG_SYNC = 18,     // a call that waits until the file is on the disk; payload: its name
    OPLOG_PROCESS = 19,  // a process begins, perhaps with the id of one that ended; payload: its name
    OPLOG_ENDED = 20,    // a transaction of SQLite is committed or rolled back; payload: the database
};

// Which file: numbers as the kernel has them.
struct identity {
    uint64_t ino;
    uint32_t generation; // 0 where the filesystem has none
};

struct oplog_record {
    uint64_t ts_ns;   // CLOCK_MONOTONIC, when oplog_sequence gave the number: before the operation
    uint64_t done_ns; // when it was logged: after a read or write, before anything else
    uint64_t sequence;
    uint64_t ino;
    uint64_t offset;
    uint64_t length;
    uint32_t generation;
    uint32_t pid;
    uint32_t op;
    uint32_t payload_bytes; // that many bytes follow
};

// What all processes of a workload share.
struct shared {
    _Atomic uint64_t sequence;
    _Atomic uint32_t turn;  // lock of the file that two processes write
    _Atomic uint32_t ready; // files that another process may sync
    _Atomic uint32_t step;  // whose turn it is with the file that three processes use one after the other
};

extern struct shared *shared;

// Maps `directory`/shared, made when missing: prep and run count on.
void oplog_share(const char *directory);

// Opens this process' own log in `directory`; every process calls it once after fork.
void oplog_begin(const char *directory);

// Flushes; without it the log of a process is lost.
void oplog_end(void);

// A number for an operation that begins now.
uint64_t oplog_sequence(void);

void oplog_write(enum oplog_op op, struct identity id, uint64_t sequence, uint64_t offset, uint64_t length,
                 const void *payload, size_t payload_bytes);

// Opens the own log of a child of a process that has one, and logs that it begins under this name.
void oplog_begin_child(const char *comm);

void oplog_path(enum oplog_op op, struct identity id, const char *path);
void oplog_paths(enum oplog_op op, struct identity id, const char *from, const char *to);

// Identity of an open file.
struct identity identify(int fd);

// Ends the process with a message when `ok` is 0; errno says why.
void must(int ok, const char *what);

#endif
