/* What must be true of a replay program before anything is done with it. */
#ifndef ANDROSTEP_IOREPLAY_CHECK_H
#define ANDROSTEP_IOREPLAY_CHECK_H

#include "ioreplay/program.h"

/* The program of file `path`, whose numbers of paths and threads are in range. Returns 0, or -1 after it complained of
 * the first thing that is wrong. */
int replay_check(const char *path, const struct replay_program *program);

#endif
