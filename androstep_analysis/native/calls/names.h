// The tree of names: which file each path leads to, through creation, renaming, links and removal.
#pragma once

#include "calls/open_files.h"

enum dentry_state { NAME_UNKNOWN, NAME_PRESENT, NAME_ABSENT };

struct dentry {
    int32_t dir;
    uint32_t name;
    int32_t inode; // NO_INDEX: none so far; of an absent one what its own names would be in
    uint32_t path;
    uint32_t path_version;
    int64_t changed_ns; // when the call ended that made or removed it
    uint8_t state;
};

// Where a path leads: `dentry` is NO_INDEX for the root and for directories without a known name.
struct place {
    int32_t dentry, inode;
};

// A name that came or went between recorded calls: before that of the row.
struct change {
    uint32_t row, path;
    int32_t thread, inode;
    bool is_gone;
};

// The call whose names are followed.
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
    struct map dentry_numbers, inode_numbers; // and one, by directory and name, and by device and inode number
    struct dentry *dentries;
    size_t nr_dentries, room_dentries;
    struct change *changes;
    size_t nr_changes, room_changes;
    uint8_t *scratch;
    size_t room_scratch;
    uint32_t tree_version;
    uint32_t nr_unnamed;
    struct moment now;
    uint64_t conflicts;                                          // names that came or went between recorded calls
    uint32_t dev, shm, proc, sys, ashmem, fd, self, thread_self; // numbers of names
};

void names_begin(struct names *names);
void names_free(struct names *names);

// Where the path leads from directory `start`; false where it is none, or leads in circles.
bool names_walk(struct names *names, int32_t start, uint32_t text, bool follow, struct place *place);

// There is a file at the place. What was not made was there from the start on.
void names_confirm(struct names *names, struct place *place, uint8_t type);

// A call found nothing at the place. Where the directories above are not known to be there, it may be one of them.
void names_absent(struct names *names, const struct place *place);

// A call made a file at the place; of ORIGIN_MAYBE that is not sure.
void names_make(struct names *names, struct place *place, uint8_t type, uint8_t origin);

// A file came to the place in a way that no operation can do.
void names_appear(struct names *names, struct place *place);
void names_remove(struct names *names, const struct place *place);
void names_rename(struct names *names, const struct place *from, const struct place *to, bool exchange);
void names_link(struct names *names, int32_t inode, const struct place *to);

// Takes in which inode of which device a file is; two names of files of the start may turn out to be of one. Returns
// what the file is from now on.
int32_t names_identify(struct names *names, struct place *place, int32_t inode, uint32_t dev, int64_t ino);
uint32_t names_path(struct names *names, int32_t dentry);      // NO_STRING: longer than any call can be given
uint32_t names_first_path(struct names *names, int32_t inode); // NO_STRING: too long, or it cannot have been there
uint32_t names_unnamed_path(struct names *names, int32_t inode);

// Why what is at the place is left out (enum left).
uint8_t names_left(const struct names *names, const struct place *place);
