/* Starting the command that runs while a probe records, and the signals that end both. */
#pragma once

#include "common/base.h"

/* Set `signals` to those that end a program: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup). SIGINT is
 * included even if ignored, as by scripts for background commands. */
void command_end_signals(sigset_t *signals);

/* Return whether execvp would find the program. Probes check this before they record anything. */
bool command_is_runnable(const char *word);

/* Start the command in the NULL-terminated array `words` with signal mask `mask`. Returns its process ID, or 0 after
 * printing an error. */
pid_t command_start(char *const *words, const sigset_t *mask);
