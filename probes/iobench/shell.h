/* Command lines as a shell would take them. */
#ifndef ANDROSTEP_IOBENCH_SHELL_H
#define ANDROSTEP_IOBENCH_SHELL_H

/* The words in one line, quoted where they need it; for free(). NULL without memory. */
char *shell_join(int count, char **words);

#endif
