/*
 * Log-linear histogram of times in ns: 32 buckets for each power of two, so a bucket is
 * at most 1/32 (3.1 %) of its lower bound wide; below 64 ns each bucket is 1 ns.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>

#define LATENCY_SUB_BITS 5
#define LATENCY_SUB (1 << LATENCY_SUB_BITS)
#define LATENCY_MAX_BITS 40 /* some 18 minutes; longer times go to the last bucket */
#define LATENCY_BUCKETS ((LATENCY_MAX_BITS - LATENCY_SUB_BITS + 1) * LATENCY_SUB)

struct histogram {
    uint64_t max_ns;
    uint64_t total;
    uint64_t counts[LATENCY_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* Lower bound of a bucket, ns; the next bucket's is its end. */
uint64_t histogram_lower_ns(int bucket);

/* The middle of the bucket that holds this quantile (nearest rank), at most max_ns. */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile);

#endif
