// All that is known while recorded calls are followed.
//
// Calls are taken in the order in which they begin. What a call does to names, numbers and sizes counts from its end
// on, because others can rely on it only then; a close counts from its beginning, and so does a fork, whose child runs
// before the parent returns.
//
// From below: storage.h; what a row says (rows.h, texts.h, types.h); what is known of files, threads and the rest, in
// a file each (the includes below, and sizes.h), none of which knows this struct; what a call does to that (paths.c,
// transfers.c, numbers.c, ...), for which steps.c chooses; calls.c, which takes all calls, and output.c.
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
    struct operation **ordered; // in the end those that are kept
    size_t nr_ordered, nr_numbered, nr_numbered_threads, nr_files;
    bool has_unknown; // descriptors of unknown kind count as files
};
