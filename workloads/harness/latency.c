/* Log-linear histogram: see latency.h. */
#include "harness.h"

#include <string.h>

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
}

static int bucket_of(uint64_t ns)
{
    int shift;

    if (ns < LATENCY_SUB)
        return (int)ns;
    if (ns >> LATENCY_MAX_BITS)
        return LATENCY_BUCKETS - 1;
    shift = 63 - __builtin_clzll(ns) - LATENCY_SUB_BITS;
    return (shift + 1) * LATENCY_SUB + (int)((ns >> shift) - LATENCY_SUB);
}

uint64_t histogram_lower_ns(int bucket)
{
    int shift = bucket / LATENCY_SUB - 1;

    if (shift < 0)
        return (uint64_t)bucket;
    return (uint64_t)(bucket % LATENCY_SUB + LATENCY_SUB) << shift;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->counts[bucket_of(ns)]++;
    histogram->total++;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    int i;

    for (i = 0; i < LATENCY_BUCKETS; i++)
        into->counts[i] += from->counts[i];
    into->total += from->total;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile)
{
    uint64_t rank = (uint64_t)(quantile * (double)histogram->total);
    uint64_t seen = 0, lower, middle;
    int i;

    if ((double)rank < quantile * (double)histogram->total)
        rank++; /* nearest rank: rounded up, and at least the first */
    if (rank == 0)
        rank = 1;
    for (i = 0; i < LATENCY_BUCKETS - 1; i++) {
        seen += histogram->counts[i];
        if (seen >= rank)
            break;
    }
    if (i == LATENCY_BUCKETS - 1)
        return histogram->max_ns;
    lower = histogram_lower_ns(i);
    middle = lower + (histogram_lower_ns(i + 1) - lower) / 2;
    return middle < histogram->max_ns ? middle : histogram->max_ns;
}
