/* SHA-256 (FIPS 180-4). */
#ifndef ANDROSTEP_IOREPLAY_SHA256_H
#define ANDROSTEP_IOREPLAY_SHA256_H

#include <stddef.h>

/* Write the digest of `length` bytes as hexadecimal digits with a NUL. */
void sha256_of(const void *bytes, size_t length, char digits[65]);

#endif
