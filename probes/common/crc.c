#include "common/crc.h"

/* table[n][b] is the remainder of byte b followed by n zero bytes. Eight bytes are then eight independent look-ups.
 * With a look-up for every four bits, the checksum was most of the cost of writing a record. */
static uint32_t table[8][256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
        table[0][byte] = crc;
    }
    for (int behind = 1; behind < 8; behind++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[behind][byte] = table[behind - 1][byte] >> 8 ^ table[0][table[behind - 1][byte] & 255];
}

static uint32_t four(uint32_t word, int behind)
{
    return table[behind + 3][word & 255] ^ table[behind + 2][word >> 8 & 255] ^ table[behind + 1][word >> 16 & 255] ^
           table[behind][word >> 24];
}

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;
    crc = ~crc;
    for (; length >= 8; length -= 8, byte += 8) {
        uint32_t words[2]; /* little-endian, as record.c requires */
        memcpy(words, byte, sizeof words);
        crc = four(words[0] ^ crc, 4) ^ four(words[1], 0);
    }
    while (length--)
        crc = crc >> 8 ^ table[0][(crc ^ *byte++) & 255];
    return ~crc;
}
