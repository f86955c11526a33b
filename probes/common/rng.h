/* Random numbers: independent seeded streams, and the generator of the original Mobibench. */
#pragma once

#include "common/base.h"

/* xoshiro256** of Blackman and Vigna, seeded by splitmix64. */
struct rng {
    uint64_t state[4];
};

/* Purposes of random numbers. Each purpose of each worker has its own stream. */
enum rng_use { RNG_READS, RNG_WRITES, RNG_KEYS, RNG_CHOICES, RNG_PAYLOAD, RNG_LAYOUT };
uint64_t rng_stream(enum rng_use use, uint32_t worker);

/* Seed a stream. Streams of one seed with different IDs are independent. */
void rng_seed(struct rng *rng, uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);

/* Draw uniformly from [0, bound), without the bias of a remainder. `bound` must not be 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Scramble a number. Different numbers stay different, and 0 stays 0. */
uint64_t rng_scramble(uint64_t number);

/* MT19937-64 of Matsumoto and Nishimura. */
#define MT64_WORDS 312
struct mt64 {
    uint64_t words[MT64_WORDS];
    unsigned next;
};

void mt64_seed_array(struct mt64 *mt, const uint64_t *key, unsigned length);
uint64_t mt64_next(struct mt64 *mt);
