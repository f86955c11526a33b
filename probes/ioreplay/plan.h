/* Resources that a program needs, determined without executing it. */
#pragma once

#include <stdio.h>

#include "ioreplay/program.h"

struct replay_plan {
    int64_t descriptors; /* most open at once, in the recorded order */
    int64_t files, files_bytes;
};

void replay_plan_make(struct replay_plan *plan, const struct replay_program *program);

/* Raise the limit of open files for the program. Must be called before threads are created. Returns 0, or -1 after
 * printing an error if the limit is too low. */
int replay_plan_allow_descriptors(const struct replay_plan *plan, uint32_t nr_threads);

/* Print the plan. Returns -1 if it cannot be written. */
int replay_plan_print(FILE *out, const struct replay_plan *plan, const struct replay_program *program,
                      const char *name);
