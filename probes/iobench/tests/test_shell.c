/* Quoting of command lines for a shell. */
#define _GNU_SOURCE
#include "iobench/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

static const struct {
    char *words[3];
    int count;
    const char *line;
} cases[] = {
    {{NULL}, 0, ""},
    {{"iobench", "--size=1m", "-p"}, 3, "iobench --size=1m -p"},
    {{"a b", "", "c"}, 3, "'a b' '' c"},
    {{"it's", "$HOME", "`x`"}, 3, "'it'\\''s' '$HOME' '`x`'"},
    {{"a\nb", "*", "~"}, 3, "'a\nb' '*' '~'"},
};

int main(void)
{
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char *line = shell_join(cases[index].count, (char **)cases[index].words);

        tap_ok(line && !strcmp(line, cases[index].line), "%d words, case %zu", cases[index].count, index);
        free(line);
    }
    return tap_done();
}
