/* Starting the command that runs while a probe records. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Return whether execvp would find the program. Probes check this before they record anything. */
bool command_is_runnable(const char *word);

/* Start the command in the NULL-terminated array `words` with signal mask `mask`. Returns its process ID, or 0 after
 * printing an error. */
pid_t command_start(char *const *words, const sigset_t *mask);
