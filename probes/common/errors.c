#include <stdarg.h>

#include "common/utf8.h"

/* Capacity for two paths and a sentence about them. */
#define SENTENCE_BYTES 10240

static _Thread_local char last[SENTENCE_BYTES];

static void print_sentence(const char *sentence)
{
    char shown[SENTENCE_BYTES];
    utf8_show(shown, sizeof shown, sentence);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, shown);
}

int print_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last, sizeof last, format, arguments);
    va_end(arguments);
    print_sentence(last);
    return -1;
}

void print_note(const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    print_sentence(sentence);
}

const char *last_error(void)
{
    return last;
}
