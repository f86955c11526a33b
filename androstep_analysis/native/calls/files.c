// A file gets an index when a call first leads to it. If two of them turn out to be one file, one refers to the other.
#include "calls/files.h"

#include <stdlib.h>

void files_begin(struct files *files, struct storage *storage)
{
    files->storage = storage;
    inode_new(files, TYPE_DIRECTORY, ORIGIN_START);
}

void files_free(struct files *files)
{
    free(files->inodes);
}

int32_t inode_new(struct files *files, uint8_t type, uint8_t origin)
{
    int32_t index = (int32_t)files->nr_inodes;
    struct inode *inode = PUSH(files, inodes);

    *inode = (struct inode){
        .same = index,
        .dentry = NO_INDEX,
        .first_dir = NO_INDEX,
        .above = NO_INDEX,
        .target = NO_STRING,
        .mode = NO_INT32,
        .dev = NO_UINT32,
        .ino = NO_INT64,
        .size = origin == ORIGIN_MADE ? 0 : NO_INT64,
        .start_size = NO_INT64,
        .id = NO_INDEX,
        .unnamed = NO_INDEX,
        .origin = origin,
        .type = type,
        .size_from = SIZE_FROM_NOTHING,
    };
    return index;
}

int32_t inode_find(struct files *files, int32_t inode)
{
    while (inode != NO_INDEX && files->inodes[inode].same != inode) {
        files->inodes[inode].same = files->inodes[files->inodes[inode].same].same;
        inode = files->inodes[inode].same;
    }
    return inode;
}
