/* What a program needs, without doing it. */
#ifndef ANDROSTEP_IOREPLAY_PLAN_H
#define ANDROSTEP_IOREPLAY_PLAN_H

#include <stdio.h>

#include "ioreplay/program.h"

struct replay_plan {
    int64_t descriptors; /* most that are open at once, in the recorded order */
    int64_t files, files_bytes;
};

void replay_plan_make(struct replay_plan *plan, const struct replay_program *program);

/* Lets this process have as many files open as the program needs and the system allows. To be called while there are no
 * other threads. Returns 0, or -1 after it complained that these are too few. */
int replay_plan_allow_descriptors(const struct replay_plan *plan, uint32_t nr_threads);

/* For people; -1 where it cannot be written. */
int replay_plan_print(FILE *out, const struct replay_plan *plan, const struct replay_program *program,
                      const char *name);

#endif
