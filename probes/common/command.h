/* The command that runs while a probe records. */
#ifndef ANDROSTEP_COMMON_COMMAND_H
#define ANDROSTEP_COMMON_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Whether execvp would find a program: asked before anything is recorded. */
bool command_is_runnable(const char *word);

/* Starts the command of these words, which end with NULL, with signal mask `mask`. Returns its process, or 0 with a
 * sentence on standard error. */
pid_t command_start(char *const *words, const sigset_t *mask);

#endif
