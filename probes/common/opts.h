/* Command lines from a table: the same table is parsed by and printed as help. */
#ifndef ANDROSTEP_COMMON_OPTS_H
#define ANDROSTEP_COMMON_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_kind {
    OPT_FLAG,    /* into a bool */
    OPT_TEXT,    /* into a const char * */
    OPT_NUMBER,  /* into an int64_t, which must lie in [least, most] */
    OPT_SIZE,    /* the same for bytes, with fio's suffixes k, m, g and t for powers of 1024 */
    OPT_TIME,    /* the same for nanoseconds: seconds, or with fio's suffixes d, h, m, s, ms and us */
    OPT_CHOICE,  /* into an int64_t: which of the words of `argument`, that has | between them */
    OPT_LIST,    /* into a struct opt_list; may be given again */
    OPT_HEADING, /* no option: `help` is printed over the options that follow; `name` is the program's to use */
};

struct opt_list {
    const char **items;
    size_t count;
};

struct opt {
    char letter;          /* 0: only the long name */
    const char *name;     /* without the dashes; NULL: only the letter */
    const char *argument; /* what the help calls it; NULL for a flag */
    const char *help;     /* may have several lines */
    enum opt_kind kind;
    void *into;
    int64_t least, most;
};

struct opts {
    const char *usage; /* what may follow the program's name */
    const char *about; /* what the program is for, before the options in the help */
    const char *more;  /* examples and exit status, after them */
    const struct opt *table;
    size_t count;
};

/*
 * Parses the options before the first operand; "--" ends them. Returns the index in argv of the first operand, or -1
 * and complains. Lists hold pointers into argv and are for opts_release.
 */
int opts_parse(const struct opts *opts, int argc, char **argv);

/* Prints the help. Returns 0, or -1 where it cannot be written. */
int opts_help(FILE *file, const struct opts *opts, const char *program);

/* What messages call an option: --name, or its letter where it has no name. */
const char *opts_call(const struct opt *opt, char called[64]);

void opts_release(const struct opts *opts);

#endif
