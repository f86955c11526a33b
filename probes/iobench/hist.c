#include "iobench/bench.h"

#define PARTS (1U << HIST_BITS) /* buckets of every power of two */

static unsigned bucket_of(uint64_t value)
{
    if (value < PARTS)
        return (unsigned)value;
    if (value >> HIST_TOP)
        return HIST_BUCKETS - 1;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return ((power - HIST_BITS) << HIST_BITS) + (unsigned)(value >> (power - HIST_BITS));
}

void hist_add(struct hist *hist, uint64_t value)
{
    if (!hist->count++ || value < hist->least)
        hist->least = value;
    hist->sum += value;
    if (value > hist->most)
        hist->most = value;
    hist->buckets[bucket_of(value)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    if (!from->count)
        return;
    if (!into->count || from->least < into->least)
        into->least = from->least;
    if (from->most > into->most)
        into->most = from->most;
    into->count += from->count;
    into->sum += from->sum;
    /* Skip empty buckets: adding 0 would write to untouched memory and so allocate it. */
    for (unsigned bucket = 0; bucket < HIST_BUCKETS; bucket++)
        if (from->buckets[bucket])
            into->buckets[bucket] += from->buckets[bucket];
}

uint64_t hist_bound(unsigned bucket)
{
    unsigned power = bucket >> HIST_BITS;
    return power ? (uint64_t)(PARTS + bucket % PARTS) << (power - 1) : bucket;
}
