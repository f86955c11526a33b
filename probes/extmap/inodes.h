/* A set of inode numbers. */
#ifndef ANDROSTEP_EXTMAP_INODES_H
#define ANDROSTEP_EXTMAP_INODES_H

#include <stddef.h>
#include <stdint.h>

/* A set; all zero: empty. */
struct inodes {
    uint64_t *slots; /* 0: free; inode numbers begin at 1 */
    size_t nr_slots, used;
};

/* Return 1 if `ino` was added, 0 if it was present, -1 if memory ran out. */
int inodes_add(struct inodes *set, uint64_t ino);

void inodes_release(struct inodes *set);

#endif
