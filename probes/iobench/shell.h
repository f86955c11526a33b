/* Command lines in the syntax of a shell. */
#pragma once

/* Join the words in one line, quoted where necessary (freed by the caller). Returns NULL if memory runs out. */
char *shell_join(int count, char **words);
