/* Names of threads, for the "comm" that trace.dat has of each. */
#ifndef ANDROSTEP_IOTRACE_COMMS_H
#define ANDROSTEP_IOTRACE_COMMS_H

#include <stddef.h>

#include "common/files.h"

struct comms {
    struct comm *list;
    size_t nr;
};

/* Adds all threads in /proc. What is added later counts where a thread has several names. */
void comms_add_running(struct comms *comms);

/* Adds what the kernel remembers of threads it traced: saved_cmdlines, which may be a small cache. */
void comms_add_saved(struct comms *comms, int tracefs);

/* "PID COMM" lines, one for each thread, for the caller to free. */
struct contents comms_text(struct comms *comms);

void comms_free(struct comms *comms);

#endif
