#include "common/opts.h"

#include <strings.h>

#define HELP_COLUMN 26
#define SECOND_NS   INT64_C(1000000000)

struct suffix {
    const char *text;
    int64_t factor;
};

static const struct suffix none[] = {{"", 1}, {NULL, 0}},
                           sizes[] = {{"", 1},        {"k", 1 << 10},          {"m", 1 << 20},
                                      {"g", 1 << 30}, {"t", INT64_C(1) << 40}, {NULL, 0}},
                           times[] = {{"", SECOND_NS},          {"us", 1000},
                                      {"ms", 1000000},          {"s", SECOND_NS},
                                      {"m", 60 * SECOND_NS},    {"h", 3600 * SECOND_NS},
                                      {"d", 86400 * SECOND_NS}, {NULL, 0}};

/* Parse a number followed by one of the suffixes. Returns false for anything else and on overflow. */
static bool scaled(const char *text, const struct suffix *suffix, int64_t *into)
{
    char *end = NULL;
    errno = 0;
    intmax_t number = strtoimax(text, &end, 10);
    if (errno || end == text)
        return false;
    while (suffix->text && strcasecmp(suffix->text, end) != 0)
        suffix++;
    return suffix->text && !__builtin_mul_overflow(number, suffix->factor, into);
}

static int take_number(const struct opt *opt, const char *value)
{
    int64_t number;
    if (scaled(value,
               opt->kind == OPT_TIME   ? times
               : opt->kind == OPT_SIZE ? sizes
                                       : none,
               &number) &&
        number >= opt->least && number <= opt->most) {
        *(int64_t *)opt->into = number;
        return 0;
    }
    if (opt->kind == OPT_TIME)
        return print_error("--%s %s: expected seconds up to %" PRId64 "%s, or with a suffix d, h, m, s, ms or us",
                           opt->name, value, opt->most / SECOND_NS, opt->least > 0 ? " and more than 0" : "");
    return print_error("--%s %s: expected %s from %" PRId64 " to %" PRId64 "%s", opt->name, value,
                       opt->kind == OPT_SIZE ? "bytes" : "a number", opt->least, opt->most,
                       opt->kind == OPT_SIZE ? ", or with a suffix k, m, g or t" : "");
}

static int take_choice(const struct opt *opt, const char *value)
{
    size_t length = strlen(value);
    const char *word = opt->argument;
    for (int64_t index = 0;; index++) {
        size_t end = strcspn(word, "|");
        if (end == length && !strncmp(word, value, length)) {
            *(int64_t *)opt->into = index;
            return 0;
        }
        if (!word[end])
            return print_error("--%s %s: expected one of %s", opt->name, value, opt->argument);
        word += end + 1;
    }
}

static int take(const struct opt *opt, const char *value)
{
    struct opt_list *list = opt->into;
    switch (opt->kind) {
    case OPT_FLAG:
        *(bool *)opt->into = true;
        return 0;
    case OPT_TEXT:
        *(const char **)opt->into = value;
        return 0;
    case OPT_CHOICE:
        return take_choice(opt, value);
    case OPT_LIST:
        list->items = grow(list->items, list->count + 1, sizeof *list->items);
        list->items[list->count++] = value;
        return 0;
    default:
        return take_number(opt, value);
    }
}

static const struct opt *find(const struct opts *opts, const char *word, size_t length)
{
    for (size_t index = 0; index < opts->count; index++) {
        const struct opt *opt = &opts->table[index];
        if (opt->kind != OPT_HEADING &&
            (word[1] == '-' ? strlen(opt->name) == length - 2 && !strncmp(opt->name, word + 2, length - 2)
                            : opt->letter == word[1]))
            return opt;
    }
    return NULL;
}

/* Parse an option with the attached value, or else with the next word. Returns the number of words used, or -1. */
static int parse(const struct opts *opts, const char *word, const char *next)
{
    bool is_long = word[1] == '-';
    size_t length = is_long ? strcspn(word, "=") : 2;
    const char *value = word[length] ? word + length + is_long : NULL;
    const struct opt *opt = find(opts, word, length);
    if (!opt)
        return print_error("%s is not an option; see --help", word);
    if (opts->given)
        opts->given[opt - opts->table] = true;
    if (opt->kind == OPT_FLAG && value)
        return print_error("--%s takes no value", opt->name);
    if (opt->kind != OPT_FLAG && !value && !next)
        return print_error("--%s needs a value: %s", opt->name, opt->argument);
    if (take(opt, value ? value : next) < 0)
        return -1;
    return value || opt->kind == OPT_FLAG ? 1 : 2;
}

int opts_parse(const struct opts *opts, int argc, char **argv)
{
    int index = 1;
    while (index < argc && argv[index][0] == '-' && argv[index][1]) {
        if (!strcmp(argv[index], "--"))
            return index + 1;
        int used = parse(opts, argv[index], index + 1 < argc ? argv[index + 1] : NULL);
        if (used < 0)
            return -1;
        index += used;
    }
    return index;
}

static void help_line(FILE *file, const struct opt *opt)
{
    const char letter[] = {'-', opt->letter, ',', '\0'};
    int width = fprintf(file, "  %3s --%s%s%s", opt->letter ? letter : "", opt->name, opt->argument ? " " : "",
                        opt->argument ? opt->argument : "");
    if (width > HELP_COLUMN - 2) {
        fputc('\n', file);
        width = 0;
    }
    for (const char *line = opt->help;; width = 0) {
        int length = (int)strcspn(line, "\n");
        fprintf(file, "%*s%.*s\n", HELP_COLUMN - width, "", length, line);
        if (!line[length])
            return;
        line += length + 1;
    }
}

int opts_help(FILE *file, const struct opts *opts, const char *program)
{
    fprintf(file, "usage: %s %s\n\n%s\n", program, opts->usage, opts->about);
    if (opts->table[0].kind != OPT_HEADING)
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
        if (opts->table[index].kind == OPT_LIST)
            free(((struct opt_list *)opts->table[index].into)->items);
}
