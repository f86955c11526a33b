/* Numbers with a unit, formatted for people. */
#pragma once

#include "common/base.h"

#define WORDS_SIZE 64

/* Format like "4 KiB", "1.536 MiB" and "27.1 us". */
void words_bytes(double bytes, char text[WORDS_SIZE]);
void words_time(double ns, char text[WORDS_SIZE]);

/* Print `before`, followed by the bytes with their unit. */
void words_print_bytes(FILE *out, const char *before, int64_t bytes);
