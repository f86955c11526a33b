/* Text from anywhere: what of it is UTF-8, and what of that a terminal may see. */
#ifndef ANDROSTEP_COMMON_UTF8_H
#define ANDROSTEP_COMMON_UTF8_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of the UTF-8 sequence that `text` begins with; 0 where it begins with none (RFC 3629). */
size_t utf8_length(const unsigned char *text);

/* Prints `text` on one line of a terminal: control characters, those that turn the direction of writing and bytes that
 * are no UTF-8 become \xNN. */
void utf8_print(FILE *out, const char *text);

/* The same into `size` bytes, cut between characters where that is too few. */
void utf8_show(char *into, size_t size, const char *text);

#endif
