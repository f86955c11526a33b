/* Log-linear histograms of latencies with a fixed relative error. They can be merged; the host computes percentiles. */
#pragma once

#include <stdint.h>

/* Values below 2^HIST_BITS have a bucket each. Above, every power of two is split into 2^HIST_BITS equal buckets, so
 * that the width of a bucket is at most 1/2^HIST_BITS of its lower bound. Values from 2^HIST_TOP on are in the last
 * bucket. */
#define HIST_BITS    6
#define HIST_TOP     40 /* 2^40 ns: 18 minutes */
#define HIST_BUCKETS ((HIST_TOP - HIST_BITS + 1) << HIST_BITS)

/* A histogram; all zero: empty. Histograms of unused parts stay untouched and use no memory. */
struct hist {
    uint64_t count, sum, least, most; /* exact */
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);

/* Return the lower bound of a bucket; for bucket HIST_BUCKETS the end of the last one. */
uint64_t hist_bound(unsigned bucket);
