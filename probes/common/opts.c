#include "common/opts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/errors.h"

#define HELP_COLUMN 26
#define SECOND_NS   INT64_C(1000000000)

struct suffix {
    const char *text;
    int64_t factor;
};

static const struct opt *by_letter(const struct opts *opts, char letter)
{
    for (size_t index = 0; index < opts->count; index++)
        if (opts->table[index].letter && opts->table[index].letter == letter)
            return &opts->table[index];
    return NULL;
}

static const struct opt *by_name(const struct opts *opts, const char *name, size_t length)
{
    for (size_t index = 0; index < opts->count; index++) {
        const struct opt *opt = &opts->table[index];

        if (opt->kind != OPT_HEADING && opt->name && strlen(opt->name) == length && !strncmp(opt->name, name, length))
            return opt;
    }
    return NULL;
}

const char *opts_call(const struct opt *opt, char called[64])
{
    if (opt->name)
        snprintf(called, 64, "--%s", opt->name);
    else
        snprintf(called, 64, "-%c", opt->letter);
    return called;
}

static int take_number(const struct opt *opt, const char *value)
{
    char *end = NULL, called[64];
    intmax_t number;

    errno = 0;
    number = strtoimax(value, &end, 10);
    if (errno || end == value || *end || number < opt->least || number > opt->most)
        return print_error("%s %s: expected a number from %" PRId64 " to %" PRId64, opts_call(opt, called), value,
                           opt->least, opt->most);
    *(int64_t *)opt->into = number;
    return 0;
}

/* Parse a number followed by one of the suffixes. Returns false for anything else and on overflow. */
static bool scaled(const char *text, const struct suffix *suffixes, int64_t *into)
{
    char *end = NULL;
    intmax_t number;

    errno = 0;
    number = strtoimax(text, &end, 10);
    if (errno || end == text)
        return false;
    while (suffixes->text && strcasecmp(suffixes->text, end) != 0)
        suffixes++;
    return suffixes->text && !__builtin_mul_overflow(number, suffixes->factor, into);
}

static bool in_bytes(const char *text, int64_t *bytes)
{
    static const struct suffix suffixes[] = {{"", 1},        {"k", 1 << 10},          {"m", 1 << 20},
                                             {"g", 1 << 30}, {"t", INT64_C(1) << 40}, {NULL, 0}};

    return scaled(text, suffixes, bytes);
}

static bool in_ns(const char *text, int64_t *ns)
{
    static const struct suffix suffixes[] = {{"", SECOND_NS},          {"us", 1000},
                                             {"ms", 1000000},          {"s", SECOND_NS},
                                             {"m", 60 * SECOND_NS},    {"h", 3600 * SECOND_NS},
                                             {"d", 86400 * SECOND_NS}, {NULL, 0}};

    return scaled(text, suffixes, ns);
}

static int take_size(const struct opt *opt, const char *value)
{
    char called[64];
    int64_t bytes;

    if (!in_bytes(value, &bytes) || bytes < opt->least || bytes > opt->most)
        return print_error("%s %s: expected bytes from %" PRId64 " to %" PRId64 ", or with a suffix k, m, g or t",
                           opts_call(opt, called), value, opt->least, opt->most);
    *(int64_t *)opt->into = bytes;
    return 0;
}

static int take_time(const struct opt *opt, const char *value)
{
    char called[64];
    int64_t ns;

    if (!in_ns(value, &ns) || ns < opt->least || ns > opt->most)
        return print_error("%s %s: expected seconds up to %" PRId64 "%s, or with a suffix d, h, m, s, ms or us",
                           opts_call(opt, called), value, opt->most / SECOND_NS,
                           opt->least > 0 ? " and more than 0" : "");
    *(int64_t *)opt->into = ns;
    return 0;
}

