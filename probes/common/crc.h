/* CRC-32 as in zlib, gzip and Ethernet (reflected polynomial 0xEDB88320). */
#pragma once

#include "common/base.h"

/* Continue checksum `crc`; start a message with 0 or any seed. */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length);
