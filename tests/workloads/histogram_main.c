/* Times in ns on standard input, one a line; what the harness's histogram makes of them. */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
    static struct histogram half, whole;
    uint64_t ns;
    int i, lines = 0;

    while (scanf("%" SCNu64, &ns) == 1) {
        histogram_add(lines++ % 2 ? &half : &whole, ns);
    }
    histogram_merge(&whole, &half);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", whole.total,
           histogram_quantile_ns(&whole, 0.5), histogram_quantile_ns(&whole, 0.99),
           whole.max_ns);
    for (i = 0; i < LATENCY_BUCKETS; i++)
        if (whole.counts[i] != 0)
            printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", histogram_lower_ns(i),
                   i + 1 < LATENCY_BUCKETS ? histogram_lower_ns(i + 1) : UINT64_MAX,
                   whole.counts[i]);
    return 0;
}
