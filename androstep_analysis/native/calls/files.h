// The files, known by what calls did to them.
#pragma once

#include "calls/storage.h"

enum { ROOT = 0 }; // the first of all files

enum origin {
    ORIGIN_UNKNOWN, // nobody used it so far
    ORIGIN_START,   // it was there when the recording began
    ORIGIN_MAYBE,   // open made it, unless it was there
    ORIGIN_MADE,
    ORIGIN_APPEARED, // something that is not recorded made it
};

enum inode_type { TYPE_FILE, TYPE_DIRECTORY, TYPE_SYMLINK, TYPE_UNKNOWN };

enum size_from { SIZE_FROM_STAT, SIZE_FROM_END, SIZE_FROM_READS, SIZE_FROM_NOTHING };

struct inode {
    int32_t same;      // itself, or the inode that it turned out to be
    int32_t dentry;    // a name that it has now
    int32_t first_dir; // where it was at the start; NO_INDEX: its name is not known
    uint32_t first_name;
    int32_t above; // what holds a directory of unknown name
    uint32_t nr_names;
    uint32_t target; // what a link says
    int32_t mode;
    uint32_t dev;
    int64_t ino;
    int64_t size;        // now; NO_INT64: unknown
    int64_t start_size;  // NO_INT64: unknown
    int64_t start_least; // at least so large at the start
    int64_t written_end; // how far writes at known places came
    int64_t appended;    // bytes put behind an end of which the place is not known
    uint32_t busy;       // calls under way that change the size
    uint32_t version;    // counts them
    int32_t number;      // in the tables; NO_INDEX so far
    int32_t unnamed;     // of `.unnamed/N`
    uint8_t origin, type, left, size_from;
    bool is_walked; // paths lead through it
    bool is_cut;    // the size tells nothing more of that at the start
};

struct files {
    struct storage *storage;
    struct inode *inodes;
    size_t nr_inodes, room_inodes;
};

// There is the root at the start.
void files_begin(struct files *files, struct storage *storage);
void files_free(struct files *files);
int32_t inode_new(struct files *files, uint8_t type, uint8_t origin);

// The inode itself: several may turn out to be one.
int32_t inode_find(struct files *files, int32_t inode);
