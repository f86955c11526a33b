/* Runs a replay: every thread of a program does its operations in order, when they are due and their dependencies on
 * other threads have ended. */
#pragma once

#include "ioreplay/calls.h"
#include "ioreplay/program.h"

enum replay_mode { REPLAY_AS_RECORDED, REPLAY_AS_FAST, REPLAY_SCALED, REPLAY_MODES };

/* As in schemas/replay_runs.json. */
extern const char *const replay_mode_names[REPLAY_MODES];

/* Result of an operation; columns of schemas/replay_ops.json. */
struct replay_outcome {
    int64_t start_ns, waited_ns, latency_ns, result;
};

struct replay_run {
    const struct replay_program *program;
    enum replay_mode mode;
    int64_t scale_ppm;               /* of REPLAY_SCALED */
    struct replay_outcome *outcomes; /* in the order of program->thread_operations */
    uint32_t *done;                  /* completed operations of each thread */
    int64_t ts_ns, realtime_ns;      /* start in CLOCK_BOOTTIME and CLOCK_REALTIME */
    int64_t duration_ns;             /* until the end of the last operation */
    int64_t cpu_user_ns, cpu_system_ns;
    bool interrupted;
    int32_t result; /* 0, or a negative errno if the replay could not start */
};

/* Return the due time of an operation since the start; null: as soon as possible. */
int64_t replay_due_ns(const struct replay_run *run, const struct replay_operation *operation);

/* Replay run->program by run->mode in `place` and fill in the other members. `show` receives the number of completed
 * operations about twice a second. Returns 0, even if a signal ended it early, or -1 after printing an error. */
int replay_run(struct replay_run *run, const struct replay_place *place, void (*show)(uint64_t done, uint64_t all));
/* Return the outcome of an operation, or NULL if it was not done. */
const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation);

void replay_run_free(struct replay_run *run);