static int take_choice(const struct opt *opt, const char *value)
{
    size_t length = strlen(value);
    const char *word = opt->argument;
    int64_t number = 0;
    char called[64];

    for (;; number++) {
        size_t end = strcspn(word, "|");

        if (end == length && !strncmp(word, value, length))
            break;
        if (!word[end])
            return print_error("%s %s: expected one of %s", opts_call(opt, called), value, opt->argument);
        word += end + 1;
    }
    *(int64_t *)opt->into = number;
    return 0;
}

static int take_item(const struct opt *opt, const char *value)
{
    struct opt_list *list = opt->into;
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    char called[64];

    if (!items)
        return print_error("%s: no memory", opts_call(opt, called));
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
    case OPT_SIZE:
        return take_size(opt, value);
    case OPT_TIME:
        return take_time(opt, value);
    case OPT_CHOICE:
        return take_choice(opt, value);
    case OPT_LIST:
        return take_item(opt, value);
    case OPT_HEADING:
        break;
    }
    return -1;
}

/* Parse `opt` with the attached value, or else with the next word. Returns the number of words used, or -1. */
static int take_word(const struct opt *opt, const char *attached, const char *next)
{
    char called[64];

    if (opt->kind == OPT_FLAG)
        return attached ? print_error("%s takes no value", opts_call(opt, called)) : take(opt, NULL) ? -1 : 1;
    if (attached)
        return take(opt, attached) ? -1 : 1;
    if (!next)
        return print_error("%s needs a value: %s", opts_call(opt, called), opt->argument);
    return take(opt, next) ? -1 : 2;
}

/* Parse an option. Returns the number of words used, or -1. */
static int parse(const struct opts *opts, const char *word, const char *next)
{
    bool is_long = word[1] == '-';
    size_t length = is_long ? 2 + strcspn(word + 2, "=") : 2;
    const struct opt *opt = is_long ? by_name(opts, word + 2, length - 2) : by_letter(opts, word[1]);

    if (!opt)
        return print_error("%s is not an option; see --help", word);
    if (opts->given)
        opts->given[opt - opts->table] = true;
    return take_word(opt, word[length] ? word + length + is_long : NULL, next);
}

int opts_parse(const struct opts *opts, int argc, char **argv)
{
    int index = 1;

    while (index < argc && argv[index][0] == '-' && argv[index][1]) {
        const char *word = argv[index], *next = index + 1 < argc ? argv[index + 1] : NULL;
        int used;

        if (!strcmp(word, "--"))
            return index + 1;
        used = parse(opts, word, next);
        if (used < 0)
            return -1;
        index += used;
    }
    return index;
}

static int help_names(FILE *file, const struct opt *opt)
{
    if (!opt->name)
        return fprintf(file, "  -%c", opt->letter);
    if (!opt->letter)
        return fprintf(file, "      --%s", opt->name);
    return fprintf(file, "  -%c, --%s", opt->letter, opt->name);
}

static void help_line(FILE *file, const struct opt *opt)
{
    int width = help_names(file, opt);

    if (opt->argument)
        width += fprintf(file, " %s", opt->argument);
    if (width > HELP_COLUMN - 2) {
        fputc('\n', file);
        width = 0;
    }
    fprintf(file, "%*s", HELP_COLUMN - width, "");
    for (const char *line = opt->help;;) {
        int length = (int)strcspn(line, "\n");

        fprintf(file, "%.*s\n", length, line);
        if (!line[length])
            return;
        line += length + 1;
        fprintf(file, "%*s", HELP_COLUMN, "");
    }
}

int opts_help(FILE *file, const struct opts *opts, const char *program)
{
    fprintf(file, "usage: %s %s\n\n%s\n", program, opts->usage, opts->about);
    if (opts->count && opts->table[0].kind != OPT_HEADING)
        fputs("\noptions:\n", file);
    for (size_t index = 0; index < opts->count; index++)
        if (opts->table[index].kind == OPT_HEADING)
            fprintf(file, "\n%s:\n", opts->table[index].help);
        else
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
