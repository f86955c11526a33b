// What the cleaner of recorded system calls is given, and what is taken from it (replay/clean.py).
#pragma once

#include "core/table.h"

struct calls;

// The rows, by column, in the order in which they began; nulls as in core/table.h, of texts NO_STRING.
struct calls_input {
    size_t rows;
    const int64_t *ts_ns, *duration_ns;
    const int32_t *tid, *pid;
    const uint8_t *call, *state, *fd_kind, *failed;
    const int32_t *fd, *fd2, *request, *mode;
    const uint32_t *path, *path2, *fd_path, *fd2_path, *result_path, *dev;
    const int64_t *flags, *offset, *offset2, *bytes, *address, *ino, *size, *result;
    const uint8_t *text; // of all paths
    const int64_t *text_starts;
    size_t nr_texts;
    uint64_t page_bytes; // of the kernel: mappings are whole pages
};

struct calls_counts {
    size_t operations, files, threads; // at most
    uint64_t conflicts;
    uint32_t unnamed;
};

API void calls_count(struct calls *calls, struct calls_counts *counts);
API bool calls_tables(struct calls *calls, struct table *operations, struct table *files, struct table *threads);
API struct calls *calls_clean(const struct calls_input *in, struct strings *strings, uint8_t *left, const int32_t *pids,
                              size_t nr_pids, bool has_unknown);
API void calls_free(struct calls *calls);
