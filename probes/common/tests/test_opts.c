/* Parsing of command lines. */
#include "common/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool flag;
static const char *text;
static int64_t number, size, span, choice;
static struct opt_list items;

static const struct opt table[] = {
    {'f', "flag", NULL, "a flag", OPT_FLAG, &flag, 0, 0},
    {'t', "text", "TEXT", "a text", OPT_TEXT, &text, 0, 0},
    {'n', "number", "N", "a number", OPT_NUMBER, &number, -5, 100},
    {0, "item", "ITEM", "one of several", OPT_LIST, &items, 0, 0},
    {0, "more", NULL, "another group", OPT_HEADING, NULL, 0, 0},
    {'s', NULL, "SIZE", "a size", OPT_SIZE, &size, 1, INT64_C(1) << 50},
    {0, "time", "S", "a time", OPT_TIME, &span, 1, INT64_C(86400000000000)},
    {0, "choice", "one|two|three", "a choice\nof three", OPT_CHOICE, &choice, 0, 0},
};
static const struct opts opts = {"[OPERAND...]", "For tests.", "The end.", table, sizeof table / sizeof *table, NULL};

static const struct {
    const char *words[8];
    int first; /* -1: rejected */
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

/* Values of -s; -1: rejected. */
static const struct {
    const char *text;
    int64_t bytes;
} sizes[] = {
    {"1", 1},
    {"4096", 4096},
    {"4k", 4096},
    {"4K", 4096},
    {"3m", 3 << 20},
    {"2g", INT64_C(2) << 30},
    {"1t", INT64_C(1) << 40},
    {"0", -1},
    {"-1", -1},
    {"k", -1},
    {"", -1},
    {"4kb", -1},
    {"4 k", -1},
    {"4x", -1},
    {"0x10", -1},
    {"1.5k", -1},
    {"1025t", -1},
    {"9t9", -1},
    {"1024t", INT64_C(1) << 50},
    {"9999999t", -1},
    {"99999999999999999999", -1},
    {"4@", -1},
};

/* Values of --time; -1: rejected. */
static const struct {
    const char *text;
    int64_t ns;
} times[] = {
    {"1", 1000000000},
    {"300ms", 300000000},
    {"7us", 7000},
    {"2s", 2000000000},
    {"2m", INT64_C(120000000000)},
    {"3h", INT64_C(10800000000000)},
    {"1d", INT64_C(86400000000000)},
    {"0", -1},
    {"-1s", -1},
    {"2d", -1},
    {"1ns", -1},
    {"1 s", -1},
    {"s", -1},
    {"", -1},
    {"99999999999", -1},
    {"1.5", -1},
};

/* Values of --choice; -1: rejected. */
static const struct {
    const char *text;
    int64_t number;
} choices[] = {{"one", 0}, {"two", 1}, {"three", 2}, {"on", -1}, {"twos", -1}, {"", -1}, {"one|two", -1}, {"ONE", -1}};

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

static int test_values(void)
{
    int failed = 0;

    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        const char *words[] = {"-s", sizes[index].text, NULL};

        size = -1;
        if ((parse(words) < 0) != (sizes[index].bytes < 0) || size != sizes[index].bytes) {
            printf("-s %s: %lld\n", sizes[index].text, (long long)size);
            failed = 1;
        }
    }
    for (size_t index = 0; index < sizeof times / sizeof *times; index++) {
        const char *words[] = {"--time", times[index].text, NULL};

        span = -1;
        if ((parse(words) < 0) != (times[index].ns < 0) || span != times[index].ns) {
            printf("--time %s: %lld\n", times[index].text, (long long)span);
            failed = 1;
        }
    }
    for (size_t index = 0; index < sizeof choices / sizeof *choices; index++) {
        const char *words[] = {"--choice", choices[index].text, NULL};

        choice = -1;
        if ((parse(words) < 0) != (choices[index].number < 0) || choice != choices[index].number) {
            printf("--choice %s: %d\n", choices[index].text, (int)choice);
            failed = 1;
        }
    }
    return failed;
}

/* A heading is not an option, not even by its name. */
static int test_heading(void)
{
    const char *words[] = {"--more", NULL};

    return parse(words) < 0 ? 0 : 1;
}

static const char help[] = "usage: program [OPERAND...]\n"
                           "\n"
                           "For tests.\n"
                           "\n"
                           "options:\n"
                           "  -f, --flag              a flag\n"
                           "  -t, --text TEXT         a text\n"
                           "  -n, --number N          a number\n"
                           "      --item ITEM         one of several\n"
                           "\n"
                           "another group:\n"
                           "  -s SIZE                 a size\n"
                           "      --time S            a time\n"
                           "      --choice one|two|three\n"
                           "                          a choice\n"
                           "                          of three\n"
                           "\n"
                           "The end.\n";

static int test_help(void)
{
    char *printed = NULL;
    size_t length;
    FILE *file = open_memstream(&printed, &length);
    int failed = !file || opts_help(file, &opts, "program");

    if (file && fclose(file))
        failed = 1;
    if (!failed && strcmp(printed, help) != 0) {
        fputs(printed, stdout);
        failed = 1;
    }
    free(printed);
    return failed;
}

int main(void)
{
    int failed = test_values() | test_heading() | test_help();

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
    return failed;
}
