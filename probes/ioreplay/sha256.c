#include "ioreplay/replay.h"

#define BLOCK_BYTES  64
#define LENGTH_BYTES 8 /* bytes of the message length at the end of the last block */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void expand(const unsigned char *block, uint32_t schedule[64])
{
    for (size_t index = 0; index < 16; index++) {
        const unsigned char *word = block + 4 * index;
        schedule[index] = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    }
    for (size_t index = 16; index < 64; index++) {
        uint32_t near = schedule[index - 2], far = schedule[index - 15];
        schedule[index] = schedule[index - 16] + (rotated(far, 7) ^ rotated(far, 18) ^ far >> 3) + schedule[index - 7] +
                          (rotated(near, 17) ^ rotated(near, 19) ^ near >> 10);
    }
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t schedule[64], work[8];
    expand(block, schedule);
    memcpy(work, state, sizeof work);
    for (size_t index = 0; index < 64; index++) {
        uint32_t chosen = (work[4] & work[5]) ^ (~work[4] & work[6]);
        uint32_t majority = (work[0] & work[1]) ^ (work[0] & work[2]) ^ (work[1] & work[2]);
        uint32_t one = work[7] + (rotated(work[4], 6) ^ rotated(work[4], 11) ^ rotated(work[4], 25)) + chosen +
                       round_constants[index] + schedule[index];
        uint32_t two = (rotated(work[0], 2) ^ rotated(work[0], 13) ^ rotated(work[0], 22)) + majority;
        memmove(work + 1, work, 7 * sizeof *work);
        work[4] += one;
        work[0] = one + two;
    }
    for (size_t index = 0; index < 8; index++)
        state[index] += work[index];
}

void sha256_of(const void *bytes, size_t length, char digits[65])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char end[2 * BLOCK_BYTES] = {0};
    const unsigned char *rest = bytes;
    size_t left = length, end_bytes;
    for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, rest += BLOCK_BYTES)
        add_block(state, rest);
    if (left)
        memcpy(end, rest, left);
    end[left] = 0x80;
    end_bytes = left < BLOCK_BYTES - LENGTH_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    for (size_t index = 0; index < LENGTH_BYTES; index++)
        end[end_bytes - 1 - index] = (unsigned char)((uint64_t)length * 8 >> 8 * index);
    for (size_t place = 0; place < end_bytes; place += BLOCK_BYTES)
        add_block(state, end + place);
    for (size_t index = 0; index < 8; index++)
        snprintf(digits + 8 * index, 9, "%08x", (unsigned int)state[index]);
}
