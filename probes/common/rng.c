#include "common/rng.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* increment of splitmix64 */

uint64_t rng_stream(enum rng_use use, uint32_t worker)
{
    return (uint64_t)use << 32 | worker;
}

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014; Stafford's variant 13). */
uint64_t rng_scramble(uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed ^ rng_scramble(stream);
    for (unsigned word = 0; word < 4; word++)
        rng->state[word] = rng_scramble(state += GOLDEN);
}

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *state = rng->state;
    uint64_t result = rotate(state[1] * 5, 7) * 9, shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

/* Draws as many bits as `bound` has until they are below it: less than two draws on average. A division would be slow
 * on 32-bit processors, which do it in software. */
uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    uint64_t mask = bound > 1 ? UINT64_MAX >> __builtin_clzll(bound - 1) : 0, drawn;
    do {
        drawn = rng_next(rng) & mask;
    } while (drawn >= bound);
    return drawn;
}

static void mt64_seed(struct mt64 *mt, uint64_t seed)
{
    mt->words[0] = seed;
    for (unsigned word = 1; word < MT64_WORDS; word++) {
        uint64_t before = mt->words[word - 1];
        mt->words[word] = UINT64_C(6364136223846793005) * (before ^ before >> 62) + word;
    }
    mt->next = MT64_WORDS;
}

/* Return the word after `word` and wrap around from the last to 1; the last word is then copied to word 0. */
static unsigned after(struct mt64 *mt, unsigned word)
{
    if (word + 1 < MT64_WORDS)
        return word + 1;
    mt->words[0] = mt->words[MT64_WORDS - 1];
    return 1;
}

static uint64_t carried(const struct mt64 *mt, unsigned word, uint64_t factor)
{
    uint64_t before = mt->words[word - 1];
    return mt->words[word] ^ (before ^ before >> 62) * factor;
}

void mt64_seed_array(struct mt64 *mt, const uint64_t *key, unsigned length)
{
    unsigned word = 1;
    mt64_seed(mt, 19650218);
    for (unsigned round = 0; round < (length > MT64_WORDS ? length : MT64_WORDS); round++) {
        mt->words[word] = carried(mt, word, UINT64_C(3935559000370003845)) + key[round % length] + round % length;
        word = after(mt, word);
    }
    for (unsigned round = 1; round < MT64_WORDS; round++) {
        mt->words[word] = carried(mt, word, UINT64_C(2862933555777941757)) - word;
        word = after(mt, word);
    }
    mt->words[0] = UINT64_C(1) << 63;
}

static void mt64_twist(struct mt64 *mt)
{
    const uint64_t upper = UINT64_MAX << 31;
    for (unsigned word = 0; word < MT64_WORDS; word++) {
        uint64_t joined = (mt->words[word] & upper) | (mt->words[(word + 1) % MT64_WORDS] & ~upper);
        mt->words[word] = mt->words[(word + MT64_WORDS / 2) % MT64_WORDS] ^ joined >> 1 ^
                          (joined & 1 ? UINT64_C(0xb5026f5aa96619e9) : 0);
    }
    mt->next = 0;
}

uint64_t mt64_next(struct mt64 *mt)
{
    if (mt->next == MT64_WORDS)
        mt64_twist(mt);
    uint64_t word = mt->words[mt->next++];
    word ^= word >> 29 & UINT64_C(0x5555555555555555);
    word ^= word << 17 & UINT64_C(0x71d67fffeda60000);
    word ^= word << 37 & UINT64_C(0xfff7eee000000000);
    return word ^ word >> 43;
}
