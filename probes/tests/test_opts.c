/* Command lines and what is made of them. */
#define _GNU_SOURCE
#include "../opts.h"

#include <stdio.h>
#include <string.h>

static bool flag;
static const char *text;
static int64_t number;
static struct opt_list items;

static const struct opt table[] = {
    {'f', "flag", NULL, "a flag", OPT_FLAG, &flag, 0, 0},
    {'t', "text", "TEXT", "a text", OPT_TEXT, &text, 0, 0},
    {'n', "number", "N", "a number", OPT_NUMBER, &number, -5, 100},
    {0, "item", "ITEM", "one of several", OPT_LIST, &items, 0, 0},
};
static const struct opts opts = {"[OPERAND...]", "For tests.", "The end.", table, sizeof table / sizeof *table};

static const struct {
    const char *words[8];
    int first; /* -1: refused */
    bool flag;
    const char *text;
    int64_t number;
    size_t items;
} cases[] = {
    {{NULL}, 1, false, NULL, 0, 0},
    {{"-f"}, 2, true, NULL, 0, 0},
    {{"--flag"}, 2, true, NULL, 0, 0},
    {{"--flag=yes"}, -1, false, NULL, 0, 0},
    {{"-fx"}, -1, false, NULL, 0, 0},
    {{"-t", "a"}, 3, false, "a", 0, 0},
    {{"-ta"}, 2, false, "a", 0, 0},
    {{"--text", "-f"}, 3, false, "-f", 0, 0},
    {{"--text="}, 2, false, "", 0, 0},
    {{"--text=a=b"}, 2, false, "a=b", 0, 0},
    {{"--text"}, -1, false, NULL, 0, 0},
    {{"--tex", "a"}, -1, false, NULL, 0, 0},
    {{"--texts", "a"}, -1, false, NULL, 0, 0},
    {{"-n", "100"}, 3, false, NULL, 100, 0},
    {{"-n-5"}, 2, false, NULL, -5, 0},
    {{"-n", "101"}, -1, false, NULL, 0, 0},
    {{"-n", "-6"}, -1, false, NULL, 0, 0},
    {{"-n", "1x"}, -1, false, NULL, 0, 0},
    {{"-n", ""}, -1, false, NULL, 0, 0},
    {{"-n", "99999999999999999999"}, -1, false, NULL, 0, 0},
    {{"--item", "a", "--item=b", "--item", "c"}, 6, false, NULL, 0, 3},
    {{"-f", "operand", "-t", "x"}, 2, true, NULL, 0, 0},
    {{"-f", "--", "-t", "x"}, 3, true, NULL, 0, 0},
    {{"-", "-f"}, 1, false, NULL, 0, 0},
    {{"-x"}, -1, false, NULL, 0, 0},
    {{"--"}, 2, false, NULL, 0, 0},
};

static bool same(const char *one, const char *other)
{
    return one == other || (one && other && !strcmp(one, other));
}

static int parse(const char *const *words)
{
    static char program[] = "program", copies[8][32];
    char *argv[10] = {program};
    int argc = 1;

    for (; words[argc - 1]; argc++) {
        snprintf(copies[argc - 1], sizeof copies[0], "%s", words[argc - 1]);
        argv[argc] = copies[argc - 1];
    }
    flag = false;
    text = NULL;
    number = 0;
    return opts_parse(&opts, argc, argv);
}

int main(void)
{
    int failed = 0;

    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        int first = parse(cases[index].words);

        if (first != cases[index].first ||
            (first >= 0 && (flag != cases[index].flag || !same(text, cases[index].text) ||
                            number != cases[index].number || items.count != cases[index].items))) {
            printf("case %zu: %d flag %d text %s number %d items %zu\n", index, first, flag, text ? text : "none",
                   (int)number, items.count);
            failed = 1;
        }
        opts_release(&opts);
    }
    return opts_help(stdout, &opts, "program") ? 1 : failed;
}
