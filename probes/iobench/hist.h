/* Log-linear histograms of latencies: fixed relative error, mergeable; the host has percentiles. */
#ifndef ANDROSTEP_IOBENCH_HIST_H
#define ANDROSTEP_IOBENCH_HIST_H

#include <stdint.h>

/*
 * Values below 2^HIST_BITS have a bucket each; above, every power of two is cut into 2^HIST_BITS equal buckets: the
 * width of a bucket is at most 1/2^HIST_BITS of its lower bound. Values from 2^HIST_TOP on fall into the last bucket.
 */
#define HIST_BITS    6
#define HIST_TOP     40 /* 2^40 ns: 18 minutes */
#define HIST_BUCKETS ((HIST_TOP - HIST_BITS + 1) << HIST_BITS)

/* Empty while all is 0: those of parts that never happen cost no memory. */
struct hist {
    uint64_t count, sum, least, most; /* exact */
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);

/* Lower bound of a bucket; of bucket HIST_BUCKETS: the end of the last. */
uint64_t hist_bound(unsigned bucket);

#endif
