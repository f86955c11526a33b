/* Decoding untrusted text as UTF-8 and printing it safely on a terminal. */
#pragma once

#include "common/base.h"

/* Return the length in bytes of the UTF-8 sequence at the start of `text`; 0: it is invalid (RFC 3629). */
size_t utf8_length(const unsigned char *text);

/* Print `text` on one line of a terminal. Control characters, characters that change the direction of writing and bytes
 * that are not UTF-8 become \xNN. */
void utf8_print(FILE *out, const char *text);

/* Write the same into `size` bytes, truncated between characters. */
void utf8_show(char *into, size_t size, const char *text);
