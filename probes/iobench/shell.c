#include "iobench/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_word(FILE *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";

    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

char *shell_join(int count, char **words)
{
    char *line = NULL;
    size_t bytes;
    FILE *out = open_memstream(&line, &bytes);

    if (!out)
        return NULL;
    for (int index = 0; index < count; index++) {
        if (index)
            putc(' ', out);
        add_word(out, words[index]);
    }
    if (fclose(out)) {
        free(line);
        return NULL;
    }
    return line;
}
