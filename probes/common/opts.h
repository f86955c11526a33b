/* Command lines defined by one table, which drives both parsing and help. */
#pragma once

#include "common/base.h"

enum opt_kind {
    OPT_FLAG,    /* into a bool */
    OPT_TEXT,    /* into a const char * */
    OPT_NUMBER,  /* into an int64_t within [least, most] */
    OPT_SIZE,    /* as OPT_NUMBER in bytes, with fio's suffixes k, m, g and t for powers of 1024 */
    OPT_TIME,    /* as OPT_NUMBER in nanoseconds: seconds, or with fio's suffixes d, h, m, s, ms and us */
    OPT_CHOICE,  /* into an int64_t: index of the word in `argument`, which lists the choices separated by | */
    OPT_LIST,    /* into a struct opt_list; may be repeated */
    OPT_HEADING, /* no option: `help` is a heading of the options that follow; the program may use `name` */
};

struct opt_list {
    const char **items;
    size_t count;
};

struct opt {
    enum opt_kind kind;
    char letter;          /* 0: none */
    const char *name;     /* without the dashes */
    const char *argument; /* name of the value in the help; NULL for a flag */
    void *into;
    int64_t least, most;
    const char *help; /* may have several lines */
};

/* Options of every probe. */
#define OPT_DESCRIBE(into)                                                                                             \
    {OPT_FLAG, 0, "describe", NULL, into, 0, 0, "print the record types as JSON and do nothing else"}
#define OPT_HELP(into) {OPT_FLAG, 'h', "help", NULL, into, 0, 0, "print this text and do nothing else"}

struct opts {
    const char *usage; /* arguments after the program's name */
    const char *about; /* purpose of the program, printed before the options */
    const char *more;  /* examples and exit status, printed after the options */
    const struct opt *table;
    size_t count;
    bool *given; /* is set for each option of the table that is parsed; NULL: not needed */
};

/* Parse the options before the first operand; "--" ends them. Returns the index in argv of the first operand, or -1
 * after printing an error. Lists point into argv; free them with opts_release. */
int opts_parse(const struct opts *opts, int argc, char **argv);

/* Print the help. Returns 0, or -1 if it cannot be written. */
int opts_help(FILE *file, const struct opts *opts, const char *program);

void opts_release(const struct opts *opts);
