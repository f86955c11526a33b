#include "common/words.h"

static void with_unit(double value, double step, const char *const *units, int count, char text[WORDS_SIZE])
{
    int unit = 0;
    while (unit < count - 1 && value >= step) {
        value /= step;
        unit++;
    }
    snprintf(text, WORDS_SIZE, value < 1000 ? "%.4g %s" : "%.0f %s", value, units[unit]);
}

void words_bytes(double bytes, char text[WORDS_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    with_unit(bytes, 1024, units, 5, text);
}

void words_time(double ns, char text[WORDS_SIZE])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    with_unit(ns, 1000, units, 4, text);
}

void words_print_bytes(FILE *out, const char *before, int64_t bytes)
{
    char text[WORDS_SIZE];
    words_bytes((double)bytes, text);
    fprintf(out, "%s%s", before, text);
}
