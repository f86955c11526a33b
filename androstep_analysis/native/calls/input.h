// Input of the cleaner of recorded system calls (replay/clean.py).
#pragma once

#include "core/table.h"

// Columns of the rows, in the order in which the calls began. Nulls are those of core/table.h; of texts NO_STRING.
struct calls_input {
    size_t rows;
    const int64_t *ts_ns, *duration_ns;
    const int32_t *tid, *pid;
    const uint8_t *call, *state, *fd_kind, *failed;
    const int32_t *fd, *fd2, *request, *mode;
    const uint32_t *path, *path2, *fd_path, *fd2_path, *result_path, *dev;
    const int64_t *flags, *offset, *offset2, *bytes, *address, *ino, *size, *result;
    const uint8_t *text; // all paths, concatenated
    const int64_t *text_starts;
    size_t nr_texts;
    uint64_t page_bytes; // of the recorded kernel; mappings are whole pages
};
