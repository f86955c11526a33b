/* Random numbers against published values, and their distribution. */
#include "common/rng.h"

#include <stdlib.h>

#include "common/tests/tap.h"

/* First outputs of the authors' xoshiro256starstar.c from the state 1, 2, 3, 4. */
static const uint64_t xoshiro[] = {
    11520,
    0,
    1509978240,
    UINT64_C(1215971899390074240),
    UINT64_C(1216172134540287360),
    UINT64_C(607988272756665600),
    UINT64_C(16172922978634559625),
    UINT64_C(8476171486693032832),
    UINT64_C(10595114339597558777),
    UINT64_C(2904607092377533576),
};

/* First outputs of Vigna's splitmix64.c from 1234567, with which stream 0 of that seed starts. */
static const uint64_t splitmix[] = {
    UINT64_C(6457827717110365317),
    UINT64_C(3203168211198807973),
    UINT64_C(9817491932198370423),
    UINT64_C(4593380528125082431),
};

/* From mt19937-64.out.txt of Matsumoto and Nishimura. */
static const uint64_t mt_key[] = {0x12345, 0x23456, 0x34567, 0x45678};
static const uint64_t mt_first[] = {
    UINT64_C(7266447313870364031),  UINT64_C(4946485549665804864),  UINT64_C(16945909448695747420),
    UINT64_C(16394063075524226720), UINT64_C(4873882236456199058),  UINT64_C(14877448043947020171),
    UINT64_C(6740343660852211943),  UINT64_C(13857871200353263164), UINT64_C(5249110015610582907),
    UINT64_C(10205081126064480383),
};
#define MT_LAST        UINT64_C(994412663058993407)
#define MT_LAST_NUMBER 1000

static void check_answers(void)
{
    struct rng rng = {{1, 2, 3, 4}};
    struct mt64 mt;
    uint64_t last = 0;
    bool good = true;

    for (size_t index = 0; index < sizeof xoshiro / sizeof *xoshiro; index++)
        good &= rng_next(&rng) == xoshiro[index];
    tap_ok(good, "xoshiro256**");

    rng_seed(&rng, 1234567, 0);
    good = true;
    for (size_t index = 0; index < sizeof splitmix / sizeof *splitmix; index++)
        good &= rng.state[index] == splitmix[index];
    tap_ok(good, "seeded by splitmix64");

    mt64_seed_array(&mt, mt_key, sizeof mt_key / sizeof *mt_key);
    good = true;
    for (size_t index = 0; index < MT_LAST_NUMBER; index++) {
        last = mt64_next(&mt);
        good &= index >= sizeof mt_first / sizeof *mt_first || last == mt_first[index];
    }
    tap_ok(good, "MT19937-64: the first outputs");
    tap_ok(last == MT_LAST, "MT19937-64: output %d", MT_LAST_NUMBER);
}

/* `limit` is the 99.9 % point of chi-square with one degree of freedom less than bins. The bias of a 64-bit remainder
 * shows only at large bounds: with 3 << 62 the first third is twice as likely. */
static const struct {
    uint64_t bound;
    unsigned bins;
    double limit;
} uniform[] = {
    {2, 2, 10.83},
    {3, 3, 13.82},
    {5, 5, 18.47},
    {6, 6, 20.52},
    {7, 7, 22.46},
    {16, 16, 37.70},
    {100, 100, 148.23},
    {1000, 100, 148.23},
    {UINT64_C(3) << 62, 3, 13.82},
    {UINT64_C(5) << 61, 5, 18.47},
};

static void check_uniform(uint64_t bound, unsigned bins, double limit)
{
    enum { DRAWS = 300000 };
    unsigned counts[100] = {0};
    double expected = (double)DRAWS / bins, chi = 0;
    uint64_t above = 0;
    struct rng rng;

    rng_seed(&rng, 42, bound);
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        uint64_t drawn = rng_below(&rng, bound);

        if (drawn < bound)
            counts[drawn / (bound / bins)]++;
        else
            above++;
    }
    for (unsigned bin = 0; bin < bins; bin++)
        chi += (counts[bin] - expected) * (counts[bin] - expected) / expected;
    tap_ok(!above && chi < limit, "uniform below %llu: chi-square %.1f of %.1f", (unsigned long long)bound, chi, limit);
}

static void check_ends(void)
{
    bool zero = true, below = true;
    struct rng rng;

    rng_seed(&rng, 1, 1);
    for (int draw = 0; draw < 1000; draw++) {
        zero &= !rng_below(&rng, 1);
        below &= rng_below(&rng, UINT64_MAX) < UINT64_MAX && rng_below(&rng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1)
                                                                                                             << 63;
    }
    tap_ok(zero, "below 1 is 0");
    tap_ok(below, "the largest bounds");
}

static int compare(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;

    return (left > right) - (left < right);
}

static void check_streams(void)
{
    enum { SEEDS = 8, USES = RNG_LAYOUT + 1, WORKERS = 1024, ALL = SEEDS * USES * WORKERS };
    static uint64_t firsts[ALL];
    struct rng rng, again;
    size_t made = 0, same = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++)
        for (unsigned use = 0; use < USES; use++)
            for (unsigned worker = 0; worker < WORKERS; worker++) {
                rng_seed(&rng, seed, rng_stream((enum rng_use)use, worker));
                firsts[made++] = rng_next(&rng);
            }
    qsort(firsts, made, sizeof *firsts, compare);
    for (size_t index = 1; index < made; index++)
        same += firsts[index] == firsts[index - 1];
    tap_ok(!same, "seeds, uses and workers have streams of their own");
    rng_seed(&rng, 7, 7);
    rng_seed(&again, 7, 7);
    tap_ok(rng_next(&rng) == rng_next(&again), "a stream can be had again");
}

int main(void)
{
    check_answers();
    for (size_t index = 0; index < sizeof uniform / sizeof *uniform; index++)
        check_uniform(uniform[index].bound, uniform[index].bins, uniform[index].limit);
    check_ends();
    check_streams();
    return tap_done();
}
