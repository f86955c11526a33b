/* Names of threads, stored as "comm" in trace.dat. */
#pragma once

#include <stddef.h>

#include "common/files.h"

struct comms {
    struct comm *list;
    size_t nr;
};

/* Add all threads in /proc. If a thread has several names, the one added last is used. */
void comms_add_running(struct comms *comms);

/* Add the traced threads in saved_cmdlines, which may be a small cache. */
void comms_add_saved(struct comms *comms, int tracefs);

/* Return one "PID COMM" line for each thread (freed by the caller). */
struct contents comms_text(struct comms *comms);

void comms_free(struct comms *comms);
