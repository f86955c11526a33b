#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/complain.h"
#include "iobench/arguments.h"

static int add(struct sweep *sweep, const char *value, size_t length)
{
    char **words = realloc(sweep->words, ((size_t)sweep->count + 1) * sizeof *words), *word;

    if (words)
        sweep->words = words;
    if (!words || asprintf(&word, "--%s=%.*s", sweep->opt->name, (int)length, value) < 0)
        return complain("--sweep %s: no memory", sweep->opt->name);
    sweep->words[sweep->count++] = word;
    return 0;
}

static int add_list(struct sweep *sweep, const char *values)
{
    for (;;) {
        size_t length = strcspn(values, ",");

        if (!length)
            return complain("--sweep %s: a value is empty; give NAME=V1,V2,... or NAME=LOW..HIGH", sweep->opt->name);
        if (add(sweep, values, length))
            return -1;
        if (!values[length])
            return 0;
        values += length + 1;
    }
}

static int add_doubling(struct sweep *sweep, const char *low_text, const char *high_text)
{
    int64_t low, high;

    if ((sweep->opt->kind != OPT_NUMBER && sweep->opt->kind != OPT_SIZE) || !opts_size(low_text, &low) ||
        !opts_size(high_text, &high) || low < 1)
        return complain("--sweep %s=%s..%s: expected numbers from 1 on", sweep->opt->name, low_text, high_text);
    for (int64_t value = low; value <= high; value *= 2) {
        char text[24];

        snprintf(text, sizeof text, "%" PRId64, value);
        if (add(sweep, text, strlen(text)))
            return -1;
        if (value == high)
            return 0;
        if (value > INT64_MAX / 2)
            break;
    }
    return complain("--sweep %s=%s..%s: doubling %s never gives %s", sweep->opt->name, low_text, high_text, low_text,
                    high_text);
}

static int add_values(struct sweep *sweep, const char *values)
{
    const char *dots = strstr(values, "..");
    char *low;
    int failed;

    if (!dots || strchr(values, '/') || strchr(values, ','))
        return add_list(sweep, values);
    low = strndup(values, (size_t)(dots - values));
    if (!low)
        return complain("--sweep %s: no memory", sweep->opt->name);
    failed = add_doubling(sweep, low, dots + 2);
    free(low);
    return failed;
}

int sweep_parse(struct sweep *sweep, const struct opts *opts, const char *text)
{
    size_t length = strcspn(text, "=");

    *sweep = (struct sweep){opts_find(opts, text, length), NULL, 0};
    if (!text[length])
        return complain("--sweep %s: expected NAME=V1,V2,... or NAME=LOW..HIGH", text);
    if (!sweep->opt || sweep->opt->kind == OPT_FLAG || sweep->opt->kind == OPT_LIST)
        return complain("--sweep %s: %.*s is no option that takes a value", text, (int)length, text);
    return add_values(sweep, text + length + 1);
}

void sweep_free(struct sweep *sweep)
{
    for (int index = 0; index < sweep->count; index++)
        free(sweep->words[index]);
    free(sweep->words);
    *sweep = (struct sweep){NULL, NULL, 0};
}
