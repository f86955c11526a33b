/* SHA-256 (FIPS 180-4). */
#pragma once

#include <stddef.h>

/* Write the digest of `length` bytes as hexadecimal digits with a NUL. */
void sha256_of(const void *bytes, size_t length, char digits[65]);
