// The tree of names: the file that each path leads to, through creation, renaming, links and removal.
#pragma once

#include "calls/open_files.h"

enum dentry_state { NAME_UNKNOWN, NAME_PRESENT, NAME_ABSENT };

struct dentry {
    int32_t dir;
    uint32_t name;
    int32_t inode; // NO_INDEX: none so far; of an absent name the parent of the names below it
    uint32_t path;
    uint32_t path_version;
    int64_t changed_ns; // end of the call that created or removed it
    uint8_t state;
};

// Target of a path. `dentry` is NO_INDEX for the root and for directories of unknown name.
struct location {
    int32_t dentry, inode;
};

// A name that appeared or disappeared between recorded calls, before that of the row.
struct change {
    uint32_t row, path;
    int32_t thread, inode;
    bool is_gone;
};

// The call that is processed.
struct moment {
    uint32_t row;
    int32_t thread;
    int64_t end_ns;
};

struct names {
    struct storage *storage;
    const struct calls_input *in;
    struct strings *strings;
    struct files *files;
    struct open_files *open;
    struct map dentry_numbers, inode_numbers; // plus one, by directory and name, and by device and inode number
    struct dentry *dentries;
    size_t nr_dentries, dentries_capacity;
    struct change *changes;
    size_t nr_changes, changes_capacity;
    uint8_t *scratch;
    size_t scratch_capacity;
    uint32_t tree_version;
    uint32_t nr_unnamed;
    struct moment now;
    uint64_t conflicts; // names that appeared or disappeared between recorded calls
    uint32_t dev, shm, proc, sys, ashmem, fd, self, thread_self; // strings of these names
};

void names_begin(struct names *names);
void names_free(struct names *names);

// Resolves a path from directory `start`; false if it is not a path or has a loop of links.
bool names_walk(struct names *names, int32_t start, uint32_t text, bool follow, struct location *location);

// Records that there is a file at the location. A file that no recorded call created existed at the start.
void names_confirm(struct names *names, struct location *location, uint8_t type);

// Records that a call found nothing at the location. One of the directories above may be missing instead, unless all of
// them are known to exist.
void names_absent(struct names *names, const struct location *location);

// Records that a call created a file at the location. With ORIGIN_MAYBE it may have existed before.
void names_make(struct names *names, struct location *location, uint8_t type, uint8_t origin);

// Records a file that got this name in a way that no operation can reproduce.
void names_appear(struct names *names, struct location *location);
void names_remove(struct names *names, const struct location *location);
void names_rename(struct names *names, const struct location *from, const struct location *to, bool exchange);
void names_link(struct names *names, int32_t inode, const struct location *to);

// Records the device and inode number of a file. Two names from the start may turn out to be of one file. Returns the
// inode to use from now on.
int32_t names_identify(struct names *names, struct location *location, int32_t inode, uint32_t dev, int64_t ino);
uint32_t names_path(struct names *names, int32_t dentry);      // NO_STRING: longer than any path of a call
uint32_t names_first_path(struct names *names, int32_t inode); // NO_STRING: too long, or it cannot have existed
uint32_t names_unnamed_path(struct names *names, int32_t inode);

// Returns why a row with this location is omitted (enum left).
uint8_t names_left(const struct names *names, const struct location *location);
