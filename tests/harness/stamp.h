// Content that identifies itself: cells of 64 bytes, each with its file, offset, writer and sequence number.
#ifndef STAMP_H
#define STAMP_H

#include "oplog.h"

#define STAMP_MAGIC      0x70617453u // "Stap"
#define STAMP_CELL_BYTES 64

struct stamp_cell {
    uint32_t magic;
    uint32_t pid;
    uint64_t ino;
    uint32_t generation;
    uint32_t check; // stamp_check of the other fields
    uint64_t offset;
    uint64_t sequence;
    uint64_t filling[3];
};

// Fills `buffer` with the content of bytes offset .. offset + length of the file. Cells begin at multiples of 64 in the
// file; the first and last one may be truncated.
void stamp_fill(unsigned char *buffer, size_t length, uint64_t offset, struct identity id, uint64_t sequence);

#endif
