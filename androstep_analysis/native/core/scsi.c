// SCSI commands on blocks (SBC-4).
#include "core/scsi.h"

#include <string.h>

static uint64_t big_endian(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

// Except for 6-byte commands, the group in the upper three bits of the operation code determines the length and the
// offsets of the block fields.
bool scsi_blocks(const uint8_t *command, size_t length, uint64_t *lba, uint64_t *blocks)
{
    enum { READ_6 = 0x08, WRITE_6 = 0x0a };
    static const uint8_t with_blocks[] = {0x28, 0x2a, 0x2e, 0x2f, 0x35, 0x41, 0x88, 0x8a,
                                          0x8e, 0x8f, 0x91, 0x93, 0xa8, 0xaa, 0xae, 0xaf};

    if (length < 6)
        return false;
    if (*command == READ_6 || *command == WRITE_6) {
        *lba = big_endian(command + 1, 3) & 0x1fffff;
        *blocks = command[4] ? command[4] : 256;
        return true;
    }
    if (!memchr(with_blocks, *command, sizeof(with_blocks)))
        return false;
    switch (*command >> 5) {
    case 1: // 10 bytes
    case 2:
        if (length < 10)
            return false;
        *lba = big_endian(command + 2, 4);
        *blocks = big_endian(command + 7, 2);
        return true;
    case 4: // 16 bytes
        if (length < 16)
            return false;
        *lba = big_endian(command + 2, 8);
        *blocks = big_endian(command + 10, 4);
        return true;
    default: // 12 bytes
        if (length < 12)
            return false;
        *lba = big_endian(command + 2, 4);
        *blocks = big_endian(command + 6, 4);
        return true;
    }
}
