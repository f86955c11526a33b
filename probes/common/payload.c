#include "common/payload.h"

#define BLOCK_BYTES 4096
#define WORD        sizeof(uint64_t)
#define POOL_WORDS  8192 /* more than a block needs, and small enough to stay in a processor's cache */

/* Return the ID of the worker's first block: a bit for the use, 11 for the worker (at most 1024), 52 for its own
 * blocks. */
static uint64_t first_block(enum rng_use use, uint32_t worker)
{
    return (uint64_t)(use == RNG_LAYOUT) << 63 | (uint64_t)worker << 52;
}

void payload_open(struct payload *payload, size_t record, unsigned compress, unsigned dedupe, uint64_t seed,
                  enum rng_use use, uint32_t worker)
{
    *payload = (struct payload){
        .pool = grow(NULL, POOL_WORDS, WORD),
        .key = rng_scramble(seed) + 1,
        .first = first_block(use, worker),
        .blocks = (record + BLOCK_BYTES - 1) / BLOCK_BYTES,
        .compress = compress,
        .dedupe = dedupe,
    };
    rng_seed(&payload->rng, seed, rng_stream(use, worker));
    for (unsigned word = 0; word < POOL_WORDS; word++)
        payload->pool[word] = rng_next(&payload->rng);
}

/* Two words at a time: compilers do not vectorise this at -O2. */
typedef uint64_t lanes __attribute__((vector_size(2 * WORD)));

/* Reads up to two words of the pool beyond `bytes`. */
static void mix(unsigned char *restrict out, const uint64_t *restrict pool, uint64_t key, size_t bytes)
{
    const lanes keys = {key, key};
    lanes mixed;
    size_t at;
    for (at = 0; at + sizeof mixed <= bytes; at += sizeof mixed) {
        memcpy(&mixed, pool + at / WORD, sizeof mixed);
        mixed ^= keys;
        memcpy(out + at, &mixed, sizeof mixed);
    }
    memcpy(&mixed, pool + at / WORD, sizeof mixed);
    mixed ^= keys;
    memcpy(out + at, &mixed, bytes - at);
}

/* Fill a block with a unique key as its first word and pool words mixed with this key. Blocks then have nothing in
 * common that a compressor could find, at any distance, and no two are equal. */
static void fill_block(const struct payload *payload, uint64_t number, unsigned char *block, size_t bytes)
{
    uint64_t key = rng_scramble(number) ^ payload->key;
    size_t filled = bytes * (100 - payload->compress) / 100, first = bytes < WORD ? bytes : WORD;
    memcpy(block, &key, first);
    if (filled < first)
        filled = first;
    mix(block + first, payload->pool + key % (POOL_WORDS - BLOCK_BYTES / WORD), key, filled - first);
    memset(block + filled, 0, bytes - filled);
}

/* Return the index of the next record: a new one or a repeated one, so that the share of repetitions is exact at every
 * time. */
static uint64_t next_record(struct payload *payload)
{
    payload->owed += payload->dedupe;
    if (payload->owed < 100 || !payload->records)
        return payload->records++;
    payload->owed -= 100;
    return rng_below(&payload->rng, payload->records);
}

void payload_fill(struct payload *payload, void *record, size_t bytes)
{
    uint64_t number = payload->first + next_record(payload) * payload->blocks;
    unsigned char *out = record;
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES)
        fill_block(payload, number++, out + at, bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES);
}

void payload_close(struct payload *payload)
{
    free(payload->pool);
    payload->pool = NULL;
}
