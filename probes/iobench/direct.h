/* What O_DIRECT asks of buffers, offsets and lengths. */
#ifndef ANDROSTEP_IOBENCH_DIRECT_H
#define ANDROSTEP_IOBENCH_DIRECT_H

#include <stddef.h>

struct direct_align {
    size_t memory, offset; /* bytes; offset 0: the file cannot be opened with O_DIRECT */
};

/* As statx(2) tells (Linux 6.1), else the logical block size of the device. */
struct direct_align direct_align(int file);

#endif
