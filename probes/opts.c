#define _GNU_SOURCE
#include "opts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

#define HELP_COLUMN 26

static const struct opt *by_letter(const struct opts *opts, char letter)
{
    for (size_t index = 0; index < opts->count; index++)
        if (opts->table[index].letter && opts->table[index].letter == letter)
            return &opts->table[index];
    return NULL;
}

static const struct opt *by_name(const struct opts *opts, const char *name, size_t length)
{
    for (size_t index = 0; index < opts->count; index++)
        if (strlen(opts->table[index].name) == length && !strncmp(opts->table[index].name, name, length))
            return &opts->table[index];
    return NULL;
}

static int take_number(const struct opt *opt, const char *value)
{
    char *end = NULL;
    intmax_t number;

    errno = 0;
    number = strtoimax(value, &end, 10);
    if (errno || end == value || *end || number < opt->least || number > opt->most)
        return complain("--%s %s: expected a number from %" PRId64 " to %" PRId64, opt->name, value, opt->least,
                        opt->most);
    *(int64_t *)opt->into = number;
    return 0;
}

static int take_item(const struct opt *opt, const char *value)
{
    struct opt_list *list = opt->into;
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);

    if (!items)
        return complain("--%s: no memory", opt->name);
    list->items = items;
    list->items[list->count++] = value;
    return 0;
}

static int take(const struct opt *opt, const char *value)
{
    switch (opt->kind) {
    case OPT_FLAG:
        *(bool *)opt->into = true;
        return 0;
    case OPT_TEXT:
        *(const char **)opt->into = value;
        return 0;
    case OPT_NUMBER:
        return take_number(opt, value);
    case OPT_LIST:
        return take_item(opt, value);
    }
    return -1;
}

/* Takes `opt` with `attached`, or else with the next word. Returns how many words were used, or -1. */
static int take_word(const struct opt *opt, const char *attached, const char *next)
{
    if (opt->kind == OPT_FLAG)
        return attached ? complain("--%s takes no value", opt->name) : take(opt, NULL) ? -1 : 1;
    if (attached)
        return take(opt, attached) ? -1 : 1;
    if (!next)
        return complain("--%s needs a value: %s", opt->name, opt->argument);
    return take(opt, next) ? -1 : 2;
}

static int parse_long(const struct opts *opts, const char *word, const char *next)
{
    size_t length = strcspn(word + 2, "=");
    const struct opt *opt = by_name(opts, word + 2, length);

    if (!opt)
        return complain("%s is no option; --help lists them", word);
    return take_word(opt, word[2 + length] ? word + 2 + length + 1 : NULL, next);
}

static int parse_short(const struct opts *opts, const char *word, const char *next)
{
    const struct opt *opt = by_letter(opts, word[1]);

    if (!opt)
        return complain("%s is no option; --help lists them", word);
    return take_word(opt, word[2] ? word + 2 : NULL, next);
}

int opts_parse(const struct opts *opts, int argc, char **argv)
{
    int index = 1;

    while (index < argc && argv[index][0] == '-' && argv[index][1]) {
        const char *word = argv[index], *next = index + 1 < argc ? argv[index + 1] : NULL;
        int used;

        if (!strcmp(word, "--"))
            return index + 1;
        used = word[1] == '-' ? parse_long(opts, word, next) : parse_short(opts, word, next);
        if (used < 0)
            return -1;
        index += used;
    }
    return index;
}

static void help_line(FILE *file, const struct opt *opt)
{
    int width =
        opt->letter ? fprintf(file, "  -%c, --%s", opt->letter, opt->name) : fprintf(file, "      --%s", opt->name);

    if (opt->argument)
        width += fprintf(file, " %s", opt->argument);
    fprintf(file, "%*s%s\n", width < HELP_COLUMN ? HELP_COLUMN - width : 2, "", opt->help);
}

int opts_help(FILE *file, const struct opts *opts, const char *program)
{
    fprintf(file, "usage: %s %s\n\n%s\n\noptions:\n", program, opts->usage, opts->about);
    for (size_t index = 0; index < opts->count; index++)
        help_line(file, &opts->table[index]);
    fprintf(file, "\n%s\n", opts->more);
    return fflush(file) || ferror(file) ? -1 : 0;
}

void opts_release(const struct opts *opts)
{
    for (size_t index = 0; index < opts->count; index++)
        if (opts->table[index].kind == OPT_LIST) {
            struct opt_list *list = opts->table[index].into;

            free(list->items);
            *list = (struct opt_list){NULL, 0};
        }
}
