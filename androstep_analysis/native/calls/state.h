// State of the cleaner.
//
// Calls are processed in the order in which they begin. What a call does to names, numbers and sizes counts from its
// end on, because other calls can rely on it only then. Two calls count from their begin: close, and fork, whose child
// runs before the parent returns.
//
// The layers, from the lowest:
// - storage.h: memory
// - rows.h, texts.h, types.h: the contents of a row
// - sizes.h and the files included below: the state of files, threads, etc.; they do not know `struct calls`
// - paths.c, transfers.c, numbers.c, ...: the effects of calls on that state
// - steps.c: selects the functions for a call
// - calls.c and output.c: process all calls and fill the tables
#pragma once

#include "calls/files.h"
#include "calls/input.h"
#include "calls/mappings.h"
#include "calls/names.h"
#include "calls/open_files.h"
#include "calls/program.h"
#include "calls/running.h"
#include "calls/threads.h"

struct calls {
    const struct calls_input *in;
    struct strings *strings;
    uint8_t *left; // of each row
    struct storage storage;
    struct files files;
    struct program program;
    struct threads threads;
    struct open_files open;
    struct mappings mappings;
    struct names names;
    struct running_calls running;
    int32_t *row_threads;       // of each row
    struct operation **ordered; // finally only those that are kept
    size_t nr_ordered, nr_numbered, nr_numbered_threads, nr_files;
    bool has_unknown; // descriptors of unknown kind count as files
};
