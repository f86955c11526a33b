/* Command lines in the syntax of a shell. */
#ifndef ANDROSTEP_IOBENCH_SHELL_H
#define ANDROSTEP_IOBENCH_SHELL_H

/* Join the words in one line, quoted where necessary (freed by the caller). Returns NULL if memory runs out. */
char *shell_join(int count, char **words);

#endif
