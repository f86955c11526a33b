/* A recording from its start to its end. */
#ifndef ANDROSTEP_IOTRACE_SESSION_H
#define ANDROSTEP_IOTRACE_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/opts.h"
#include "common/topology.h"
#include "iotrace/comms.h"
#include "iotrace/drain.h"
#include "iotrace/listing.h"
#include "iotrace/names.h"
#include "iotrace/output.h"
#include "iotrace/presets.h"
#include "iotrace/tracefs.h"

/* What is asked for; texts are NULL and numbers 0 where nothing is. */
struct asked {
    const char *output, *preset, *clock;
    struct opt_list devices, lists;
    int64_t seconds, megabytes, buffer_kb, segment_seconds;
    bool same_device, readahead;
    char *const *words; /* the command to run; ends with NULL */
};

struct session {
    const struct asked *asked;
    struct topology topology;
    struct selection selection;
    struct listing listing;
    struct output output;
    struct instance instance;
    struct drain drain;
    struct names names;
    struct comms comms;
    char trace_clock[32];
    sigset_t signals, before; /* that end the recording or tell of children; the mask when iotrace began */
    pid_t command_pid;        /* 0: none was started */
    pid_t child;              /* the command while it runs, else 0 */
    int status;               /* of the command, as waitpid has it */
    bool ran;
    int64_t began_ns;
    int64_t segment_ns; /* when the next segment ends */
};

/* Why a recording ended. */
enum end { END_NONE, END_CHILD, END_TIME, END_SIZE, END_SIGNAL, END_ERROR };

/* Records until the end, and packs. Returns -1 with a sentence on standard error. */
int session_record(const struct asked *asked);

/* Calls are recorded between the listings only, which make more of them than most programs. Return -1 with a sentence
 * on standard error. */
int session_begin_calls(const struct session *session);
int session_end_calls(const struct session *session);

/* Traces, lists and runs the command until a reason to end comes; in running.c. */
enum end session_run(struct session *session);

/* Now by the clock of the trace. */
int64_t session_trace_ns(const struct session *session);

/* Ends a segment, which has all from before `end_ns`: what was recorded since the last is a file of its own. Returns -1
 * with a sentence on standard error. */
int session_end_segment(struct session *session, int64_t end_ns);

/* Ends the command if it still runs. */
void session_end_command(struct session *session);

#endif
