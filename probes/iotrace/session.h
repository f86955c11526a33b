/* A recording from its start to its end. */
#pragma once

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
#include "iotrace/recording.h"
#include "iotrace/tracefs.h"

/* Requested options; NULL or 0 if not given. */
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
    /* signals that end the recording or report children; signal mask at the start of iotrace */
    sigset_t signals, before;
    pid_t command_pid; /* 0: none was started */
    pid_t child;       /* the command while it runs, else 0 */
    int status;        /* of the command, from waitpid */
    bool ran;
    int64_t began_ns;
    struct window window;
    int64_t segment_ns; /* end of the current segment */
};

/* Reasons for the end of a recording. */
enum end { END_NONE, END_CHILD, END_TIME, END_SIZE, END_SIGNAL, END_ERROR };

/* Record until the end, and pack. Returns -1 after printing an error. */
int session_record(const struct asked *asked);

/* Start and stop recording system calls. They are recorded only between the listings, which make more calls than most
 * programs. Return -1 after printing an error. */
int session_begin_calls(const struct session *session);
int session_end_calls(const struct session *session);

/* Trace, list and run the command until a reason to end occurs; in running.c. */
enum end session_run(struct session *session);

/* Return the time of the trace's clock. */
int64_t session_trace_ns(const struct session *session);

/* End a segment with everything before `end_ns`: the data since the last segment becomes a file. Returns -1 after
 * printing an error. */
int session_end_segment(struct session *session, int64_t end_ns);

/* End the command if it still runs. */
void session_end_command(struct session *session);
