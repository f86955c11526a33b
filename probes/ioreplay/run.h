/* Replaying: every thread of a program does its operations in their order, when they are due and when the operations of
 * other threads that they depend on have ended. */
#ifndef ANDROSTEP_IOREPLAY_RUN_H
#define ANDROSTEP_IOREPLAY_RUN_H

#include "ioreplay/calls.h"
#include "ioreplay/program.h"

enum replay_mode { REPLAY_AS_RECORDED, REPLAY_AS_FAST, REPLAY_SCALED, REPLAY_MODES };

/* As schemas/replay_runs.json has them. */
extern const char *const replay_mode_names[REPLAY_MODES];

/* What came of an operation; columns of schemas/replay_ops.json. */
struct replay_outcome {
    int64_t start_ns, waited_ns, latency_ns, result;
};

struct replay_run {
    const struct replay_program *program;
    enum replay_mode mode;
    int64_t scale_ppm;               /* of REPLAY_SCALED */
    struct replay_outcome *outcomes; /* in the order of program->thread_operations */
    uint32_t *done;                  /* of each thread: how many of its operations were done */
    int64_t ts_ns, realtime_ns;      /* the start: CLOCK_BOOTTIME, CLOCK_REALTIME */
    int64_t duration_ns;             /* until the last operation ended */
    int64_t cpu_user_ns, cpu_system_ns;
    bool interrupted;
    int32_t result; /* 0, or a negative errno: the replay could not be begun */
};

/* When an operation is due, since the start; null: as soon as possible. */
int64_t replay_due_ns(const struct replay_run *run, const struct replay_operation *operation);

/*
 * Replays run->program by run->mode in `place` and fills in the rest. `show` gets the operations done about twice a
 * second. Returns 0, also where a signal ended it early; -1 after it complained.
 */
int replay_run(struct replay_run *run, const struct replay_place *place, void (*show)(uint64_t done, uint64_t all));
/* NULL: it was not done. */
const struct replay_outcome *replay_outcome(const struct replay_run *run, uint32_t operation);

void replay_run_free(struct replay_run *run);

#endif
