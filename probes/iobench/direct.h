/* Alignment that O_DIRECT requires of buffers, offsets and lengths. */
#pragma once

#include <stddef.h>

struct direct_align {
    size_t memory, offset; /* bytes; offset 0: the file cannot be opened with O_DIRECT */
};

/* Return the alignment that statx(2) reports (Linux 6.1), or else the logical block size of the device. */
struct direct_align direct_align(int file);
