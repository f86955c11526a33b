// Files, as the calls on them show.
#pragma once

#include "calls/storage.h"

enum { ROOT = 0 }; // the first of all files

enum origin {
    ORIGIN_UNKNOWN, // no call used it so far
    ORIGIN_START,   // it existed when the recording began
    ORIGIN_MAYBE,   // open created it, unless it existed
    ORIGIN_MADE,
    ORIGIN_APPEARED, // created by something that is not recorded
};

enum inode_type { TYPE_FILE, TYPE_DIRECTORY, TYPE_SYMLINK, TYPE_UNKNOWN };

enum size_from { SIZE_FROM_STAT, SIZE_FROM_END, SIZE_FROM_READS, SIZE_FROM_NOTHING };

struct inode {
    int32_t same;      // itself, or the inode that it turned out to be
    int32_t dentry;    // one of its current names
    int32_t first_dir; // its directory at the start; NO_INDEX: its name is unknown
    uint32_t first_name;
    int32_t above; // parent of a directory of unknown name
    uint32_t nr_names;
    uint32_t target; // of a symbolic link
    int32_t mode;
    uint32_t dev;
    int64_t ino;
    int64_t size;        // current; NO_INT64: unknown
    int64_t start_size;  // NO_INT64: unknown
    int64_t start_least; // lower bound of the size at the start
    int64_t written_end; // end of the writes at known offsets
    int64_t appended;    // bytes appended at an unknown end of the file
    uint32_t busy;       // running calls that change the size
    uint32_t version;    // counts calls that change the size
    int32_t id;          // in the tables; NO_INDEX: none yet
    int32_t unnamed;     // N of `.unnamed/N`
    uint8_t origin, type, left, size_from;
    bool is_walked; // paths lead through it
    bool is_cut;    // the size was set, so it shows no more what it was at the start
};

struct files {
    struct storage *storage;
    struct inode *inodes;
    size_t nr_inodes, inodes_capacity;
};

// Creates the root.
void files_begin(struct files *files, struct storage *storage);
void files_free(struct files *files);
int32_t inode_new(struct files *files, uint8_t type, uint8_t origin);

// Returns the inode that this one turned out to be.
int32_t inode_find(struct files *files, int32_t inode);
